"""Every screen in the states and at the sizes that differ: what must hold, and how each one looks.

The pictures are texts in `__snapshots__`, one file for a state, to be read by whoever reviews
a change of them. `python -m tests.fakes.states STATE 120x40` prints one without a test; after
a change that is meant to show, accept with `pytest tests/ui/test_states.py --snapshot-update`.
"""

import pytest
from fakes.recorded import HOST, folded
from fakes.screens import until
from fakes.states import NAMED_SESSIONS, RECORDINGS, SIZES, STATES, on_stage, pictures
from rich.cells import cell_len

from dlmon.figures import units
from dlmon.figures.session.phases import phase_text
from dlmon.render.ascii import plain

OVER_ANOTHER = ("help", "palette", "starting")
# Of what is shown of a machine, other screens show more, and phases differ by their names.
SHOWN_LIVE = (
    *("importing", "compiling", "training", "opening", "evaluating", "stalled"),
    *("failed-with-traceback", "data-bound", "waiting-for-rank", "ranks-without-sensors"),
    *("own-script-without-samples", "stalled-and-over"),
    *("completed", "failed", "interrupted", "nan-loss", "slow-cpu", "own-script", "badges"),
    *("no-gpu", "power-cap", "lost-gpu", "unsupported-gpu", "16-gpus", "256-cores"),
    *("long-names", "wide-names", "right-to-left-names", "1000-epochs", "earlier-runs"),
    *RECORDINGS,
)
SHOWN = [
    *(("live", state) for state in SHOWN_LIVE),
    *(("watch", state) for state in ("training", "no-gpu", "16-gpus", "in-depth", "wide-names")),
    *(("home", state) for state in ("training", "wide-names")),
    ("script", "training"),
    *((view, "earlier-runs") for view in ("sessions", *NAMED_SESSIONS)),
    *(("gpus", state) for state in ("in-depth", "no-gpu-in-depth", "8-gpus-in-depth", "mig")),
    *(("gpus", state) for state in ("asleep", "unsupported-gpu", "over-in-depth", "wide-names")),
    *(("processes", state) for state in ("in-depth", "8-gpus-in-depth", "wide-names")),
    *(("processes", state) for state in ("other-namespace", "over-in-depth")),
    ("processes-at-first", "in-depth"),
    *((view, "training") for view in ("log", "quit", "replay", "replay-seek", *OVER_ANOTHER)),
    *(("replay", "completed"), ("quit", "recording")),
    *(("metrics", state) for state in ("training", "importing", "nan-loss", "wide-names")),
    *(("ranks", state) for state in ("waiting-for-rank", "ranks-without-sensors")),
    *((view, "stalled-and-over") for view in ("stacks", "profile")),
]
# Those that differ by more than that other characters stand for the same.
SHOWN_IN_ASCII = [
    *(("live", state) for state in ("training", "wide-names")),
    *(("home", "training"), ("sessions", "earlier-runs"), ("gpus", "in-depth")),
]
CASES = [
    *((view, state, "unicode") for view, state in SHOWN),
    *((view, state, "ascii") for view, state in SHOWN_IN_ASCII),
]
# Those that are drawn otherwise where there is much room.
LARGE = {
    "training",
    "own-script",
    "16-gpus",
    "8-gpus-in-depth",
    "earlier-runs",
    "wide-names",
    "recording",
}
LARGE |= {"stalled", "failed-with-traceback", "waiting-for-rank", "completed"}
# The shapes that a screen can have: few of anything, many of everything, another one over it.
SHAPES = [
    *((view, "training") for view in ("live", "quit", "home", "watch")),
    *(("live", "16-gpus"), ("gpus", "8-gpus-in-depth"), ("sessions", "earlier-runs")),
]
ODD_SIZES = ((1, 1), (60, 16), (300, 80))
FOREIGN = ("long-names", "wide-names", "right-to-left-names")


def assert_it_fits(text, size):
    width, height = size
    rows = text.split("\n")
    assert len(rows) == height
    assert max(map(cell_len, rows)) <= width


# ---- what always holds ----


def assert_plain_characters_can_stand_for_it(text, state, is_ascii):
    # This key is written as a word then.
    text = text.replace("⏎", "")
    sent = text if is_ascii else plain(text)
    assert not {c for c in sent if not " " <= c <= "~"} - {"\n"}
    # What has no plain character became a question mark.
    if state not in FOREIGN:
        assert sent.count("?") == text.count("?")


def assert_it_shows_what_matters_most(text, recorded):
    session = folded(recorded.records)
    snapshot = session.snapshot()
    now = snapshot.samples_per_second_now
    speed = None if now is None else now.per_second
    if snapshot.samples_per_second is not None:
        speed = snapshot.samples_per_second.mean
    assert recorded.header.workload in text
    assert any(
        word in text for word in (standing(recorded, session), "STALLED", "NAN LOSS", "no step for")
    )
    # Of a run that failed or stands, other things matter.
    if speed is not None and "  failed  " not in text and "STALLED" not in text:
        assert f"{units.rate(speed)} " in text
        assert "samples/s" in text


def standing(recorded, session):
    """Return the word for how a session stands."""
    if session.result is not None:
        return session.result.status
    if not recorded.locked:
        return "interrupted" if recorded.header.host == HOST else "unknown"
    return phase_text(session.phase)


@pytest.mark.parametrize(("view", "state"), SHAPES)
async def test_no_size_breaks_a_screen_and_none_leaves_a_trace(view, state):
    small, large = SIZES[:2]
    async with on_stage(state, view, size=large) as stage:
        opened = stage.text
        for size in (*ODD_SIZES, small):
            await stage.resize(size)
            assert_it_fits(stage.text, size)
        await stage.settle()
        resized = stage.text
        await stage.resize(large)
        await until(stage.pilot, lambda: stage.text == opened)
    async with on_stage(state, view, size=small) as stage:
        # Opened at a size, it looks as resized to it.
        await until(stage.pilot, lambda: stage.text == resized)


@pytest.mark.parametrize("view", ["live", "gpus", "home", "watch", "sessions"])
async def test_where_there_is_no_room_the_size_that_is_needed_is_shown(view):
    for size, text in (await pictures(STATES["training"], view, ((59, 24), (80, 15)))).items():
        assert_it_fits(text, size)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        assert lines == [
            f"This window is too small: {size[0]} columns × {size[1]} rows.",
            "dlmon needs at least 60 × 16.",
            "Make it larger, or press Ctrl+Q to quit.",
        ]


# ---- how it looks ----


@pytest.mark.parametrize(("view", "state", "alphabet"), CASES)
async def test_it_looks_right(text_snapshot, view, state, alphabet):
    is_ascii = alphabet == "ascii"
    large = state in LARGE and not is_ascii and view not in OVER_ANOTHER
    taken = await pictures(STATES[state], view, SIZES if large else SIZES[:2], ascii=is_ascii)
    for size, text in taken.items():
        assert_it_fits(text, size)
        assert_plain_characters_can_stand_for_it(text, state, is_ascii)
        if view not in ("quit", "delete", "palette"):
            last = text.splitlines()[-1]
            assert any(way_out in last for way_out in (" Quit", " Back", " Close")), last
        if view == "live" and state not in RECORDINGS and not is_ascii:
            assert_it_shows_what_matters_most(text, STATES[state])
    text = "".join(
        f"{f' {view}, {state}, {width}×{height} ':═^{width}}\n{picture}\n"
        for (width, height), picture in taken.items()
    )
    assert text == text_snapshot
