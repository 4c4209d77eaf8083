"""Real shells complete what is typed after `dlmon`."""

from __future__ import annotations

import os
import shutil

import pytest
from fakes.recorded import recorded_session, write_log
from fakes.terminal import PseudoTerminal

from dlmon.log.label import Label, write_label

SMALL = "mnist-mlp-small"
# Completes as dlmon does; of any other command it shows the words, each in brackets.
SHOWS_WORDS = """#!/bin/sh
if [ -n "$_DLMON_COMPLETE" ] || [ "$1" = completion ]; then
    exec {dlmon} "$@"
fi
printf 'words:'
printf ' <%s>' "$@"
printf '\\n'
"""
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(dlmon completion bash)"'),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -U compinit; compinit -u -D; eval "$(dlmon completion zsh)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "dlmon completion fish | source"),
}


@pytest.fixture(params=list(SHELLS))
def shell(request, dlmon_command, tmp_path):
    """A shell that completes what is typed after dlmon, and knows one session."""
    command, setup = SHELLS[request.param]
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    program = tmp_path / "bin" / "dlmon"
    program.parent.mkdir()
    program.write_text(SHOWS_WORDS.format(dlmon=dlmon_command))
    program.chmod(0o755)
    log = write_log(tmp_path / "state" / "dlmon" / "sessions", recorded_session())
    write_label(log, Label("batch 256"))
    for name in ("@lab", "new@2"):
        records = recorded_session(session_id=f"1{name}")
        write_label(write_log(tmp_path / "state" / "dlmon" / "sessions", records), Label(name))
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    with PseudoTerminal(command, environment) as terminal:
        terminal.press(f"{setup}; echo rea''dy\r")
        terminal.wait_for(b"ready")
        yield terminal
        # An interactive shell is deaf to SIGTERM.
        terminal.process.kill()


WORDS = {
    "wat\t": ["watch"],
    "run mnist-mlp-w\t": ["run", "mnist-mlp-wide"],
    f"run {SMALL} --batc\t64": ["run", SMALL, "--batch-size", "64"],
    f"run {SMALL} --device=c\t": ["run", SMALL, "--device=cpu"],
    f"sweep {SMALL} --vary device=gpu:0,c\t": ["sweep", SMALL, "--vary", "device=gpu:0,cpu"],
    # Behind a key that was completed its values follow at once.
    f"sweep {SMALL} --vary thr\t1,2": ["sweep", SMALL, "--vary", "threads=1,2"],
    "attach batch\\ 2\t": ["attach", "batch 256"],
    "attach @l\t": ["attach", "@lab"],
    "attach new@\t": ["attach", "new@2"],
}


def test_a_shell_completes_words_and_leaves_it_the_path_of_an_interpreter(shell, tmp_path):
    (tmp_path / "interpreter").touch()
    for typed, words in WORDS.items():
        shell.press(f"dlmon {typed}\r")
        shell.wait_for(f"words: {' '.join(f'<{word}>' for word in words)}\r\n".encode())
    shell.press(f"dlmon run {SMALL} --python {tmp_path}/interp\t\r")
    shell.wait_for(f"<--python> <{tmp_path}/interpreter>\r\n".encode())
