"""The search in the log: what is found, marked and gone to, whatever stands in the lines."""

import threading

from fakes.recorded import recorded_session
from fakes.screens import until
from textual.geometry import Size

from dlmon.records import Output
from tui.live import log_search
from tui.live.output_pane import OutputPane
from tui.widgets.lines import CHOSEN


def lines_of(*texts):
    return [Output(t=10**13 + n, stream="stdout", text=text) for n, text in enumerate(texts)]


def marked(pane, style):
    return [text for row in pane._rows for text, of_run in row if of_run == style]


class Pane(OutputPane):
    """A pane of a fixed size, without an app."""

    size = Size(40, 5)

    def refresh(self, *regions, **options):
        return self

    def set_titles(self, *texts, right="", **options):
        self.count = right


def test_matches_are_marked_counted_and_gone_to_in_a_circle():
    pane = Pane()
    texts = [f"step {n}" for n in range(100)]
    texts[10], texts[50] = "Loss is [b]NaN[/b]", "nan again"
    pane.show(tuple(lines_of(*texts)), (), folded=False)
    pane.search("nan")
    assert (pane.count, marked(pane, CHOSEN)) == ("2 of 2", ["nan"])
    pane.go_to_match(-1)
    assert (pane.count, marked(pane, CHOSEN)) == ("1 of 2", ["NaN"])
    pane.go_to_match(-1)
    assert pane.count == "2 of 2"
    pane.search("nan a")
    assert (pane.count, marked(pane, CHOSEN)) == ("1 of 1", ["nan a"])
    pane.search("(")
    assert pane.count == "no match"
    pane.search("")
    assert pane.count == "100 lines"


def test_the_time_since_the_start_stands_before_each_line_and_is_not_searched():
    pane = Pane()
    pane.begin_ns = 10**13 - 65 * 10**9
    pane.show(
        tuple(lines_of("a line that is longer than its pane is wide", "01:05")), (), folded=False
    )
    first, second, *_ = ["".join(text for text, _ in row) for row in pane._rows]
    assert first.startswith("  01:05  a line")
    assert second.startswith("         ")
    pane.search("01:05")
    assert marked(pane, CHOSEN) == ["01:05"]


def test_a_match_stays_in_view_while_lines_are_added():
    pane, lines = Pane(), lines_of(*(f"step {n}" for n in range(100)))
    pane.show(tuple(lines[:60]), (), folded=False)
    pane.search("step 7")
    assert "step 7" in "".join(marked(pane, CHOSEN))
    pane.show(tuple(lines), (), folded=False)
    assert pane.count == "1 of 11"
    assert marked(pane, CHOSEN) == ["step 7"]


async def test_keys_search_go_on_and_end_it(show_session):
    *records, result = recorded_session()
    texts = lines_of(*(f"line {n}" for n in range(200)), "last [words]")
    async with show_session([*records, *texts, result], size=(80, 24)) as shown:
        await shown.press("slash", *"line 15")
        assert "11 of 11" in shown.text
        assert "line 159" in shown.text
        await shown.press("enter", "N")
        assert "10 of 11" in shown.text
        await shown.press("n", "n")
        assert "1 of 11" in shown.text
        await shown.press("escape")
        assert "of 11" not in shown.text
        assert shown.screen.maximized is not None
        await shown.press("escape")
        assert shown.screen.maximized is None


async def test_lines_that_the_session_keeps_no_more_are_found_in_its_log(show_session):
    *records, result = recorded_session()
    texts = lines_of("the needle", *(f"line {n}" for n in range(2_000)))
    async with show_session([*records, *texts, result], size=(80, 24)) as shown:
        await shown.press("slash", *"needle")
        await until(shown.pilot, lambda: "1 of 1" in shown.text)
        assert "the needle" in shown.text


async def test_what_was_typed_before_the_log_was_read_is_found_in_it(show_session, monkeypatch):
    *records, result = recorded_session()
    texts = lines_of("the needle", *(f"line {n}" for n in range(2_000)))
    may_read, read = threading.Event(), log_search.read_output

    def read_late(path):
        assert may_read.wait(10)
        return read(path)

    monkeypatch.setattr(log_search, "read_output", read_late)
    async with show_session([*records, *texts, result], size=(80, 24)) as shown:
        await shown.press("slash", *"needle")
        assert "no match" in shown.text
        may_read.set()
        await until(shown.pilot, lambda: "1 of 1" in shown.text)
        assert "the needle" in shown.text
