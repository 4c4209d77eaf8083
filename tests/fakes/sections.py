"""Find what a view says, by its heading or its kind."""

from dlmon.figures.sections import Bars, Note


def under(report, heading):
    """Return the section of a session's report under a heading; None where there is none."""
    return report.under(heading)


def bars(report):
    """Return a session among published and earlier times."""
    found = under(report, "Comparison")
    return found.bars if isinstance(found, Bars) else ()


def said(sections, kind):
    """Return the sentences of a kind of note; None where there is no such note."""
    return next((o.sentences for o in sections if isinstance(o, Note) and o.kind == kind), None)
