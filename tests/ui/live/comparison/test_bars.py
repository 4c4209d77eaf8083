"""The comparison bars: what they show, and what stays in view."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.run_comparison import Comparison
from tui.live.comparison.bars import NOT_COMPARABLE, ComparisonBars


def row(label, value, kind="published", **more):
    return ComparisonRow(label, "seconds_per_epoch", kind, value, session=label, **more)


FOUR = (
    row("NVIDIA GTX 1080 Ti", 4.0, year=2019),
    row("this run", 9.02, "this"),
    row("yesterday", 9.31, "earlier", badges=("batch 32",)),
    row("Intel i7-9700K", 36.0, year=2019),
)


def comparison(*rows):
    return Comparison(None, rows, {row.session: row.label for row in rows})


class BarsApp(App[None]):
    """Comparison bars that fill the screen."""

    def __init__(self):
        super().__init__()
        self.bars = ComparisonBars()

    def compose(self) -> ComposeResult:
        yield self.bars


def rows(bars: ComparisonBars) -> list[str]:
    return [bars.render_line(y).text for y in range(bars.size.height)]


def labels(app) -> list[str]:
    """Return what each row is called, without its marker and the thumb."""
    return [row[2:8].strip(" █") for row in rows(app.bars)]


def numbered(count: int, this: int | None = None) -> Comparison:
    kinds = ["this" if i == this else "published" for i in range(count)]
    return comparison(*(row(f"box {i}", i + 1.0, kind) for i, kind in enumerate(kinds)))


async def test_rows_are_marker_label_bar_value_and_notes():
    app = BarsApp()
    async with app.run_test(size=(70, 5)) as pilot:
        app.bars.show(comparison(*FOUR))
        bold = [next(iter(app.bars.render_line(y))).style.bold for y in range(4)]
        assert [bool(b) for b in bold] == [False, True, False, False]
        assert rows(app.bars)[2].split()[-2:] == ["batch", "32"]
        assert rows(app.bars)[3].split()[-1] == "2019"
        # A narrow row has no room for notes; the value stays.
        await pilot.resize_terminal(36, 5)
        await pilot.pause()
        assert rows(app.bars)[2].split() == ["·", "yesterday", "█▊", "9.31", "s"]
        await pilot.resize_terminal(16, 5)
        await pilot.pause()
        assert rows(app.bars)[1].rstrip() == "▶ this…   9.02 s"
        app.bars.show(comparison())
        assert [row.strip() for row in rows(app.bars)] == [""] * 5


async def test_what_differs_takes_the_place_of_the_bar_of_a_row_that_is_not_alike():
    app = BarsApp()
    other = row("K80", 904.0, badges=("batch 32, not 64", "float16"), comparable=False)
    async with app.run_test(size=(66, 6)):
        app.bars.show(comparison(*FOUR[:2], FOUR[3], other))
        drawn = rows(app.bars)
        assert drawn[3].strip() == NOT_COMPARABLE
        assert "K80                batch 32, not 64; float16" in drawn[4]
        # A run that nothing is like has no bar.
        app.bars.show(comparison(FOUR[1], other))
        assert "█" not in "".join(rows(app.bars))


async def test_the_scale_is_logarithmic_beyond_30_to_1_and_says_so():
    app = BarsApp()
    async with app.run_test(size=(60, 6)):
        for value, logarithmic in ((30.0, False), (31.0, True)):
            app.bars.show(comparison(row("a", 1.0), row("b", value)))
            assert ("logarithmic scale" in "".join(rows(app.bars))) == logarithmic


async def test_where_there_is_nothing_to_compare_with_it_says_so():
    app = BarsApp()
    async with app.run_test(size=(30, 3)):
        app.bars.show(comparison(FOUR[1]), "No earlier run to compare with.")
        assert [row.strip() for row in rows(app.bars)] == ["No earlier run to compare", "with.", ""]


async def test_this_run_is_in_view_until_one_scrolls():
    app = BarsApp()
    async with app.run_test(size=(40, 4)) as pilot:
        app.bars.show(numbered(12, this=1))
        assert labels(app) == ["box 0", "box 1", "box 2", "box 3"]
        app.bars.show(numbered(12, this=7))
        assert labels(app) == ["box 5", "box 6", "box 7", "box 8"]
        app.bars.show(numbered(12, this=11))
        assert labels(app) == ["box 8", "box 9", "box 10", "box 11"][:4]
        await pilot._post_mouse_events([events.MouseScrollUp], app.bars, offset=(3, 3))
        assert labels(app) == ["box 5", "box 6", "box 7", "box 8"]
        app.bars.scroll_lines(-100)
        assert labels(app) == ["box 0", "box 1", "box 2", "box 3"]
        app.bars.choose(10)
        assert "box 10" in labels(app)


@given(
    shown=st.lists(
        st.builds(
            row,
            label=st.text("ab漢é ", max_size=30),
            value=st.floats(0.01, 1e5),
            kind=st.sampled_from(["published", "earlier", "this"]),
            badges=st.lists(st.text("batch 漢", min_size=1, max_size=40), max_size=2).map(tuple),
            framework=st.sampled_from([None, "TensorFlow"]),
            comparable=st.booleans(),
        ),
        max_size=12,
    ),
    size=st.tuples(st.integers(1, 200), st.integers(1, 15)),
)
def test_bars_never_leave_their_room(shown, size):
    widget = ComparisonBars()
    widget.show(comparison(*shown))
    drawn = widget.draw(*size)
    assert len(drawn) <= size[1]
    assert all(cell_len("".join(text for text, _ in row)) <= size[0] for row in drawn)
