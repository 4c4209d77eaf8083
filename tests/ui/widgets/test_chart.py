"""The chart: what it draws, and that it repaints no more than it must."""

from dataclasses import replace

import pytest
from fakes.glyphs import GLYPHS
from fakes.screens import drag
from textual.app import App, ComposeResult
from textual.geometry import Region

from dlmon.figures.glyphs import use_glyphs
from tui.drawing.time_axis import TimeLabels
from tui.widgets.chart import Chart, ChartPicture

MARKUP = ["[/x]", "[@click=app.quit]x[/]", "[Conv2D]", "[bold red]loss[/]"]


class WatchedChart(Chart):
    """A chart that notes which lines it was asked for, and which repaints it asked for."""

    def __init__(self, **options):
        super().__init__(**options)
        self.painted: list[int] = []
        self.refreshed: list[tuple[Region, ...]] = []
        self.layouts = 0

    def render_line(self, y):
        self.painted.append(y)
        return super().render_line(y)

    def refresh(self, *regions, repaint=True, layout=False, recompose=False):
        self.refreshed.append(regions)
        self.layouts += layout
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def forget(self):
        self.painted.clear()
        self.refreshed.clear()
        self.layouts = 0


class ChartApp(App[None]):
    """One chart that fills the screen."""

    def __init__(self, border: bool = False, ascii: bool = False, **options):
        super().__init__()
        use_glyphs(GLYPHS[ascii])
        self.chart = WatchedChart(**options)
        self.border = border
        self.received: list[object] = []

    def compose(self) -> ComposeResult:
        if self.border:
            self.chart.styles.border = ("round", "red")
        yield self.chart

    def on_chart_grabbed(self):
        self.received.append("grabbed")

    def on_chart_dragged(self, message):
        self.received.append(("dragged", message.columns))

    def on_chart_pointed(self, message):
        self.received.append(message.column)


def rows(chart: Chart) -> list[str]:
    return [chart.render_line(y).text for y in range(chart.size.height)]


def screen_row(app: App[None], y: int) -> str:
    return "".join(segment.text for segment in app.screen._compositor.render_strips()[y])


RISE = ChartPicture(
    columns=(*range(0, 32, 2), None, None, *[30] * 10),
    top=30,
    marks=((0, "1"), (18, "2")),
    shades=((0, 3, "compile"), (28, 33, "validation")),
)


async def test_the_picture_is_axis_grid_line_and_marks_and_0_lies_on_the_baseline():
    app = ChartApp()
    async with app.run_test(size=(24, 7)):
        app.chart.show(RISE)
        assert rows(app.chart) == [
            "   30       ⢀⠎ ⠉⠉⠉⠉⠉    ",
            "           ⡠⠃           ",
            "   15 ┈┈┈┈⡔⠁┈┈┈┈┈┈┈┈┈┈┈┈",
            "        ⢀⠎              ",
            "       ⡠⠃               ",
            "    0 ⡔⠁                ",
            "      ┊1       ┊2   ╌v╌ ",
        ]


async def test_the_grid_stands_at_the_times_labelled_or_not_and_never_over_what_is_drawn():
    app = ChartApp()
    times = TimeLabels(((2, "0:10"), (12, "0:20"), (30, "0:30")))
    async with app.run_test(size=(24, 7)):
        for labels in (times, times.unlabelled):
            app.chart.show(replace(RISE, times=labels))
            assert rows(app.chart) == [
                "   30  ┊    ⢀⠎ ⠉⠉⠉⠉⠉ ┊  ",
                "       ┊   ⡠⠃        ┊  ",
                "   15 ┈┼┈┈⡔⠁┼┈┈┈┈┈┈┈┈┼┈┈",
                "       ┊⢀⠎  ┊        ┊  ",
                "       ⡠⠃   ┊        ┊  ",
                "    0 ⡔⠁    ┊        ┊  ",
                "      ┊1       ┊2   ╌v╌ ",
            ]


async def test_plain_characters_draw_the_same_picture():
    app = ChartApp(ascii=True)
    async with app.run_test(size=(24, 7)):
        app.chart.show(replace(RISE, times=TimeLabels(((30, "0:30"),))))
        assert rows(app.chart) == [
            "   30       .- -----    ",
            "           .'           ",
            "   15     -'         +  ",
            "        .-              ",
            "       .'               ",
            "    0 -'                ",
            "      |1       |2   ~v~ ",
        ]
        assert "".join(rows(app.chart)).isascii()


async def test_labels_given_stand_at_equal_distances():
    app = ChartApp(filled=True)
    async with app.run_test(size=(20, 5)):
        app.chart.show(ChartPicture((50,) * 28, top=100, left_labels=("100%", "50%", "0")))
        assert rows(app.chart) == [
            " 100%               ",
            "                    ",
            "  50% ⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶",
            "      ⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿",
            "    0 ⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿",
        ]


async def test_a_chart_without_any_reading_says_why():
    app = ChartApp()
    async with app.run_test(size=(30, 3)):
        app.chart.show(ChartPicture((None,) * 40, top=100, reason="[GPU] 0: permission denied"))
        lines = [row[6:].strip() for row in rows(app.chart)]
        assert "  ".join(lines).split("  ") == ["[GPU] 0: permission", "denied", ""]
        assert rows(app.chart)[0][6:] == "  [GPU] 0: permission   "
        app.chart.show(ChartPicture((None, 3), top=100, reason="[GPU] 0: permission denied"))
        assert "denied" not in "".join(rows(app.chart))


async def test_a_picture_of_a_wider_chart_keeps_its_newest_columns():
    app = ChartApp()
    async with app.run_test(size=(20, 4)):
        columns = (None,) * 72 + (0,) * 26 + (9, 9)
        app.chart.show(ChartPicture(columns, top=9, marks=((72, "3"), (96, "4"))))
        assert rows(app.chart) == [
            "    9              ⡏",
            "                  ⢠⠃",
            "    0 ⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣸ ",
            "      ┊3          ┊4",
        ]


async def test_the_cursor_is_a_thin_line_with_a_dot_on_the_curve_and_the_value_beside_it():
    app = ChartApp()
    async with app.run_test(size=(24, 7)):
        app.chart.show(replace(RISE, cursor=4, value="8"))
        assert rows(app.chart) == [
            "   30   ▏   ⢀⠎ ⠉⠉⠉⠉⠉    ",
            "        ▏  ⡠⠃           ",
            "   15 ┈┈▏┈⡔⠁┈┈┈┈┈┈┈┈┈┈┈┈",
            "        ▏⠎              ",
            "       ⡠● 8             ",
            "    0 ⡔⠁▏               ",
            "      ┊1▏      ┊2   ╌v╌ ",
        ]
        app.chart.show(replace(RISE, cursor=5))
        assert rows(app.chart)[0][8] == "▕"


async def test_a_value_without_room_at_the_right_stands_at_the_left_and_a_gap_has_no_dot():
    app = ChartApp()
    async with app.run_test(size=(24, 7)):
        columns = (*(15.0,) * 34, None, 15.0)
        app.chart.show(ChartPicture(columns, top=30, cursor=35, value="1,234"))
        assert rows(app.chart)[3].endswith("⠒ 1,234 ●")
        app.chart.show(ChartPicture((*columns[:33], None, None, 15.0), top=30, cursor=33))
        assert "●" not in "".join(rows(app.chart))


async def test_the_cursor_can_be_seen_in_plain_characters():
    app = ChartApp(ascii=True)
    async with app.run_test(size=(24, 7)):
        app.chart.show(replace(RISE, cursor=4))
        assert [row[8] for row in rows(app.chart)] == ["|", "|", "|", "|", "o", "|", "|"]


async def test_a_stall_is_marked_in_its_column_and_before_what_else_lies_there():
    for ascii, mark in ((False, "▲"), (True, "!")):
        app = ChartApp(ascii=ascii, tall_shades=True)
        async with app.run_test(size=(24, 7)):
            shades = (*RISE.shades, (8, 9, "stall"))
            app.chart.show(replace(RISE, shades=shades, marks=((8, "1"), (18, "2"))))
            assert rows(app.chart)[6][10] == mark
            plain, stalled = background_at(app.chart, 13, 1), background_at(app.chart, 10, 1)
            assert stalled not in (plain, background_at(app.chart, 20, 1))


@pytest.mark.parametrize("cursor", [-1, 36, 400])
async def test_a_cursor_beside_the_chart_is_not_drawn(cursor):
    app = ChartApp()
    async with app.run_test(size=(24, 7)):
        app.chart.show(RISE)
        before = rows(app.chart)
        app.chart.show(replace(RISE, cursor=cursor))
        assert rows(app.chart) == before


async def test_a_moved_cursor_repaints_no_more_than_the_cells_it_left_and_took():
    app = ChartApp()
    async with app.run_test(size=(24, 7)) as pilot:
        app.chart.show(replace(RISE, cursor=30))
        await pilot.pause()
        app.chart.forget()
        app.chart.show(replace(RISE, cursor=28))
        (regions,) = app.chart.refreshed
        assert {(region.x, region.right) for region in regions} == {(20, 22)}


async def test_a_click_shows_the_column_and_a_drag_how_far():
    app = ChartApp(border=True)
    async with app.run_test(size=(26, 9)) as pilot:
        app.chart.show(RISE)
        await pilot.click(Chart, offset=(1 + 6 + 3, 2))
        assert app.received == ["grabbed", 6]
        app.received.clear()
        await pilot.mouse_down(Chart, offset=(12, 2))
        await drag(pilot, Chart, (9, 2))
        await drag(pilot, Chart, (12, 2))
        await pilot.mouse_up(Chart, offset=(12, 2))
        assert app.received[:2] == ["grabbed", ("dragged", -6)]
        # Where it was put back, it was dragged all the same, not clicked.
        assert set(app.received[2:]) == {("dragged", 0)}


async def test_the_mouse_without_a_button_drags_nothing():
    app = ChartApp(border=True)
    async with app.run_test(size=(26, 9)) as pilot:
        app.chart.show(RISE)
        await pilot.mouse_down(Chart, offset=(12, 2))
        await pilot.hover(Chart, offset=(9, 2))
        await drag(pilot, Chart, (6, 2))
        assert app.received == ["grabbed"]
        assert app.mouse_captured is None


async def test_a_chart_that_is_hidden_is_dragged_no_more():
    app = ChartApp(border=True)
    async with app.run_test(size=(26, 9)) as pilot:
        await pilot.mouse_down(Chart, offset=(12, 2))
        app.chart.display = False
        await pilot.pause()
        assert app.mouse_captured is None
        app.chart.display = True
        await pilot.pause()
        await drag(pilot, Chart, (6, 2))
        assert app.received == ["grabbed"]


async def test_on_a_picture_of_a_wider_chart_a_click_shows_its_own_column():
    app = ChartApp()
    async with app.run_test(size=(20, 4)) as pilot:
        app.chart.show(ChartPicture((1.0,) * 100, top=9))
        await pilot.click(Chart, offset=(6, 1))
        assert app.received == ["grabbed", 72]


async def test_it_shows_how_many_columns_fit():
    app = ChartApp()
    async with app.run_test(size=(46, 5)) as pilot:
        assert app.chart.plot_columns == 2 * 40
        await pilot.resize_terminal(26, 5)
        await pilot.pause()
        assert app.chart.plot_columns == 2 * 20


async def test_a_narrow_chart_gives_all_its_width_to_the_line():
    app = ChartApp()
    async with app.run_test(size=(8, 2)):
        assert app.chart.plot_columns == 16
        app.chart.show(ChartPicture((1,) * 16, top=1, marks=((0, "1"),)))
        assert rows(app.chart) == ["⠉" * 8, " " * 8]


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (1, 30), (200, 1), (7, 3), (18, 2)])
@pytest.mark.parametrize("options", [{}, {"ascii": True}, {"filled": True, "tall_shades": True}])
async def test_any_size_is_drawn_in_full(size, options):
    app = ChartApp(**options)
    async with app.run_test(size=size):
        app.chart.show(RISE)
        assert len(rows(app.chart)) == size[1]
        assert all(len(row) == size[0] for row in rows(app.chart))


async def test_no_room_at_all_is_no_error():
    app = ChartApp(border=True)
    async with app.run_test(size=(2, 2)) as pilot:
        app.chart.show(RISE)
        app.chart.set_titles("Throughput", right="5,540 samples/s")
        await pilot.pause()
        assert app.chart.size == (0, 0)
        assert app.chart.plot_columns == 0


async def test_a_resize_draws_again():
    app = ChartApp()
    async with app.run_test(size=(24, 7)) as pilot:
        app.chart.show(RISE)
        await pilot.resize_terminal(40, 4)
        await pilot.pause()
        assert screen_row(app, 3) == f"{'      ┊1       ┊2   ╌v╌':40}"


async def test_an_unchanged_picture_repaints_nothing():
    app = ChartApp()
    async with app.run_test(size=(24, 7)) as pilot:
        app.chart.show(RISE)
        await pilot.pause()
        app.chart.forget()
        app.chart.show(ChartPicture(RISE.columns, 30, 0, RISE.marks, RISE.shades))
        await pilot.pause()
        assert app.chart.refreshed == []
        assert app.chart.painted == []


async def test_a_picture_that_differs_invisibly_repaints_nothing():
    app = ChartApp()
    async with app.run_test(size=(24, 7)) as pilot:
        app.chart.show(ChartPicture((50.0,) * 30, top=100))
        await pilot.pause()
        app.chart.forget()
        app.chart.show(ChartPicture((50.1,) * 30, top=100))
        await pilot.pause()
        assert app.chart.refreshed == []


async def test_only_the_rows_that_differ_are_repainted_and_nothing_is_laid_out():
    app = ChartApp()
    async with app.run_test(size=(24, 7)) as pilot:
        app.chart.show(ChartPicture((50,) * 30, top=100))
        await pilot.pause()
        app.chart.forget()
        app.chart.show(ChartPicture((50,) * 30 + (45,) * 4, top=100))
        await pilot.pause()
        assert app.chart.painted == [3]
        assert app.chart.layouts == 0
        assert screen_row(app, 3) == "   50 ⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⠒⣄⣀┈"


async def test_titles_are_shown_as_they_are():
    for title in MARKUP:
        app = ChartApp(border=True)
        async with app.run_test(size=(60, 5)) as pilot:
            app.chart.set_titles(title, subtitle=title, right=f"GPU {title}")
            await pilot.pause()
            top = screen_row(app, 0)
            assert top.startswith(f"╭─ {title} ──")
            assert top.endswith(f"── GPU {title} ─╮")
            assert title in screen_row(app, 4)
            assert not app.screen.get_style_at(5, 0).meta


async def test_titles_share_a_narrow_border_as_far_as_it_goes():
    app = ChartApp(border=True)
    async with app.run_test(size=(30, 5)) as pilot:
        app.chart.set_titles("Throughput", right="5,540 samples/s ± 12")
        await pilot.pause()
        assert screen_row(app, 0) == "╭─ Throughput 5,540 sample… ─╮"
        await pilot.resize_terminal(50, 5)
        await pilot.pause()
        assert screen_row(app, 0) == "╭─ Throughput ──────────── 5,540 samples/s ± 12 ─╮"


async def test_unchanged_titles_repaint_nothing():
    app = ChartApp(border=True)
    async with app.run_test(size=(40, 5)) as pilot:
        app.chart.set_titles("CPU 38 %", "6 of 16 cores", "busy")
        await pilot.pause()
        app.chart.forget()
        app.chart.set_titles("CPU 38 %", "6 of 16 cores", "busy")
        await pilot.pause()
        assert app.chart.refreshed == []


async def test_a_new_title_repaints_the_border_and_no_line_of_the_chart():
    app = ChartApp(border=True)
    async with app.run_test(size=(40, 5)) as pilot:
        app.chart.show(RISE)
        app.chart.set_titles("CPU 38 %")
        await pilot.pause()
        app.chart.forget()
        app.chart.set_titles("CPU 39 %")
        await pilot.pause()
        assert app.chart.painted == []
        assert screen_row(app, 0).startswith("╭─ CPU 39 % ──")


async def test_a_shade_lies_behind_the_marks_and_with_tall_shades_behind_the_line():
    app = ChartApp()
    async with app.run_test(size=(24, 7)):
        app.chart.show(RISE)
        plain, shaded = background_at(app.chart, 23, 6), background_at(app.chart, 20, 6)
        assert shaded != plain
        assert background_at(app.chart, 20, 0) == plain
    app = ChartApp(tall_shades=True)
    async with app.run_test(size=(24, 7)):
        app.chart.show(RISE)
        assert background_at(app.chart, 20, 0) == background_at(app.chart, 20, 6) != plain
        assert background_at(app.chart, 6, 6) != background_at(app.chart, 20, 6)


async def test_equal_styles_are_one_segment():
    app = ChartApp()
    async with app.run_test(size=(24, 7)):
        app.chart.show(RISE)
        assert [segment.text for segment in app.chart.render_line(0)] == [
            "   30 ",
            "      ⢀⠎ ⠉⠉⠉⠉⠉    ",
        ]


async def test_a_theme_gives_the_line_its_colours():
    app = ChartApp()
    async with app.run_test(size=(24, 7)) as pilot:
        app.chart.show(RISE)
        dark = [line_color(app.chart, y) for y in (0, 5)]
        app.theme = "textual-light"
        await pilot.pause()
        light = [line_color(app.chart, y) for y in (0, 5)]
        assert len({*dark, *light}) == 4


def background_at(chart: Chart, x: int, y: int):
    segment = next(iter(chart.render_line(y).crop(x, x + 1)))
    return segment.style.bgcolor


def line_color(chart: Chart, y: int):
    return list(chart.render_line(y))[-1].style.color


async def test_every_theme_draws_the_chart_and_its_title():
    app = ChartApp(border=True, tall_shades=True)
    async with app.run_test(size=(40, 9)) as pilot:
        app.chart.show(RISE)
        app.chart.set_titles("Throughput", right="12/s")
        for theme in app.available_themes:
            app.theme = theme
            await pilot.pause()
            assert screen_row(app, 0) == "╭─ Throughput ────────────────── 12/s ─╮"
            assert "⠉⠉⠉⠉⠉" in screen_row(app, 1)
