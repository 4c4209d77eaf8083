"""What the tests of the detail screens share: a screen over a state, and what is seen of it."""

from fakes.states import on_stage

from dlmon.records import Machine
from tui.machine.process_list import ProcessList

NARROW, WIDE = (80, 24), (120, 40)


def shown(state, view="processes-at-first", size=NARROW):
    """Show a state, at first before all processes are read; the stage holds what is seen."""
    return on_stage(state, view, size)


def rows(stage, selector):
    widget = stage.app.screen.query_one(selector)
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def heading(stage):
    return rows(stage, ProcessList)[0]


def pids(stage):
    """Return the pids in sight, from the top."""
    found = [row[1:].lstrip(" ▸●>*").split(" ")[0] for row in rows(stage, ProcessList)[1:]]
    return [int(pid) for pid in found if pid.isdecimal()]


def chosen(stage):
    process = stage.app.screen.query_one(ProcessList).highlighted
    return process and process.pid


def footer(stage):
    return stage.text.splitlines()[-1].strip()


async def report(stage, *processes):
    """Let the session's sensors report these processes, a second later."""
    stage.app.screen_stack[0]._source.session.add(
        Machine(stage._clock.now_ns + 1, 0.0, processes=processes)
    )
    await stage.settle()
