"""The screen that puts two sides of recorded runs beside each other."""

import asyncio
import threading
from dataclasses import replace

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.screens import OneScreen, screen_text, until
from fakes.scripts import script_session

from dlmon.records import Model
from tui.compare.compare_screen import CompareScreen

SIZES = ((80, 24), (120, 40))


def side(log_dir, name, *steps_us, first_loss=1.8, **options):
    """Write a side's logs; return their paths."""
    return [
        write_log(
            log_dir,
            recorded_session(
                session_id=f"{name}-{number}",
                step_us=step_us,
                first_loss=first_loss * (1 + 0.002 * number),
                data="real",
                **options,
            ),
            f"{name}-{number}",
        )
        for number, step_us in enumerate(steps_us)
    ]


@pytest.fixture
def three(tmp_path):
    """Return two sides of three runs each; the new one is slower."""
    return (
        side(tmp_path, "base", 18_000, 18_020, 17_980),
        side(tmp_path, "new", 20_000, 20_010, 19_950, first_loss=1.7),
    )


async def begin(app, pilot):
    await pilot.pause()
    await app.workers.wait_for_complete()
    # A chart gets its size after the text is shown, and is drawn after that.
    await until(
        pilot, lambda: not app.screen.query_one("#curves").display or "┴" in screen_text(app)
    )
    await pilot.pause()


async def shown(sides, size=(120, 40), keys=()):
    app = OneScreen(CompareScreen(*sides))
    async with app.run_test(size=size) as pilot:
        await begin(app, pilot)
        if keys:
            await pilot.press(*keys)
            await pilot.pause()
        return screen_text(app)


# ---- what it shows ----


async def test_it_looks_right(three, text_snapshot):
    texts = [await shown(three, size) for size in SIZES]
    assert "\n\n".join(texts) == text_snapshot


async def test_one_run_a_side_looks_right(tmp_path, text_snapshot):
    sides = side(tmp_path, "base", 18_000), side(tmp_path, "new", 20_000, first_loss=1.7)
    texts = [await shown(sides, size) for size in SIZES]
    assert all("dlmon sweep cifar10-cnn --repeat 3\n" in text for text in texts)
    assert "\n\n".join(texts) == text_snapshot


def sized(log_dir, name, samples):
    """Write the log of a script whose batches have so many samples; return it as a side."""
    header, *records = script_session(samples=samples)
    model = next(record for record in records if isinstance(record, Model))
    records[records.index(model)] = replace(model, batch_size=None, samples_per_epoch=None)
    return [write_log(log_dir, [replace(header, id=name), *records], name)]


async def test_steps_and_samples_are_not_drawn_over_each_other(tmp_path):
    text = await shown((sized(tmp_path, "a", None), sized(tmp_path, "b", 64)))
    assert "NOT COMPARED  with base: one side counts steps, the other samples" in text
    assert "─ Throughput" not in text


async def test_unlike_runs_are_refused_until_enter(tmp_path):
    sides = (
        side(tmp_path, "base", 18_000),
        side(tmp_path, "new", 2_000, workload="mnist-mlp-small"),
    )
    refused = await shown(sides)
    assert "These runs do not compare: network cifar10-cnn, not mnist-mlp-small" in refused
    assert "median step" not in refused
    assert "Anyway" in refused.splitlines()[-1]
    anyway = await shown(sides, keys=["enter"])
    assert "median step" in anyway
    assert "Not comparable: network" in anyway
    assert "Anyway" not in anyway.splitlines()[-1]


async def test_why_nothing_can_be_compared_is_said(tmp_path):
    sides = (
        side(tmp_path, "base", 18_000),
        [
            write_log(
                tmp_path, recorded_session("compiling", session_id="early", data="real"), "early"
            )
        ],
    )
    text = await shown(sides)
    assert "early has no throughput to compare" in text
    # No empty chart stands below it.
    assert "─ Throughput" not in text


# ---- how one gets there, about, and back ----


async def test_what_was_written_meanwhile_is_read_on_request(tmp_path):
    sides = side(tmp_path, "base", 18_000), side(tmp_path, "new", 20_000)
    app = OneScreen(CompareScreen(*sides))
    async with app.run_test(size=(120, 40)) as pilot:
        await begin(app, pilot)
        assert "--repeat 3" in screen_text(app)
        side(tmp_path, "earlier", 18_000, 18_010, 17_990, 18_020)
        await pilot.press("ctrl+l")
        await begin(app, pilot)
        assert "new against base (" in screen_text(app)


# ---- while it is read ----


async def test_how_much_is_read_is_shown_and_leaving_ends_the_reading(three):
    is_left, ended = threading.Event(), threading.Event()

    def slowly(base, new, on_read):
        on_read(0.43)
        is_left.wait(30)
        try:
            on_read(0.5)
        except BaseException:
            ended.set()
            raise

    app = OneScreen(CompareScreen(*three, slowly))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "reading the sessions: 43 %" in screen_text(app))
    is_left.set()
    assert await asyncio.to_thread(ended.wait, 30)
