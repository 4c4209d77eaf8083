"""Ask each installed framework which GPUs it sees, in a child process of its own.

A framework takes seconds to import, may crash or hang in a driver call, and
holds on to what it has opened: so none is imported here. The child gets the
environment that a workload would get, and only so long to answer.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

from dlmon.launch.children import SAFE_PATH, die_with_parent, end_group
from dlmon.records import TITLES
from dlmon.records.sanitize import clean

DEADLINE_S = 60.0
_MAX_BYTES = 1 << 18
_MAX_GPUS = 1024
_MAX_PROBLEMS = 8
_LONGEST_PROBLEM = 200
_MARK = b"\x1edlmon "

# Nothing here may take memory of the GPUs away from a run that is going on. TensorFlow logs
# which libraries it did not find only where its loader is set to verbose.
_ENVIRONMENT = {
    **SAFE_PATH,
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "dso_loader=1",
}

_SCRIPT = r"""
import json, os, re, sys, warnings

def tensorflow():
    import tensorflow
    build = tensorflow.sysconfig.get_build_info()
    details = tensorflow.config.experimental.get_device_details
    gpus = tensorflow.config.list_physical_devices("GPU")
    platform = "cuda" if build.get("is_cuda_build") else None
    return {
        "version": tensorflow.__version__,
        "platform": "rocm" if build.get("is_rocm_build") else platform,
        "cuda": build.get("cuda_version") if platform else None,
        "gpus": [details(gpu).get("device_name") for gpu in gpus],
    }

def jax():
    import pkgutil
    import jax, jaxlib
    build = re.search(r"\+(cuda)(\d+)", getattr(jaxlib, "__version__", ""))
    for module in pkgutil.iter_modules():
        build = re.fullmatch(r"jax_(cuda|rocm)(\d+)_plugin", module.name) or build
    platform = build.group(1) if build else None
    problems, devices = [], []
    try:
        devices = jax.local_devices()
        if build and not any(device.platform != "cpu" for device in devices):
            jax.devices(platform)
    except Exception as error:
        problems = [str(error)]
    return {
        "version": jax.__version__,
        "platform": platform,
        "cuda": build.group(2) if platform == "cuda" else None,
        "gpus": [d.device_kind for d in devices if d.platform in ("gpu", "cuda", "rocm")],
        "problems": [text for text in problems if not text.startswith("Unknown backend")],
    }

def torch():
    import torch
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    platform = "cuda" if torch.version.cuda else None
    return {
        "version": torch.__version__,
        "platform": "rocm" if getattr(torch.version, "hip", None) else platform,
        "cuda": torch.version.cuda,
        "gpus": [None] * count,
        "problems": [str(warning.message) for warning in caught],
    }

try:
    answer = {"tensorflow": tensorflow, "jax": jax, "torch": torch}[sys.argv[1]]()
except Exception as error:
    answer = {"why": "%s: %s" % (type(error).__name__, error)}
sys.stdout.write(chr(30) + "dlmon " + json.dumps(answer, default=str) + chr(10))
sys.stdout.flush()
os._exit(0)  # a framework that hangs or crashes while it ends has answered anyway
"""

# What follows the mark of a log that says why a GPU is not reached.
_ERROR_LINE = re.compile(
    r"(?:Could not load dynamic library '(?!libnvinfer)|Cannot dlopen|Could not find cuda drivers"
    r"|(?:failed call to )?cuInit|CUDA_ERROR|Unable to (?:load|initialize)"
    r"|\S+ version is insufficient|.*driver on your system is too old|.*no NVIDIA driver"
    r"|kernel driver does not appear).*"
)


@dataclass(frozen=True)
class Framework:
    """What a framework reports of itself and of the GPUs that it sees.

    Attributes:
        module: tensorflow, jax or torch.
        version: of the framework; None where it could not be asked.
        gpus: a name for each GPU that it sees, "" where it has none; None
            where it could not be asked.
        platform: what it was built to reach GPUs by, "cuda" or "rocm"; None for
            a build that knows the CPU alone.
        cuda: the version of CUDA that it was built for: "12.5.1", or "12".
        problems: its own messages about what failed.
        why: why it could not be asked, in words.
    """

    module: str
    version: str | None = None
    gpus: tuple[str, ...] | None = None
    platform: str | None = None
    cuda: str | None = None
    problems: tuple[str, ...] = ()
    why: str | None = None

    @property
    def title(self) -> str:
        return f"{TITLES[self.module]} {self.version}" if self.version else TITLES[self.module]


def is_installed(module: str) -> bool:
    """Return whether a module is there, without importing it; a mere folder of its name isn't."""
    try:
        found = importlib.util.find_spec(module)
    except ValueError:
        return False
    return found is not None and found.origin is not None


def ask_framework(
    module: str,
    environment: Mapping[str, str] = os.environ,
    deadline_s: float = DEADLINE_S,
) -> Framework:
    """Return what a framework sees; call it from the main thread.

    Args:
        module: tensorflow, jax or torch.
        environment: the environment variables that a workload would get.
        deadline_s: how long it may take to answer.
    """
    try:
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as log:
            why = _run(module, {**environment, **_ENVIRONMENT}, deadline_s, answer, log)
            return _parsed(module, _text_of(answer), error_lines(_text_of(log)), why)
    except OSError as error:
        return Framework(module, why=error.strerror or str(error))


def error_lines(text: str) -> tuple[str, ...]:
    """Return the lines of a framework's log that say why it does not reach a GPU."""
    found = (clean(line[0].strip(), _LONGEST_PROBLEM) for line in _ERROR_LINE.finditer(text))
    return tuple(dict.fromkeys(found))[:_MAX_PROBLEMS]


def _run(
    module: str,
    environment: Mapping[str, str],
    deadline_s: float,
    answer: IO[bytes],
    log: IO[bytes],
) -> str | None:
    """Let the child write its answer; return what went wrong."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _SCRIPT, module],
        stdin=subprocess.DEVNULL,
        stdout=answer,
        stderr=log,
        env=environment,
        start_new_session=True,
        preexec_fn=die_with_parent(os.getpid()),
    )
    try:
        code = process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        return f"it did not answer within {deadline_s:g} s"
    finally:
        end_group(process.pid, signal.SIGKILL)
        # One that hangs in the driver may not even die; nobody waits for it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
    if code < 0:
        return f"it was ended by a signal: {signal.strsignal(-code) or -code}"
    return f"it ended with exit code {code}" if code else None


def _text_of(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - _MAX_BYTES))
    return file.read().decode("utf-8", "replace")


def _parsed(module: str, answer: str, problems: tuple[str, ...], why: str | None) -> Framework:
    """Parse, check and clean the child's answer; `why` is what went wrong with the child."""
    line = answer.rpartition(_MARK.decode())[2].partition("\n")[0]
    try:
        fields = json.loads(line)
        if fields.get("why"):
            return Framework(module, problems=problems, why=_text(fields["why"]))
        own = tuple(_text(text) for text in fields.get("problems", ())[:_MAX_PROBLEMS])
        return Framework(
            module,
            version=_text(fields["version"]),
            gpus=tuple(_text(name or "") for name in fields["gpus"][:_MAX_GPUS]),
            platform=_text(fields["platform"]) if fields["platform"] else None,
            cuda=_text(fields["cuda"]) if fields["cuda"] else None,
            problems=tuple(dict.fromkeys((*own, *problems))),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Framework(module, problems=problems, why=why or "its answer was not understood")


def _text(value: Any) -> str:
    return clean(" ".join(str(value).split()), _LONGEST_PROBLEM)
