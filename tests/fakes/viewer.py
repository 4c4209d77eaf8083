"""`dlmon run`, plain or --json, for a job of any command: it comes as a line on stdin.

With --screen it is a screen, and the word after that names the file with the line.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from dlmon.cli.start import Start
from dlmon.launch.supervisor_process import launch
from dlmon.options.settings import read_settings
from dlmon.protocol.job import Job, Refused
from dlmon.render.follow import follow


def main() -> int:
    # Tests that run under nohup would hand on that it is ignored.
    ignored = "--nohup" in sys.argv
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    on_screen = "--screen" in sys.argv
    line = Path(sys.argv[2]).read_bytes() if on_screen else sys.stdin.buffer.readline()
    started = launch(Job.from_line(line))
    answer = started.answer()
    if isinstance(answer, Refused):
        print(f"dlmon: {answer.reason}", file=sys.stderr)
        return answer.exit_code
    log = Path(answer.log)
    if not on_screen:
        return follow(log, started, as_json="--json" in sys.argv)
    from tui.app import DlmonApp

    app = DlmonApp(Start(log.parent.parent, read_settings(), log=log, started=started))
    return app.run_to_exit_code()


if __name__ == "__main__":
    sys.exit(main())
