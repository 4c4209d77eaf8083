"""A Python that has imported modules once, and runs each script in a fork of itself.

Arguments: the modules to import. A line of JSON on stdin names a script, its arguments, its
environment, where it runs, and the files for what it prints. The answer is its pid, and once it has
ended its exit code.
"""

import atexit
import faulthandler
import importlib
import json
import os
import runpy
import sys
import threading
from pathlib import Path


def become(asked: dict) -> None:
    """Be the process that the script would have had, but for what is imported."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["directory"])
    for fd, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, asked["stdout"], os.O_WRONLY | os.O_CREAT),
        (2, asked["stderr"], os.O_WRONLY | os.O_CREAT),
    ):
        os.dup2(os.open(name, flags), fd)
    faulthandler.enable(2)
    script = asked["script"]
    sys.argv = [script, *asked["arguments"]]
    sys.path[0] = str(Path(script).parent)
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code != end.code and end.code is not None:
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
        code = 1
    # Python's own end would free all that is imported, which takes seconds.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            become(json.loads(line))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


main()
