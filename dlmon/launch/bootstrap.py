"""Store dlmon's files in a folder named by their hash; on a remote host, start the agent there.

A host receives this module as text and runs it with its own python3, so it is written for
Python 3.6, uses only the standard library, and looks for a newer Python itself. It reads a line
of JSON from stdin (the word that marks our lines, and the hash of dlmon's files), writes a marked
line with the answer whether the files are missing, and then reads them. Afterwards the agent
takes over stdin and stdout.
"""

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import zipfile

OLDEST_PYTHON = (3, 10)
NEWER_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11", "python3.10")
UNUSED_S = 30 * 24 * 3600
START = (
    "import os, sys; "
    "sys.path[:1] = sys.argv.pop(1).split(os.pathsep) + [own for own in sys.path[:1] if own]; "
    "import runpy; "
    "runpy.run_module('dlmon.remote.agent', run_name='__main__', alter_sys=True)"
)


def read_line() -> bytes:
    """Return a line of stdin, read byte by byte: the bytes after it are for another reader."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(1)
        line += byte
    return line


def read_bytes(count: int) -> bytes:
    """Return the next `count` bytes of stdin."""
    data = b""
    while len(data) < count:
        chunk = os.read(0, min(count - len(data), 1 << 16))
        if not chunk:
            sys.exit(1)
        data += chunk
    return data


def hash_of(files: dict) -> str:  # type: ignore[type-arg]
    """Return the hash of the files' names and contents."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()[:32]


def parent_folders() -> list:  # type: ignore[type-arg]
    """Return the folders that may hold dlmon's folder, the best first."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.expanduser("~/.cache")
    try:
        temporary = tempfile.gettempdir()
    except OSError:
        # No temporary folder can be written.
        temporary = ""
    name = "dlmon-%d" % os.geteuid()
    folders = [os.path.join(cache, "dlmon", "boxes")]
    for parent in (os.environ.get("XDG_RUNTIME_DIR", ""), temporary, "/dev/shm"):
        folders.append(os.path.join(parent, name))
    return [folder for folder in folders if os.path.isabs(folder)]


def make_private(path: str) -> None:
    """Make a folder for us alone; raise OSError if that fails, or it belongs to another user."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise OSError("%s is not a folder of ours" % path)
    os.chmod(path, 0o700)


def is_whole(folder: str, wanted: str) -> bool:
    """Return whether a folder holds the files of that hash, and only its owner may change them."""
    files = {}
    try:
        for top, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            # os.walk doesn't follow a link to a folder, but Python would import from it.
            for path in [top] + [os.path.join(top, name) for name in folders + names]:
                status = os.lstat(path)
                is_kind = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
                if not is_kind or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                    return False
            for name in names:
                path = os.path.join(top, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, folder)] = file.read()
    except OSError:
        return False
    return bool(files) and hash_of(files) == wanted


def write_folder(parent: str, wanted: str, files: dict) -> None:  # type: ignore[type-arg]
    """Write files into the folder that is named by their hash."""
    unfinished = tempfile.mkdtemp(prefix=".", dir=parent)
    try:
        for name, content in files.items():
            path = os.path.join(unfinished, *name.split("/"))
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(content)
        folder = os.path.join(parent, wanted)
        if os.path.lexists(folder):
            os.rename(folder, os.path.join(parent, ".%s" % os.urandom(8).hex()))
        try:
            os.rename(unfinished, folder)
        except OSError:
            # Another connection of ours was faster.
            if not is_whole(folder, wanted):
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_unused(parent: str, used: str) -> None:
    """Remove folders, finished or not, that nobody has used for a month."""
    os.utime(os.path.join(parent, used))
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        try:
            unused_s = time.time() - os.lstat(path).st_mtime
        except OSError:
            # Another process has just removed it.
            continue
        if unused_s > UNUSED_S:
            shutil.rmtree(path, ignore_errors=True)


def become_newer_python(source: str) -> None:
    """Run this module in a Python that is new enough, if there is one."""
    check = "import sys; sys.exit(sys.version_info[:2] < %r)" % (OLDEST_PYTHON,)
    for name in NEWER_PYTHONS:
        path = shutil.which(name)
        # A command of this name may only be a stub that offers to install it.
        if path is not None and is_success([path, "-c", check]):
            os.execv(
                path, [path, "-c", "import sys; SOURCE = sys.argv.pop(); exec(SOURCE)", source]
            )


def is_success(command: list) -> bool:  # type: ignore[type-arg]
    """Return whether a command exits with 0; its input and output are /dev/null."""
    null = subprocess.DEVNULL
    try:
        return subprocess.call(command, stdin=null, stdout=null, stderr=null) == 0
    except OSError:
        return False


def run(source: str) -> None:
    """Answer the viewer, receive the files if they are missing, and become the agent."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        become_newer_python(source)
    request = json.loads(read_line().decode())

    def answer(**fields: object) -> None:
        line = "\n%s %s\n" % (request["mark"], json.dumps(fields))
        os.write(1, line.encode())

    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        answer(lacks="python", python=python, executable=sys.executable)
        return
    wanted = request["hash"]
    why = "there is no folder to keep it in"
    for parent in parent_folders():
        try:
            make_private(parent)
            folder = os.path.join(parent, wanted)
            is_missing = not is_whole(folder, wanted)
            if is_missing:
                # Check for room before the files are sent.
                with tempfile.TemporaryFile(dir=parent) as file:
                    file.write(b"0" * request["bytes"])
            break
        except OSError as error:
            why = "%s: %s" % (parent, error.strerror or error)
    else:
        answer(lacks="room", why=why)
        return
    answer(python=python, missing=is_missing)
    try:
        if is_missing:
            with zipfile.ZipFile(io.BytesIO(read_bytes(int(read_line())))) as archive:
                files = {name: archive.read(name) for name in archive.namelist()}
            if hash_of(files) != wanted:
                raise ValueError("what arrived is not what was sent")
            write_folder(parent, wanted, files)
        remove_unused(parent, wanted)
    except (OSError, ValueError) as error:
        answer(lacks="room", why="%s: %s" % (parent, error))
        return
    environment = dict(os.environ, DLMON_PACKAGES=folder, PYTHONSAFEPATH="1")
    command = [sys.executable, "-c", START, folder, request["mark"]]
    os.execve(sys.executable, command, environment)


if "SOURCE" in globals():
    run(globals()["SOURCE"])
