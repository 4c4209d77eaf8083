"""The comparison bars: what they show, and what stays in view."""

from dataclasses import replace

from textual import events
from textual.app import App, ComposeResult

from dlmon.comparison.references import ComparisonRow
from dlmon.figures.comparison.run_rows import Comparison
from tui.live.comparison import ComparisonBars


def row(label, value, kind="published", **more):
    return ComparisonRow(label, "seconds_per_epoch", kind, value, session=label, **more)


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


async def test_the_scale_is_logarithmic_beyond_30_to_1_and_says_so():
    app = BarsApp()
    async with app.run_test(size=(60, 6)):
        for value, logarithmic in ((30.0, False), (31.0, True)):
            app.bars.show(comparison(row("a", 1.0), row("b", value)))
            assert ("logarithmic scale" in app.bars.scale) == logarithmic


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


async def test_an_epoch_that_compiled_says_so_beside_its_time():
    app = BarsApp()
    async with app.run_test(size=(60, 4)):
        *others, this = numbered(12, this=11).rows
        app.bars.show(comparison(*others, replace(this, includes_compile=True)))
        assert "with compile" in rows(app.bars)[-1]
