"""`dlmon run` on a screen, for a job of any command: its line is in the file that is named."""

from __future__ import annotations

import sys
from pathlib import Path

from dlmon.cli.start import Start
from dlmon.launch.job import Job, Refused
from dlmon.launch.lifeline import launch
from dlmon.options.settings import read_settings
from tui.app import DlmonApp


def main() -> int:
    started = launch(Job.from_line(Path(sys.argv[1]).read_bytes()))
    answer = started.answer()
    if isinstance(answer, Refused):
        print(f"dlmon: {answer.reason}", file=sys.stderr)
        return answer.exit_code
    log = Path(answer.log)
    app = DlmonApp(Start(log.parent.parent, read_settings(), log=log, started=started))
    return app.run_to_exit_code()


if __name__ == "__main__":
    sys.exit(main())
