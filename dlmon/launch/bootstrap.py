"""Keep dlmon's files in a folder that is named by their hash; on a box, become its agent too.

A box is sent this as text, and nothing is installed there. It runs this with the python3 that it
has, so it is written for Python 3.6, imports the standard library alone, and looks for a newer
Python by itself. stdin brings one line of JSON (the word that marks our lines, and the hash of
dlmon's files); stdout takes one marked line that says whether they are missing here; then stdin
brings them. From then on both belong to the agent.
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
    """Return a line of stdin, read byte by byte: what follows belongs to somebody else."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(1)
        line += byte
    return line


def read_bytes(count: int) -> bytes:
    """Return so many bytes of stdin."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 16))
        if not part:
            sys.exit(1)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def hash_of(files: dict) -> str:  # type: ignore[type-arg]
    """Return the hash of all names and contents."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()[:32]


def places() -> list:  # type: ignore[type-arg]
    """Return the folders in which dlmon may be kept, the best first."""
    found = []
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.expanduser("~/.cache")
    if os.path.isabs(cache):
        found.append(os.path.join(cache, "dlmon", "boxes"))
    own = "dlmon-%d" % os.geteuid()
    try:
        temporary = tempfile.gettempdir()
    except OSError:
        # Nothing can be written in any of those that it tries.
        temporary = ""
    for parent in (os.environ.get("XDG_RUNTIME_DIR", ""), temporary, "/dev/shm"):
        if os.path.isabs(parent):
            found.append(os.path.join(parent, own))
    return found


def own_folder(path: str) -> None:
    """Make a folder for us alone; raise OSError where it can't be, or is not ours alone."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError("%s is not a folder of ours" % path)
    os.chmod(path, 0o700)


def is_whole(folder: str, wanted: str) -> bool:
    """Return whether a folder holds the files of that hash, and its owner alone may change them."""
    files = {}
    try:
        for top, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if name != "__pycache__"]
            # A folder that is a link is not walked, and could still be imported from.
            for path in [top] + [os.path.join(top, name) for name in folders + names]:
                found = os.lstat(path)
                is_kind = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
                if not is_kind or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                    return False
            for name in names:
                path = os.path.join(top, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, folder)] = file.read()
    except OSError:
        return False
    return bool(files) and hash_of(files) == wanted


def keep(place: str, wanted: str, files: dict) -> None:  # type: ignore[type-arg]
    """Write files as the folder of that hash."""
    being_made = tempfile.mkdtemp(prefix=".", dir=place)
    try:
        for name, content in files.items():
            path = os.path.join(being_made, *name.split("/"))
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(content)
        folder = os.path.join(place, wanted)
        if os.path.lexists(folder):
            os.rename(folder, os.path.join(place, ".%s" % os.urandom(8).hex()))
        try:
            os.rename(being_made, folder)
        except OSError:
            # Another connection of ours was faster.
            if not is_whole(folder, wanted):
                raise
    finally:
        shutil.rmtree(being_made, ignore_errors=True)


def remove_unused(place: str, used: str) -> None:
    """Remove what nobody has needed for a month, and what was left unfinished."""
    os.utime(os.path.join(place, used))
    for name in os.listdir(place):
        path = os.path.join(place, name)
        try:
            unused_s = time.time() - os.lstat(path).st_mtime
        except OSError:
            # Somebody else has just removed it.
            continue
        if unused_s > UNUSED_S:
            shutil.rmtree(path, ignore_errors=True)


def become_newer_python(source: str) -> None:
    """Run this in a Python that is new enough, where there is one."""
    check = "import sys; sys.exit(sys.version_info[:2] < %r)" % (OLDEST_PYTHON,)
    for name in NEWER_PYTHONS:
        path = shutil.which(name)
        # What bears the name may be a stand-in for one that isn't installed.
        if path is not None and is_success([path, "-c", check]):
            os.execv(
                path, [path, "-c", "import sys; SOURCE = sys.argv.pop(); exec(SOURCE)", source]
            )


def is_success(command: list) -> bool:  # type: ignore[type-arg]
    """Return whether a command that reads and says nothing ends well."""
    nothing = subprocess.DEVNULL
    try:
        return subprocess.call(command, stdin=nothing, stdout=nothing, stderr=nothing) == 0
    except OSError:
        return False


def run(source: str) -> None:
    """Do all of it."""
    if sys.version_info[:2] < OLDEST_PYTHON:
        become_newer_python(source)
    asked = json.loads(read_line().decode())

    def answer(**fields: object) -> None:
        line = "\n%s %s\n" % (asked["mark"], json.dumps(fields))
        os.write(1, line.encode())

    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        answer(lacks="python", python=python, executable=sys.executable)
        return
    wanted = asked["hash"]
    why = "there is no folder to keep it in"
    for place in places():
        try:
            own_folder(place)
            folder = os.path.join(place, wanted)
            is_missing = not is_whole(folder, wanted)
            if is_missing:
                # Where nothing can be written, this is the time to find out.
                with tempfile.TemporaryFile(dir=place) as file:
                    file.write(b"0" * asked["bytes"])
            break
        except OSError as error:
            why = "%s: %s" % (place, error.strerror or error)
    else:
        answer(lacks="room", why=why)
        return
    answer(python=python, missing=is_missing)
    try:
        if is_missing:
            with zipfile.ZipFile(io.BytesIO(read_bytes(int(read_line())))) as sent:
                files = {name: sent.read(name) for name in sent.namelist()}
            if hash_of(files) != wanted:
                raise ValueError("what arrived is not what was sent")
            keep(place, wanted, files)
        remove_unused(place, wanted)
    except (OSError, ValueError) as error:
        answer(lacks="room", why="%s: %s" % (place, error))
        return
    environment = dict(os.environ, DLMON_PACKAGES=folder, PYTHONSAFEPATH="1")
    command = [sys.executable, "-c", START, folder, asked["mark"]]
    os.execve(sys.executable, command, environment)


if "SOURCE" in globals():
    run(globals()["SOURCE"])
