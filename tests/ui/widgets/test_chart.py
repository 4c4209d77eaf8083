"""The chart: what it draws, and that it repaints no more than it must."""

from dataclasses import replace

import pytest
from fakes.screens import drag
from textual.app import App, ComposeResult

from tui.drawing.time_axis import TimeLabels
from tui.widgets.chart import Chart, ChartPicture, picture_rows

MARKUP = ["[/x]", "[@click=app.quit]x[/]", "[Conv2D]", "[bold red]loss[/]"]


class ChartApp(App[None]):
    """One chart that fills the screen."""

    def __init__(self, border: bool = False, **options):
        super().__init__()
        self.chart = Chart(**options)
        self.border = border
        self.received: list[object] = []
        self.told: list[int] = []

    def compose(self) -> ComposeResult:
        if self.border:
            self.chart.styles.border = ("round", "red")
        yield self.chart

    def on_chart_grabbed(self):
        self.received.append("grabbed")

    def on_chart_dragged(self, message):
        self.received.append(("dragged", message.columns))

    def on_chart_column_clicked(self, message):
        self.received.append(message.column)

    def on_chart_plot_resized(self):
        self.told.append(self.chart.plot_columns)


def rows(chart: Chart) -> list[str]:
    return [chart.render_line(y).text for y in range(chart.size.height)]


def drawn(picture, width=24, height=7, axis=Chart.AXIS_WIDTH, **options):
    """Return the rows of a picture as texts."""
    runs = picture_rows(picture, width, height, axis, **options)
    return ["".join(text for text, _ in row) for row in runs]


def screen_row(app: App[None], y: int) -> str:
    return "".join(segment.text for segment in app.screen._compositor.render_strips()[y])


RISE = ChartPicture(
    columns=(*range(0, 32, 2), None, None, *[30] * 10),
    top=30,
    marks=((0, "1"), (18, "2")),
    shades=((0, 3, "compile"), (28, 33, "validation")),
)


def test_the_picture_is_axis_grid_line_and_marks_and_0_lies_on_the_baseline():
    assert drawn(RISE) == [
        "   30       ⢀⠎ ⠉⠉⠉⠉⠉    ",
        "           ⡠⠃           ",
        "   15 ┈┈┈┈⡔⠁┈┈┈┈┈┈┈┈┈┈┈┈",
        "        ⢀⠎              ",
        "       ⡠⠃               ",
        "    0 ⡔⠁                ",
        "      ┊1       ┊2       ",
    ]


def test_the_grid_stands_at_the_times_labelled_or_not_and_never_over_what_is_drawn():
    times = TimeLabels(((2, "0:10"), (12, "0:20"), (30, "0:30")))
    for labels in (times, times.unlabelled):
        assert drawn(replace(RISE, times=labels)) == [
            "   30  ┊    ⢀⠎ ⠉⠉⠉⠉⠉ ┊  ",
            "       ┊   ⡠⠃        ┊  ",
            "   15 ┈┼┈┈⡔⠁┼┈┈┈┈┈┈┈┈┼┈┈",
            "       ┊⢀⠎  ┊        ┊  ",
            "       ⡠⠃   ┊        ┊  ",
            "    0 ⡔⠁    ┊        ┊  ",
            "      ┊1       ┊2       ",
        ]


def test_a_chart_without_any_reading_says_why():
    reason = "[GPU] 0: permission denied"
    rows = drawn(ChartPicture((None,) * 40, top=100, reason=reason), 30, 3)
    assert [row[6:].strip() for row in rows] == ["[GPU] 0: permission", "denied", ""]
    assert rows[0][6:] == "  [GPU] 0: permission   "
    assert "denied" not in "".join(drawn(ChartPicture((None, 3), top=100, reason=reason), 30, 3))


def test_the_cursor_is_a_thin_line_with_a_dot_on_the_curve_and_the_value_beside_it():
    assert drawn(replace(RISE, cursor=4, value="8")) == [
        "   30   ▏   ⢀⠎ ⠉⠉⠉⠉⠉    ",
        "        ▏  ⡠⠃           ",
        "   15 ┈┈▏┈⡔⠁┈┈┈┈┈┈┈┈┈┈┈┈",
        "        ▏⠎              ",
        "       ⡠● 8             ",
        "    0 ⡔⠁▏               ",
        "      ┊1▏      ┊2       ",
    ]
    assert drawn(replace(RISE, cursor=5))[0][8] == "▕"
    # A value without room at the right stands at the left; a gap has no dot.
    columns = (*(15.0,) * 34, None, 15.0)
    rows = drawn(ChartPicture(columns, top=30, cursor=35, value="1,234"))
    assert rows[3].endswith("⠒ 1,234 ●")
    gap = drawn(ChartPicture((*columns[:33], None, None, 15.0), top=30, cursor=33))
    assert "●" not in "".join(gap)
    for beside in (-1, 36, 400):
        assert drawn(replace(RISE, cursor=beside)) == drawn(RISE)


@pytest.mark.parametrize("size", [(1, 1), (1, 30), (200, 1), (7, 3)])
def test_any_size_is_drawn_in_full(size):
    rows = drawn(RISE, *size, axis=0, filled=True, tall_shades=True)
    assert len(rows) == size[1]
    assert all(len(row) == size[0] for row in rows)


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


async def test_a_chart_tells_its_columns_whenever_it_is_shown_or_resized():
    """What was drawn for a chart without a size would stay empty."""
    app = ChartApp()
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        assert app.told[-1] == 2 * (40 - Chart.AXIS_WIDTH)
        app.chart.display = False
        await pilot.pause()
        assert app.chart.plot_columns == 0
        count = len(app.told)
        app.chart.display = True
        await pilot.pause()
        assert app.told[count:] == [2 * (40 - Chart.AXIS_WIDTH)]
        await pilot.resize_terminal(60, 10)
        await pilot.pause()
        assert app.told[-1] == 2 * (60 - Chart.AXIS_WIDTH)


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


async def test_titles_are_shown_as_they_are():
    app = ChartApp(border=True)
    async with app.run_test(size=(60, 5)) as pilot:
        for title in MARKUP:
            app.chart.set_titles(title, subtitle=title, right=f"GPU {title}")
            await pilot.pause()
            top = screen_row(app, 0)
            assert top.startswith(f"╭─ {title} ──")
            assert top.endswith(f"── GPU {title} ─╮")
            assert title in screen_row(app, 4)
            assert not app.screen.get_style_at(5, 0).meta
