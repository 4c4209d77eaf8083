"""The comparison bars: what they show, and what stays in view."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult

from tui.live.comparison.bars import NOT_COMPARABLE, BarRow, ComparisonBars

FOUR = (
    BarRow("NVIDIA GTX 1080 Ti", 4 / 36, "4 s", more=("2019",)),
    BarRow("this run", 9.02 / 36, "9.02 s", style="this"),
    BarRow("yesterday", 9.31 / 36, "9.31 s", style="earlier", note="batch 32"),
    BarRow("Intel i7-9700K", 1, "36 s", more=("2019",)),
)


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


def numbered(count: int, this: int | None = None) -> tuple[BarRow, ...]:
    return tuple(
        BarRow(f"box {i}", (i + 1) / count, str(i), style="this" if i == this else "published")
        for i in range(count)
    )


async def test_rows_are_marker_label_bar_value_and_notes():
    app = BarsApp()
    async with app.run_test(size=(60, 5)) as pilot:
        app.bars.show(FOUR, "logarithmic scale")
        assert rows(app.bars) == [
            "  NVIDIA GTX 1080 Ti ██▍                       4 s  2019    ",
            "▶ this run           █████▎                 9.02 s          ",
            "· yesterday          █████▍                 9.31 s  batch 32",
            "  Intel i7-9700K     █████████████████████    36 s  2019    ",
            "  logarithmic scale                                         ",
        ]
        bold = [next(iter(app.bars.render_line(y))).style.bold for y in range(4)]
        assert [bool(b) for b in bold] == [False, True, False, False]
        # A narrow row has no room for notes; the value stays.
        await pilot.resize_terminal(36, 5)
        await pilot.pause()
        assert rows(app.bars)[2].split() == ["·", "yesterday", "█▊", "9.31", "s"]
        await pilot.resize_terminal(16, 5)
        await pilot.pause()
        assert rows(app.bars)[1].rstrip() == "▶ this…   9.02 s"
        app.bars.show(())
        assert [row.strip() for row in rows(app.bars)] == [""] * 5


async def test_what_differs_takes_the_place_of_the_bar_of_a_row_that_is_not_alike():
    app = BarsApp()
    other = BarRow("K80", None, "904 s", note="batch 32, not 64; float16", alike=False)
    async with app.run_test(size=(64, 6)):
        app.bars.show((*FOUR[:2], FOUR[3], other))
        drawn = rows(app.bars)
        assert drawn[3].strip() == NOT_COMPARABLE
        assert "K80                batch 32, not 64; float16" in drawn[4]
        # A run without a figure is none of those.
        app.bars.show((BarRow("this run", None, "–", style="this", alike=False), *FOUR[2:]))
        assert not any(NOT_COMPARABLE in row for row in rows(app.bars))
        assert rows(app.bars)[0].split() == ["▶", "this", "run", "–"]


async def test_where_there_is_nothing_to_compare_with_it_says_so():
    app = BarsApp()
    async with app.run_test(size=(30, 3)):
        app.bars.show((FOUR[1],), instead="No earlier run to compare with.")
        assert [row.strip() for row in rows(app.bars)] == ["No earlier run to compare", "with.", ""]


async def test_labels_are_cut_by_cells_and_shown_as_they_are():
    app = BarsApp()
    label = "[@click=app.quit]x[/]"
    wide = "日本語の計算機の名前です。とても長い名前"
    async with app.run_test(size=(120, 3)) as pilot:
        app.bars.show((BarRow(label, 1, label, more=(label, label)), BarRow(wide, 0.5, "1")))
        await pilot.pause()
        assert rows(app.bars)[0].count(label) == 3
        assert not app.screen.get_style_at(4, 0).meta
        await pilot.resize_terminal(38, 3)
        await pilot.pause()
        assert rows(app.bars)[1].startswith("  日本語の計…")


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


async def test_a_wide_row_has_room_for_more():
    app = BarsApp()
    async with app.run_test(size=(110, 4)) as pilot:
        more = ("2019", "TensorFlow 1.x", "a-repository@83d441f (MIT)")
        app.bars.show(tuple(replace(row, more=more) for row in FOUR))
        assert rows(app.bars)[3].split("36 s  ")[1].split("  ")[0] == "2019"
        assert rows(app.bars)[3].rstrip().endswith("TensorFlow 1.x  a-repository@83d441f (MIT)")
        await pilot.resize_terminal(66, 4)
        await pilot.pause()
        assert "2019" in rows(app.bars)[3]
        assert "a-rep" not in rows(app.bars)[3]


@given(
    bars=st.lists(
        st.builds(
            BarRow,
            label=st.text("ab漢é ", max_size=30),
            fraction=st.none() | st.floats(0, 1),
            value=st.sampled_from(["–", "9.02 s", "~12,345 s", "0.85 s"]),
            style=st.sampled_from(["published", "earlier", "this"]),
            note=st.text("batch 漢", max_size=40),
            more=st.sampled_from([(), ("2019",), ("2019", "TensorFlow", "a source")]),
            alike=st.booleans(),
        ),
        max_size=12,
    ).map(tuple),
    size=st.tuples(st.integers(1, 200), st.integers(1, 15)),
)
@pytest.mark.parametrize("below", ["", "logarithmic scale"])
def test_bars_never_leave_their_room(below, bars, size):
    widget = ComparisonBars()
    widget.show(bars, below)
    drawn = widget.draw(*size)
    assert len(drawn) <= size[1]
    assert all(cell_len("".join(text for text, _ in row)) <= size[0] for row in drawn)
