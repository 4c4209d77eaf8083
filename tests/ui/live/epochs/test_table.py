"""The table of epochs: which columns have room, and what its border says."""

from dataclasses import replace

import pytest
from fakes.recorded import folded, recorded_session
from fakes.screens import until
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from dlmon.records import Epoch
from tui.live.epochs.columns import columns_of
from tui.live.epochs.table import EpochTable

MODEL = folded(recorded_session("training")).snapshot().model
TWO_METRICS = ("accuracy", "auc", "loss", "val_accuracy", "val_auc", "val_loss")
S = 10**9


class TableApp(App[None]):
    """The table alone."""

    def compose(self) -> ComposeResult:
        yield EpochTable()

    @property
    def table(self) -> EpochTable:
        return self.query_one(EpochTable)


def epochs_with(count, *names):
    metrics = dict.fromkeys(names, 0.5)
    return tuple(
        Epoch(n, n * 10 * S, (n * 10 + 9) * S, (n + 1) * 10 * S, True, 50_000, dict(metrics))
        for n in range(count)
    )


def headings(width, *names):
    found = columns_of(epochs_with(3, *names), lambda one: str(one.epoch), width, "…")
    return [heading for heading, _ in found.columns], found


def rows_of(table, width, height=8):
    return ["".join(text for text, _ in row).rstrip() for row in table.draw(width, height)]


def test_each_metric_stands_beside_that_of_its_validation():
    shown, _ = headings(100, *TWO_METRICS)
    assert shown[3:] == ["loss", "val_loss", "acc", "val_acc", "auc", "val_auc", "samples/s"]


@pytest.mark.parametrize("name", ["eval_loss", "valid/loss", "val_loss"])
def test_the_loss_of_a_validation_has_one_heading_whatever_a_framework_calls_it(name):
    shown, _ = headings(100, "loss", name)
    assert shown[3:5] == ["loss", "val_loss"]
    # Of two by the same name, each is spelled as it was reported.
    both, _ = headings(100, "loss", "eval_loss", "val_loss")
    assert both[3:6] == ["loss", "eval_loss", "val_loss"]


def test_a_loss_by_any_spelling_stands_before_other_metrics():
    shown, _ = headings(100, "acc", "Gen_Loss", "loss")
    assert shown[3:6] == ["loss", "Gen_Loss", "acc"]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("sparse_categorical_accuracy",), ["acc"]),
        (("sparse_categorical_accuracy", "accuracy"), ["sparse_c…ccuracy", "accuracy"]),
        (("acc", "accuracy"), ["acc", "accuracy"]),
        (
            ("discriminator_total_up", "discriminator_total_lr"),
            ["discrimi…otal_up", "discrimi…otal_lr"],
        ),
        (("discriminator_total_lr",), ["discriminator_t…"]),
    ],
)
def test_a_heading_is_shortened_only_as_far_as_it_tells_the_metrics_apart(names, shown):
    assert headings(100, *names)[0][3 : 3 + len(names)] == shown


@given(
    st.lists(
        st.text("ab漢_", max_size=40) | st.from_regex(r"(binary_)?(accuracy|acc)", fullmatch=True),
        unique=True,
        max_size=6,
    )
)
def test_no_two_metrics_have_one_heading(names):
    shown, _ = headings(1000, *names)
    metrics = shown[3:-1]
    assert len(metrics) == len(set(metrics)) == len(names)


def test_the_bar_gives_way_before_a_metric_does():
    shown, found = headings(64, *TWO_METRICS)
    assert shown == ["#", "time", "loss", "val_loss", "acc", "val_acc", "auc", "val_auc"]
    assert found.left_out == 0
    shown, found = headings(54, *TWO_METRICS)
    assert shown == ["#", "time", "bar", "loss", "val_loss", "acc", "val_acc"]
    assert found.left_out == 2


@given(
    st.lists(st.sampled_from(["loss", "acc", "auc", "lr", "f1"]), unique=True, max_size=5),
    st.booleans(),
    st.integers(10, 120),
)
def test_whatever_has_room_fits_and_what_has_none_is_counted(names, validated, width):
    metrics = [*names, *(f"val_{name}" for name in names if validated)]
    shown, found = headings(width, *metrics)
    widths = [max(map(cell_len, (heading, *cells))) for heading, cells in found.columns]
    assert sum(widths) + 2 * (len(widths) - 1) <= max(width, 9)
    seen = [name for name in shown if name in metrics]
    assert len(seen) + found.left_out == len(metrics)
    # Where not all have room, no more than the first stands there without its validation.
    alone = {name for name in seen if f"val_{name}" in metrics and f"val_{name}" not in seen}
    assert alone <= set(seen[:1])


async def test_what_has_no_room_is_counted_in_the_border():
    app = TableApp()
    async with app.run_test(size=(60, 8)):
        app.table.show(epochs_with(3, *TWO_METRICS))
        assert "+2 metrics" in str(app.table.border_subtitle)
        app.table.show(epochs_with(3, "loss"))
        assert "metric" not in str(app.table.border_subtitle)


def asked_for(steps):
    return replace(MODEL, samples_per_epoch=60_000, steps_per_epoch=1_875, steps_cap=steps)


async def test_epochs_of_as_many_steps_as_were_asked_for_are_not_incomplete():
    app = TableApp()
    async with app.run_test(size=(76, 8)):
        table = app.table
        epochs = tuple(replace(one, whole=False, steps=50) for one in epochs_with(3))
        table.show(epochs, False, model=asked_for(50))
        assert str(table.border_subtitle) == "50 of 1,875 steps, as asked  ↑↓ choose"
        assert "*" not in "".join(rows_of(table, 60))
        cut_off = (*epochs[:2], replace(epochs[2], steps=20))
        table.show(cut_off, False, model=asked_for(50))
        both = "50 of 1,875 steps, as asked  * incomplete epoch  ↑↓ choose"
        assert str(table.border_subtitle) == both
        assert [row.split()[0] for row in rows_of(table, 60)[1:]] == ["1", "2", "*3"]
        table.show(cut_off, False)
        assert str(table.border_subtitle) == "* incomplete epoch  ↑↓ choose"


@pytest.mark.parametrize("width", [30, 44, 60, 100])
async def test_random_data_are_called_so_in_the_border(width):
    app = TableApp()
    async with app.run_test(size=(width, 8)):
        synthetic = replace(MODEL, data="synthetic", mode="train")
        app.table.show(epochs_with(2), model=synthetic)
        assert "synthetic data" in str(app.table.border_title)
        assert ("(random: nothing to learn)" in str(app.table.border_title)) == (width >= 60)
        app.table.show(epochs_with(2), model=replace(synthetic, mode="inference"))
        assert "learn" not in str(app.table.border_title)
        app.table.show(epochs_with(2), model=replace(synthetic, data="real"))
        assert str(app.table.border_title).strip() == "Epochs"


@pytest.mark.parametrize("width", [44, 60, 80])
@pytest.mark.parametrize("slow", [True, False])
async def test_what_stands_in_the_border_below_has_room_there(width, slow):
    app = TableApp()
    async with app.run_test(size=(width, 8)):
        asked, other, last = (
            replace(one, whole=False, steps=50) for one in epochs_with(3, *TWO_METRICS)
        )
        epochs, marked = (asked, other, replace(last, steps=20)), {asked.begin} if slow else ()
        app.table.show(epochs, False, "epoch", marked, model=asked_for(50))
        note = str(app.table.border_subtitle)
        assert cell_len(note) <= width - 6
        assert note.endswith("Enter shows what differed" if slow else "choose")


def numbers(table):
    """Return which epochs are in view."""
    cells = [row.lstrip("▸ ").split()[0] for row in rows_of(table, 60, table.size.height)[1:]]
    return [int(cell) for cell in cells]


async def resized(app, pilot, height):
    await pilot.resize_terminal(76, height)
    await until(pilot, lambda: app.table.outer_size.height == height)
    await pilot.pause()


async def test_no_row_is_left_empty_where_the_table_becomes_higher():
    app = TableApp()
    async with app.run_test(size=(76, 6)) as pilot:
        table, epochs = app.table, epochs_with(16)
        table.show(epochs, False)
        table.choose(epochs[1])
        assert numbers(table) == [2, 3, 4, 5, 6]
        await resized(app, pilot, 10)
        assert numbers(table) == [*range(1, 10)]
        assert str(table.border_subtitle).endswith("7 newer below")
        await resized(app, pilot, 30)
        assert numbers(table) == [*range(1, 17)]
        assert "below" not in str(table.border_subtitle)


async def test_what_was_chosen_stays_in_view_where_the_table_becomes_lower():
    app = TableApp()
    async with app.run_test(size=(76, 12)) as pilot:
        table, epochs = app.table, epochs_with(16)
        table.show(epochs, False)
        table.choose(epochs[4])
        await resized(app, pilot, 5)
        assert 5 in numbers(table)
        assert len(numbers(table)) == 4


async def test_where_one_has_scrolled_back_no_room_is_left_below_after_a_resize():
    app = TableApp()
    async with app.run_test(size=(76, 6)) as pilot:
        app.table.show(epochs_with(16), False)
        app.table.scroll_lines(-100)
        assert numbers(app.table) == [1, 2, 3, 4, 5]
        await resized(app, pilot, 10)
        assert numbers(app.table) == [*range(1, 10)]
