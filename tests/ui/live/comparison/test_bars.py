"""The comparison bars: what they show, what stays in view, what is repainted."""

import re
from dataclasses import replace

import pytest
from fakes.glyphs import GLYPHS, drawn_in_ascii
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.app import App, ComposeResult

from dlmon.comparison.compare import ComparisonRow
from dlmon.figures.glyphs import use_glyphs
from tui.live.comparison.bar_rows import BarRow, Legend, bar_rows, legend_of
from tui.live.comparison.bars import NOT_COMPARABLE, ComparisonBars

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

    def __init__(self, ascii=False):
        super().__init__()
        use_glyphs(GLYPHS[ascii])
        self.bars = WatchedBars()

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
            "  NVIDIA GTX 1080 Ti █▊                 4     2019          ",
            "▶ this run           ████               9.02                ",
            "· yesterday          ████▏              9.31                ",
            "  Intel i7-9700K     ████████████████  36     2019  batch 32",
            " " * 60,
        ]


async def test_plain_characters_show_the_same_rows():
    app = BarsApp(ascii=True)
    async with app.run_test(size=(40, 3)):
        app.bars.show(FOUR)
        assert rows(app.bars) == [
            "  NVIDIA GTX 1080 Ti =        4     2019",
            "> this run           ==       9.02      ",
            "  ... 2 more                            ",
        ]


async def test_a_narrow_row_gives_up_detail_then_badge_then_bar_and_keeps_the_value():
    app = BarsApp()
    async with app.run_test(size=(40, 6)) as pilot:
        app.bars.show(FOUR)
        assert rows(app.bars)[3] == "  Intel i7-9700K     ███████  36     (1)"
        assert rows(app.bars)[4].rstrip() == "  (1) batch 32"
        await pilot.resize_terminal(28, 6)
        await pilot.pause()
        assert rows(app.bars)[3] == "  Intel i7-9700K  ███  36   "
        await pilot.resize_terminal(14, 4)
        await pilot.pause()
        assert rows(app.bars)[1] == "▶ thi…    9.02"


LONG_BADGE = "the published code sets no TPU strategy, so the host CPU almost certainly worked"


async def test_a_long_badge_stands_below_the_bars_and_leaves_them_their_length():
    app = BarsApp()
    async with app.run_test(size=(56, 10)):
        app.bars.show((*FOUR, BarRow("TPU", 1, "382", "2019", badge=LONG_BADGE)))
        drawn = rows(app.bars)
        assert drawn[4].count("█") >= 12
        assert drawn[3].rstrip().endswith("(1)")
        assert drawn[4].rstrip().endswith("(2)")
        assert " ".join(" ".join(drawn[5:]).split()) == f"(1) batch 32 (2) {LONG_BADGE}"


async def test_what_differs_takes_the_place_of_the_bar_of_a_row_that_is_not_alike():
    app = BarsApp()
    other = BarRow("K80", None, "904", "2017", badge="batch 32, not 64; float16", alike=False)
    async with app.run_test(size=(64, 6)) as pilot:
        app.bars.show((*FOUR[:2], replace(FOUR[3], badge=""), other))
        drawn = "  K80                batch 32, not 64; float16      904     2017"
        assert rows(app.bars)[4] == drawn
        assert rows(app.bars)[2].count("█") == 29
        style = {part.text.strip(): part.style for part in app.bars.render_line(4)}
        assert style["904"].color != next(iter(app.bars.render_line(2))).style.color
        await pilot.resize_terminal(44, 6)
        await pilot.pause()
        assert rows(app.bars)[4] == "  K80               batch 32,…  904     2017"
        assert not any("(1)" in row for row in rows(app.bars))


async def test_a_badge_that_all_published_rows_share_is_shown_once():
    app = BarsApp()
    badge = "batch 100, not 32"
    async with app.run_test(size=(56, 8)):
        app.bars.show(tuple(replace(row, badge=badge) for row in FOUR if row.style == "published"))
        assert rows(app.bars)[2].rstrip() == "  published batch 100; here 32"
        assert not any("batch" in row or "(1)" in row for row in rows(app.bars)[:2])
        alike = tuple(replace(row, badge=badge) for row in FOUR if row.style == "published")
        app.bars.show(alike, Legend(heading="published batch 100; here 32"))
        assert not any("batch" in row for row in rows(app.bars))


async def test_what_differs_gives_way_to_a_name_where_it_is_cut_and_stands_above():
    app = BarsApp()
    badge = "50,000 samples, not 1,000"
    unlike = BarRow("NVIDIA GTX 1060", None, "4.00 s", badge=badge, alike=False)
    async with app.run_test(size=(36, 6)):
        app.bars.show((FOUR[0], unlike))
        assert "NVIDIA GTX 10… 50,000 sam…" in rows(app.bars)[2]
        app.bars.show((FOUR[0], unlike), Legend(heading="published 50,000 samples; here 1,000"))
        assert "NVIDIA GTX 1060  " in rows(app.bars)[2]
        assert "50,0" not in rows(app.bars)[2]


async def test_units_stand_under_each_other_and_so_do_decimals():
    app = BarsApp()
    async with app.run_test(size=(50, 3)):
        values = ("4.00 s", "10.7 s", "320 s")
        app.bars.show(tuple(BarRow("box", 0.5, value) for value in values))
        assert [row[-8:] for row in rows(app.bars)] == ["  4.00 s", " 10.7  s", "320    s"]


async def test_cut_text_ends_in_dots_in_plain_characters():
    app = BarsApp(ascii=True)
    async with app.run_test(size=(40, 1)):
        app.bars.show((BarRow("a name that is far too long for this", 0.5, "1"),))
        assert ".. " in rows(app.bars)[0]
        assert "~" not in rows(app.bars)[0]


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
        assert wide.startswith("  日本語の計算機の名前…  █")
        assert cell_len(wide) == cell_len(emoji) == 40
        assert cell_len(wide.partition("█")[0]) == cell_len(emoji.partition("█")[0])


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
        assert labels(app) == ["box 5", "box 6", "box 7", "box 8", "… 5 above, 3 below"]
        app.bars.show(numbered(12, this=11))
        assert labels(app) == ["box 8", "box 9", "box 10", "box 11", "… 8 above"]


async def test_rows_stay_where_they_are_while_this_run_moves_within_view():
    app = BarsApp()
    async with app.run_test(size=(40, 5)):
        app.bars.show(numbered(12, this=7))
        before = labels(app)
        app.bars.show(numbered(12, this=6))
        assert labels(app) == before


async def test_earlier_runs_never_push_the_published_neighbours_out_of_view():
    app = BarsApp()
    among = [*numbered(4), *numbered(3, this=1), *numbered(4)]
    among[4], among[6] = replace(among[4], style="earlier"), replace(among[6], style="earlier")
    among[5] = replace(among[5], label="this run")
    async with app.run_test(size=(40, 4)):
        app.bars.show(tuple(among))
        assert labels(app) == ["box 3", "this run", "box 0", "… 5 above, 3 below"]


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


async def test_one_can_scroll_to_every_row_and_this_run_stays_in_view():
    app = BarsApp()
    async with app.run_test(size=(40, 5)):
        app.bars.show(numbered(12, this=1))
        app.bars.scroll_lines(5)
        assert labels(app) == ["box 1", "box 6", "box 7", "box 8", "… 5 above, 3 below"]
        app.bars.scroll_lines(100)
        assert labels(app) == ["box 1", "box 9", "box 10", "box 11", "… 8 above"]
        app.bars.scroll_lines(-100)
        assert labels(app) == ["box 0", "box 1", "box 2", "box 3", "… 8 more"]
        app.bars.show(numbered(12, this=10))
        assert labels(app) == ["box 0", "box 1", "box 2", "box 10", "… 7 above, 1 below"]


async def test_the_wheel_scrolls():
    app = BarsApp()
    async with app.run_test(size=(40, 5)) as pilot:
        app.bars.show(numbered(12))
        await pilot.pause()
        await pilot._post_mouse_events([events.MouseScrollDown], app.bars, offset=(3, 3))
        assert labels(app)[0] == "box 3"


async def test_bars_out_of_proportion_say_so():
    app = BarsApp()
    async with app.run_test(size=(60, 5)) as pilot:
        app.bars.show(FOUR, Legend(logarithmic=True))
        assert rows(app.bars)[4].rstrip() == "  logarithmic scale"
        await pilot.resize_terminal(60, 4)
        await pilot.pause()
        assert rows(app.bars)[3].rstrip() == "  … 1 more  logarithmic scale"
        await pilot.resize_terminal(24, 4)
        await pilot.pause()
        assert rows(app.bars)[3].rstrip() == "  … 1 more  log scale"


async def test_a_wide_row_has_room_for_more():
    app = BarsApp()
    async with app.run_test(size=(110, 4)) as pilot:
        more = ("TensorFlow 1.x", "a-repository@83d441f (MIT)")
        app.bars.show(tuple(replace(row, more=more) for row in FOUR))
        assert rows(app.bars)[3].split("  36     ")[1].rstrip() == (
            "2019  TensorFlow 1.x  a-repository@83d441f (MIT)  batch 32"
        )
        await pilot.resize_terminal(80, 4)
        await pilot.pause()
        assert "TensorFlow 1.x  batch 32" in rows(app.bars)[3]


# ---- the rows of a comparison ----


async def test_what_is_so_of_all_runs_stands_once_below_the_bars():
    busy = "machine was busy at the start: CPU {} %"
    runs = [
        ComparisonRow(
            label, "seconds_per_epoch", kind, 9.0, badges=(text, "1 epoch"), busy=text, session=kind
        )
        for label, kind, text in (
            ("this run", "this", busy.format(30)),
            ("GPU", "earlier", busy.format(40)),
        )
    ]
    assert [row.badge for row in bar_rows(runs, {})] == ["1 epoch", "1 epoch"]
    assert bar_rows(runs[:1], {})[0].badge == f"{busy.format(30)}; 1 epoch"
    app = BarsApp()
    async with app.run_test(size=(90, 8)) as pilot:
        app.bars.show(bar_rows(runs, {}), legend_of(runs))
        await pilot.pause()
        shown = [row.rstrip() for row in rows(app.bars)]
    assert shown[2:] == ["  the machine was busy at the start of each run shown", *[""] * 5]


@given(
    bars=st.lists(
        st.builds(
            BarRow,
            label=st.text("ab漢é ", max_size=30),
            fraction=st.none() | st.floats(0, 1),
            value=st.sampled_from(["–", "9.02 s", "~12,345 s", "0.85 s"]),
            detail=st.sampled_from(["", "2019"]),
            style=st.sampled_from(["published", "earlier", "this"]),
            badge=st.text("batch 漢", max_size=40),
            more=st.sampled_from([(), ("TensorFlow 1.x",), ("TF", "a source")]),
            alike=st.booleans(),
        ),
        max_size=12,
    ).map(tuple),
    size=st.tuples(st.integers(1, 200), st.integers(1, 15)),
    logarithmic=st.booleans(),
    ascii=st.booleans(),
)
def test_bars_never_leave_their_room(bars, size, logarithmic, ascii):
    widget = ComparisonBars()
    with drawn_in_ascii(ascii):
        widget.show(bars, Legend(logarithmic))
        drawn = widget.draw(*size)
    assert len(drawn) <= size[1]
    assert all(cell_len("".join(text for text, _ in row)) <= size[0] for row in drawn)


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
    return [re.split(" [█▏▎▍▌▋▊▉]", row[2:])[0].strip() for row in rows(app.bars)]


async def test_a_figure_of_one_s_own_is_seen_to_be_one():
    app = BarsApp()
    async with app.run_test(size=(60, 4)):
        app.bars.show((FOUR[0], replace(FOUR[3], label="My box", badge="", style="own")))
        assert [row[:8] for row in rows(app.bars)[:2]] == ["  NVIDIA", "+ My box"]


ALIKE_AND_NOT = (
    BarRow("this run", None, "181 s", style="this"),
    *(
        BarRow(f"box {value}", None, f"{value} s", badge="batch 32, not 100", alike=False)
        for value in ("25.7", "52.4", "123")
    ),
)


async def test_what_is_not_comparable_stands_below_a_heading_of_its_own():
    app = BarsApp()
    async with app.run_test(size=(60, 8)) as pilot:
        app.bars.show(ALIKE_AND_NOT)
        await pilot.pause()
        shown = [row.strip() for row in rows(app.bars)]
        assert shown[1] == NOT_COMPARABLE
        assert shown[0].startswith("▶ this run")
        assert [row[:8] for row in shown[2:5]] == ["box 25.7", "box 52.4", "box 123 "]
        app.bars.show(ALIKE_AND_NOT[1:])
        assert NOT_COMPARABLE not in "".join(rows(app.bars))
        app.bars.show(ALIKE_AND_NOT[:1])
        assert NOT_COMPARABLE not in "".join(rows(app.bars))


async def test_this_run_never_stands_among_what_is_not_comparable_with_it():
    app = BarsApp()
    this, *others = ALIKE_AND_NOT
    unfinished = replace(this, badge="without its evaluation", alike=False)
    async with app.run_test(size=(60, 8)) as pilot:
        app.bars.show((replace(others[0], alike=True), unfinished, *others[1:]))
        await pilot.pause()
        shown = rows(app.bars)
        heading = next(at for at, row in enumerate(shown) if NOT_COMPARABLE in row)
        assert next(at for at, row in enumerate(shown) if unfinished.label in row) < heading


@pytest.mark.parametrize("height", range(1, 12))
@pytest.mark.parametrize("width", [20, 36, 60])
async def test_what_is_not_comparable_is_marked_or_left_out_at_every_size(width, height):
    app = BarsApp()
    async with app.run_test(size=(width, height)) as pilot:
        app.bars.show(ALIKE_AND_NOT)
        await pilot.pause()
        shown = "\n".join(rows(app.bars))
        assert "not compar" in shown or height == 1
        assert NOT_COMPARABLE[:16] in shown or "box" not in shown


async def test_a_click_below_the_heading_is_of_the_row_that_is_there():
    pointed = []

    class Pointing(BarsApp):
        def on_comparison_bars_pointed(self, message: ComparisonBars.Pointed) -> None:
            pointed.append(message.index)

    app = Pointing()
    async with app.run_test(size=(60, 8)) as pilot:
        app.bars.show(ALIKE_AND_NOT)
        await pilot.pause()
        for y in (0, 1, 2, 4):
            await pilot.click(WatchedBars, offset=(4, y))
        await pilot.pause()
        assert pointed == [0, 1, 3]
