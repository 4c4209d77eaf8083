"""A report as Markdown, for an issue or a README.

What isn't plainly words and figures stands in a code span, in which nothing means anything: no
link, no picture, no HTML, no mention of somebody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from dlmon.figures.compared import Compared
from dlmon.figures.parts import Bar, Row, Table
from dlmon.figures.report import Report
from dlmon.figures.session_report import SessionReport
from dlmon.figures.sweep_report import SweepReport

# Words and figures, with such signs between them as mean nothing on a page; nothing that would
# begin a list or draw a line.
_PLAIN = re.compile(
    r"(?![-+](?:[-+ ]|$)|\d+[.)](?: |$))(?:[^\W_]|[ .,;:%±×–…()'’▶·°²³✓⚠?+-]|/(?!/)|~(?!~))*"
)
_LINK = re.compile(r"www\.|https?:|ftp:|mailto:", re.IGNORECASE)
_MOST_EPOCHS = 20
_MOST_NOTICES = 20


def markdown_of(report: Report) -> str:
    """Return a report as Markdown."""
    parts: list[str] = []
    for one in report.compared:
        parts += _compared(one)
    if report.together is not None:
        parts += ["## Side by side", *_table(report.together)]
    for name, session in zip(report.names, report.sessions, strict=True):
        parts += [f"## {inline(name)}", *_session(session)]
    for sweep in report.sweeps:
        parts += [f"## Sweep {inline(sweep.title)}", *_sweep(sweep)]
    parts.append(f"Made by dlmon {inline(report.version)}.")
    return "\n\n".join(parts) + "\n"


def inline(text: str) -> str:
    """Return a text that means nothing but itself, in a line or in a cell of a table."""
    text = " ".join(text.split())
    if _PLAIN.fullmatch(text) and not _LINK.search(text):
        return text
    # Neither can be written in a code span of a cell so that every reader takes it the same way.
    return f"`{text.replace('`', chr(39)).replace('|', '¦')}`"


def _compared(it: Compared) -> Iterator[str]:
    yield f"## {inline(it.new)} (new) beside {inline(it.base)} (base)"
    yield f"**{inline(it.verdict)}**"
    if it.table is not None:
        yield from _table(it.table)
    if it.legend:
        yield inline(it.legend)
    if it.differences:
        yield "### What differs"
        yield from _rows("", it.differences)
    if it.notes:
        yield _list(it.notes)


def _session(session: SessionReport) -> Iterator[str]:
    about = f": {session.about}" if session.about else ""
    yield f"{inline(session.workload)}{inline(about)}, {session.began}, {inline(session.status)}"
    yield inline(session.machine)
    yield from (f"**{inline(s)}**" if n == 0 else inline(s) for n, s in enumerate(session.verdict))
    if session.valid is not None:
        against = "Nothing speaks against these figures."
        yield against if session.valid else "⚠ These figures are to be taken with care:"
    if session.against:
        yield _list(session.against)
    if session.bars:
        rows = tuple(
            ("▶" if bar.kind == "this" else "", bar.label, bar.text, bar.note)
            for bar in session.bars
        )
        heading = ("", "device", session.per, "")
        yield from _table(Table(heading, rows, (False, False, True, False)))
        if session.of_all:
            yield inline(session.of_all)
    yield from _rows("figure", session.figures)
    if session.metrics is not None:
        yield "### Metrics"
        yield from _table(session.metrics)
    yield from _account(session.account)
    if session.gaps:
        yield "### The longest times without a batch"
        yield _list(f"{at}  {text}" for at, text in session.gaps)
    if session.loops is not None:
        yield "### Loops"
        yield from _table(session.loops)
    if session.epochs is not None:
        yield "### Epochs"
        yield from _table(session.epochs, _MOST_EPOCHS)
    if session.profiles:
        yield "### Profiles"
    for said, operations in session.profiles:
        yield inline(said)
        if operations.rows:
            yield from _table(operations)
    if session.notices:
        yield "### Notices"
        yield _list(f"{at}  {text}" for at, text in session.notices[-_MOST_NOTICES:])
    yield "### Environment"
    yield from _rows("", (*session.environment, *session.options))
    if session.command is not None:
        yield "### To run it again"
        yield _code([session.command])
    if session.processes is not None:
        yield "### Processes at the end"
        yield from _table(session.processes)
    if session.output:
        yield "### Output"
        yield _code(session.output)


def _sweep(sweep: SweepReport) -> Iterator[str]:
    yield f"{sweep.began}, {inline(sweep.plan)}"
    yield from _table(sweep.table)
    if sweep.findings:
        yield _list(sweep.findings)
    if sweep.options:
        yield f"All with {inline(sweep.options)}."


def _account(parts: Sequence[Bar]) -> Iterator[str]:
    if parts:
        yield "### Where the time went"
        rows = tuple((part.label, part.text) for part in parts)
        yield from _table(Table(("part", "time"), rows, (False, True)))


def _rows(heading: str, rows: Sequence[Row]) -> Iterator[str]:
    if rows:
        yield from _table(Table((heading, ""), tuple(rows)))


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {inline(item)}" for item in items)


def _code(lines: Sequence[str]) -> str:
    """Return lines as a block that ends where it should, whatever stands in them."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence, *lines, fence])


def _table(table: Table, most: int | None = None) -> Iterator[str]:
    numeric = table.numeric or (False,) * len(table.headings)
    lines = [
        _row(table.headings),
        _row(("---:" if is_number else "---" for is_number in numeric), as_is=True),
        *(_row(row) for row in table.rows[:most]),
    ]
    yield "\n".join(lines)
    left_out = table.left_out + max(0, len(table.rows) - (most or len(table.rows)))
    if left_out:
        yield f"{left_out:,} more are left out here."


def _row(cells: Iterable[str], as_is: bool = False) -> str:
    return "| " + " | ".join(cell if as_is else inline(cell) for cell in cells) + " |"
