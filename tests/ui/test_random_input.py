"""Keys, clicks, the wheel and sizes in any order on any screen: no crash, no hang, q leaves.

DLMON_TEST_INPUTS says how many on each screen, DLMON_TEST_SEED with which it begins.
"""

import asyncio
import os
import signal

import pytest
from fakes.hands import Hands
from fakes.recorded import recorded_host
from fakes.screens import screen_text
from fakes.states import STATES, staged
from fakes.sweeps import plan_of

from dlmon.sweep.log import SweepWriter, new_header
from dlmon.sweep.runner import SweepRun
from tui.screens.question import QuestionScreen

INPUTS = int(os.environ.get("DLMON_TEST_INPUTS", "12"))
SEED = int(os.environ.get("DLMON_TEST_SEED", "1"))
# As fast as keys come from a terminal that was held up.
AT_ONCE = 6
STARTS = (
    *(("live", "1000-epochs"), ("live", "recording"), ("compare", "earlier-runs")),
    *(("gpus", "8-gpus-in-depth"), ("replay", "completed"), ("processes", "in-depth")),
    *(("home", "earlier-runs"), ("sessions", "earlier-runs"), ("watch", "2-gpus")),
    *((view, "earlier-runs") for view in ("hosts", "sweep", "host_replay")),
)


@pytest.fixture(autouse=True)
def nothing_real_is_touched(monkeypatch):
    """No run of a sweep is made, and no process gets a signal."""

    async def wait_until_stopped(run):
        while not run.stopping:  # noqa: ASYNC110 - a sweep has no event for it
            await asyncio.sleep(0.01)
        run.writer.close()
        run.ended = True

    def nobody(*_):
        raise ProcessLookupError

    monkeypatch.setattr(SweepRun, "run", wait_until_stopped)
    monkeypatch.setattr(os, "kill", nobody)
    monkeypatch.setattr(signal, "pidfd_send_signal", nobody)


def start_of(view, folder):
    """Return what the app is started with for a view that needs more than its session."""
    if view == "hosts":
        return {"hosts": ("gpu1", "gpu2", "gpu3")}
    if view == "host_replay":
        return {"replayed": tuple(recorded_host(folder, f"gpu{n}", gpus=n) for n in (1, 2))}
    if view == "sweep":
        header = new_header(plan_of({"batch_size": [32, 64, 128]}, 2), 1, 1_795_186_560.0)
        return {"sweep": SweepRun(SweepWriter.create(folder, header), None, lambda one: None)}
    return {}


async def leave(app, pilot):
    """Press q on each screen, s where it is asked; escape where that means something else."""
    answered = None
    for number in range(60):
        if not app.is_running:
            return
        screen = app.screen
        if isinstance(screen, QuestionScreen) and screen is not answered:
            answered = screen
            await pilot.press("s")
        else:
            await pilot.press(("q", "escape")[number % 2])
    raise AssertionError(f"q does not leave\n{screen_text(app)}")


@pytest.mark.parametrize(("view", "state"), STARTS)
async def test_whatever_is_pressed_clicked_and_resized_q_leaves(view, state, tmp_path):
    left, seed, done = INPUTS, SEED, []
    try:
        # What leaves dlmon is among it; then another begins.
        while left > 0:
            start = start_of(view, tmp_path / str(seed))
            with staged(STATES[state], view, start=start) as stage:
                async with stage.app.run_test(size=(120, 40)) as pilot:
                    await (pilot.pause() if start else stage.begin(pilot))
                    hands = Hands(stage.app, seed)
                    while left > 0 and stage.app.is_running:
                        done.append([hands.do_anything() for _ in range(AT_ONCE)])
                        left -= AT_ONCE
                        await pilot.pause()
                    await leave(stage.app, pilot)
                    assert stage.app._exception is None
            seed += 1
    except BaseException as error:
        error.add_note(f"after {done[-8:]} with seed {seed}")
        raise
