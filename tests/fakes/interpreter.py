"""An interpreter for `--python` that trains the scripted workload, and else is the real one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from fakes.sessions import FAKES

from dlmon.system.children import command_of_folders


def scripted_interpreter(path: Path, **defaults: object) -> str:
    """Write an interpreter for `--python` that imports no framework; return its path.

    Whatever else it is asked, it answers as the Python of these tests: which versions are installed
    there, say. Where it is to run the workloads of a bundle, it runs the scripted workload with the
    packages of that bundle.

    Args:
        path: the file to be.
        defaults: options of the scripted workload where nobody gives them.
    """
    _, option, program, _ = command_of_folders(sys.executable, "workloads", "")
    script = shlex.join((str(FAKES / "workload.py"), json.dumps(defaults)))
    python = shlex.quote(sys.executable)
    path.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = {option} ] && [ "$2" = {shlex.quote(program)} ]; then\n'
        # What the bundle holds comes first, and the script's own folder is no package's.
        f'  PYTHONPATH="$3" exec {python} -P {script}\n'
        "fi\n"
        f'exec {python} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)
