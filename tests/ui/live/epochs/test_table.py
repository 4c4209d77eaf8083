"""The table of epochs: which columns have room, and what its border says."""

from dataclasses import replace

from fakes.recorded import folded, recorded_session
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from dlmon.records import Epoch
from tui.live.epochs import EpochTable, columns_of

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
    columns, left_out = columns_of(epochs_with(3, *names), lambda one: str(one.epoch), width)
    return [heading for heading, _ in columns], left_out


def rows_of(table, width, height=8):
    return ["".join(text for text, _ in row).rstrip() for row in table.draw(width, height)]


def test_each_metric_stands_beside_that_of_its_validation():
    shown, _ = headings(100, *TWO_METRICS)
    assert shown[3:] == ["loss", "val_loss", "acc", "val_acc", "auc", "val_auc", "samples/s"]


def test_tokens_have_room_before_samples_and_stand_after_them():
    epochs = [replace(epoch, tokens=4096) for epoch in epochs_with(3, "loss")]

    def seen(width):
        return [heading for heading, _ in columns_of(epochs, lambda one: "1", width)[0]][-2:]

    assert [seen(80), seen(40)] == [["samples/s", "tokens/s"], ["loss", "tokens/s"]]


def test_a_heading_is_shortened_as_far_as_it_tells_the_metrics_apart():
    shown = ["acc", "discrimi…otal_lr"]
    assert headings(100, "sparse_categorical_accuracy", "discriminator_total_lr")[0][3:5] == shown
    assert headings(100, "acc", "accuracy")[0][3:5] == ["acc", "accuracy"]


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


@given(
    st.lists(st.sampled_from(["loss", "acc", "auc", "lr", "f1"]), unique=True, max_size=5),
    st.booleans(),
    st.integers(10, 120),
)
def test_whatever_has_room_fits_and_what_has_none_is_counted(names, validated, width):
    metrics = [*names, *(f"val_{name}" for name in names if validated)]
    columns, left_out = columns_of(epochs_with(3, *metrics), lambda one: "1", width)
    widths = [max(map(cell_len, (heading, *cells))) for heading, cells in columns]
    assert sum(widths) + 2 * (len(widths) - 1) <= max(width, 9)
    assert len([name for name, _ in columns if name in metrics]) + left_out == len(metrics)


def asked_for(steps):
    return replace(MODEL, samples_per_epoch=60_000, steps_per_epoch=1_875, steps_cap=steps)


async def test_the_border_says_what_has_no_room_and_what_was_cut_short():
    app = TableApp()
    async with app.run_test(size=(76, 8)) as pilot:
        table = app.table
        epochs = tuple(replace(one, whole=False, steps=50) for one in epochs_with(3, "loss"))
        table.show(epochs, False, model=asked_for(50))
        assert str(table.border_subtitle) == "50 of 1,875 steps, limited by --steps  ↑↓ choose"
        assert "*" not in "".join(rows_of(table, 60))
        cut_off = (*epochs[:2], replace(epochs[2], steps=20))
        table.show(cut_off, False, model=asked_for(50))
        both = "50 of 1,875 steps, limited by --steps  * incomplete epoch  ↑↓ choose"
        assert str(table.border_subtitle) == both
        assert [row.split()[0] for row in rows_of(table, 60)[1:]] == ["1", "2", "*3"]
        table.show(cut_off, False, "epoch", {epochs[0].begin}, model=asked_for(50))
        assert str(table.border_subtitle).endswith("Enter shows what differed")
        # What has no room is left out whole; the key stays.
        await pilot.resize_terminal(44, 8)
        await pilot.pause()
        assert str(table.border_subtitle) == "▲ 1 slow: Enter shows what differed"
        table.show(epochs_with(3, *TWO_METRICS))
        assert str(table.border_subtitle) == "+3 metrics  ↑↓ choose"
