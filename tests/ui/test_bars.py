"""The comparison bars: what they show, what stays in view, what is repainted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from tui.widgets.bars import BarRow, ComparisonBars, first_in_view

FOUR = (
    BarRow("NVIDIA GTX 1080 Ti", 4 / 36, "4", "2019"),
    BarRow("this run", 9.02 / 36, "9.02", style="this"),
    BarRow("yesterday", 9.31 / 36, "9.31", style="earlier"),
    BarRow("Intel i7-9700K", 1, "36", "2019", badge="batch 32"),
)


class WatchedBars(ComparisonBars):
    """Bars that note which lines they were asked for."""

    def __init__(self, **options):
        super().__init__(**options)
        self.painted: list[int] = []

    def render_line(self, y):
        self.painted.append(y)
        return super().render_line(y)


class BarsApp(App[None]):
    """Comparison bars that fill the screen."""

    def __init__(self, **options):
        super().__init__()
        self.bars = WatchedBars(**options)

    def compose(self) -> ComposeResult:
        yield self.bars


def rows(bars: ComparisonBars) -> list[str]:
    return [bars.render_line(y).text for y in range(bars.size.height)]


def numbered(count: int, this: int | None = None) -> tuple[BarRow, ...]:
    return tuple(
        BarRow(f"box {i}", (i + 1) / count, str(i), style="this" if i == this else "published")
        for i in range(count)
    )


async def test_rows_are_marker_label_bar_value_and_notes():
    app = BarsApp()
    async with app.run_test(size=(60, 5)):
        app.bars.show(FOUR)
        assert rows(app.bars) == [
            "  NVIDIA GTX 1080 Ti ━━                 4     2019          ",
            "▶ this run           ━━━━               9.02                ",
            "· yesterday          ━━━━               9.31                ",
            "  Intel i7-9700K     ━━━━━━━━━━━━━━━━  36     2019  batch 32",
            " " * 60,
        ]


async def test_plain_characters_show_the_same_rows():
    app = BarsApp(ascii=True)
    async with app.run_test(size=(40, 3)):
        app.bars.show(FOUR)
        assert rows(app.bars) == [
            "  NVIDIA GTX 1080 Ti -        4         ",
            "> this run           =-       9.02      ",
            "  ... 2 more                            ",
        ]


async def test_a_narrow_row_gives_up_detail_then_badge_then_bar_and_keeps_the_value():
    app = BarsApp()
    async with app.run_test(size=(40, 4)) as pilot:
        app.bars.show(FOUR)
        assert rows(app.bars)[3] == "  Intel i7-9700K     ━━━━━━  36     bat…"
        await pilot.resize_terminal(28, 4)
        await pilot.pause()
        assert rows(app.bars)[3] == "  Intel i7-9700K ━━━━  36   "
        await pilot.resize_terminal(14, 4)
        await pilot.pause()
        assert rows(app.bars)[1] == "▶ thi…    9.02"


async def test_an_unknown_number_has_no_bar():
    app = BarsApp()
    async with app.run_test(size=(40, 2)):
        app.bars.show((BarRow("this run", None, "–", style="this"), BarRow("K80", 1, "20")))
        assert rows(app.bars)[0].split() == ["▶", "this", "run", "–"]


async def test_labels_are_cut_by_cells_not_by_characters():
    app = BarsApp()
    async with app.run_test(size=(40, 2)):
        app.bars.show((BarRow("日本語の計算機の名前です", 0.5, "1"), BarRow("K80 🚀", 1, "2")))
        wide, emoji = rows(app.bars)
        assert wide.startswith("  日本語の計算機の名…  ━")
        assert cell_len(wide) == cell_len(emoji) == 40
        assert cell_len(wide.partition("━")[0]) == cell_len(emoji.partition("━")[0])


@pytest.mark.parametrize(
    "label", ["[/x]", "[@click=app.quit]x[/]", "[Conv2D]", "[bold red]loss[/]"]
)
async def test_labels_are_shown_as_they_are(label):
    app = BarsApp()
    async with app.run_test(size=(120, 2)) as pilot:
        app.bars.show((BarRow(label, 1, label, label, badge=label),))
        await pilot.pause()
        assert rows(app.bars)[0].count(label) == 4
        assert not app.screen.get_style_at(4, 0).meta


async def test_this_run_is_emphasised_without_colour():
    app = BarsApp()
    async with app.run_test(size=(60, 4)):
        app.bars.show(FOUR)
        bold = [next(iter(app.bars.render_line(y))).style.bold for y in range(4)]
        assert [bool(b) for b in bold] == [False, True, False, False]


async def test_this_run_is_always_in_view_and_the_rest_is_counted():
    app = BarsApp()
    async with app.run_test(size=(40, 5)):
        app.bars.show(numbered(12, this=1))
        assert labels(app) == ["box 0", "box 1", "box 2", "box 3", "… 8 more"]
        app.bars.show(numbered(12, this=7))
        assert labels(app) == ["box 5", "box 6", "box 7", "box 8", "… 5 more above, 3 below"]
        app.bars.show(numbered(12, this=11))
        assert labels(app) == ["box 8", "box 9", "box 10", "box 11", "… 8 more above"]


async def test_rows_stay_where_they_are_while_this_run_moves_within_view():
    app = BarsApp()
    async with app.run_test(size=(40, 5)):
        app.bars.show(numbered(12, this=7))
        before = labels(app)
        app.bars.show(numbered(12, this=8))
        assert labels(app) == before


async def test_a_single_line_shows_this_run():
    app = BarsApp()
    async with app.run_test(size=(40, 1)):
        app.bars.show(numbered(12, this=7))
        assert labels(app) == ["box 7"]


async def test_all_rows_that_fit_are_shown_without_a_count():
    app = BarsApp()
    async with app.run_test(size=(40, 12)):
        app.bars.show(numbered(12, this=7))
        assert labels(app) == [f"box {i}" for i in range(12)]


@given(
    this_run=st.none() | st.integers(0, 40),
    first=st.integers(0, 60),
    shown=st.integers(1, 50),
    total=st.integers(1, 41),
)
def test_the_view_never_leaves_the_rows_nor_this_run(this_run, first, shown, total):
    if this_run is not None:
        this_run %= total
    begin = first_in_view(this_run, first, shown, total)
    assert 0 <= begin <= max(0, total - shown)
    assert this_run is None or begin <= this_run < begin + shown


async def test_only_the_rows_that_differ_are_repainted():
    app = BarsApp()
    async with app.run_test(size=(60, 4)) as pilot:
        app.bars.show(FOUR)
        await pilot.pause()
        app.bars.painted.clear()
        app.bars.show((FOUR[0], BarRow("this run", 0.26, "9.36", style="this"), *FOUR[2:]))
        await pilot.pause()
        assert app.bars.painted == [1]


async def test_equal_bars_repaint_nothing():
    app = BarsApp()
    async with app.run_test(size=(60, 4)) as pilot:
        app.bars.show(FOUR)
        await pilot.pause()
        app.bars.painted.clear()
        app.bars.show(tuple(FOUR))
        app.bars.show((BarRow("NVIDIA GTX 1080 Ti", 4.01 / 36, "4", "2019"), *FOUR[1:]))
        await pilot.pause()
        assert app.bars.painted == []


async def test_rows_that_are_gone_are_cleared():
    app = BarsApp()
    async with app.run_test(size=(60, 4)) as pilot:
        app.bars.show(FOUR)
        await pilot.pause()
        app.bars.show(FOUR[:3])
        await pilot.pause()
        assert app.screen._compositor.render_strips()[3].text.strip() == ""
        app.bars.show(())
        await pilot.pause()
        assert [strip.text.strip() for strip in app.screen._compositor.render_strips()] == [""] * 4


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 2), (9, 4), (200, 1)])
async def test_any_size_is_drawn_in_full(size):
    app = BarsApp()
    async with app.run_test(size=size):
        app.bars.show(FOUR)
        assert len(rows(app.bars)) == size[1]
        assert all(cell_len(row) == size[0] for row in rows(app.bars))


def labels(app: BarsApp) -> list[str]:
    """Return each row up to its bar, without marker."""
    return [row[2:].partition(" ━")[0].partition(" ╸")[0].strip() for row in rows(app.bars)]
