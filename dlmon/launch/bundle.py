"""Write what runs in somebody else's interpreter into a folder of its own.

The folder holds `dlmon/` and `workloads/` as packages and nothing else: never
our site-packages, and never `dlmon/` itself on the path, whose `keras.py` would
be taken for Keras. Its name is the hash of its content, so one that is there is
the right one, and two versions of dlmon never share any.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from dlmon.private_files import (
    NotPrivateError,
    make_new_private_folder,
    make_private_folder,
    open_private,
    others_may_write,
    own_private_folder,
)

PACKAGES = ("dlmon", "workloads")
MONITOR = "_dlmon_monitor"
"""What our package is called inside a script's process."""
_ENTRY = "instrument/entry/sitecustomize.py"
_IN_SCRIPTS = ("instrument/", "records/", "statistics/")
_OWN_NAME = re.compile(rb"\bdlmon\.(?=instrument\b|records\b|statistics\b)")
# What only the command line and the screens need; no trained process and no other machine does.
_FACE = ("figures", "render", "options", "cli")
_BUNDLE_NAME = re.compile("[0-9a-f]{32}")
# Two versions of dlmon in turn don't write theirs again and again, and a session of a version
# that knew no lock is over.
_UNUSED_S = 7 * 24 * 3600.0


class BundleError(Exception):
    """The folder can't be written; the message is one sentence for a person."""


def bundle_folder(cache: Path | None = None) -> Path:
    """Return a folder with the packages, which stays there as long as this process.

    Nobody but the user may write where it lies, and it is written again where it
    holds anything but what it should.

    Args:
        cache: where such folders are kept; by default the platform's cache directory.

    Raises:
        BundleError: it can't be written there, or others could change it.
    """
    return _kept(package_files(), cache)


def script_folder(cache: Path | None = None) -> Path:
    """Return a folder with what enters the Python of a script, which stays there as long.

    `entry/` belongs on PYTHONPATH, and holds nothing but a `sitecustomize.py`. `packages/` holds
    what is imported once something trains, under a name that no package of the person's has: the
    script's own environment, or its folder, may have another `dlmon`.

    Args:
        cache: as for `bundle_folder`.

    Raises:
        BundleError: it can't be written there, or others could change it.
    """
    files = {f"packages/{MONITOR}/__init__.py": b""}
    for name, content in package_files(("dlmon",)).items():
        _, _, path = name.partition("/")
        if path == _ENTRY:
            files["entry/sitecustomize.py"] = content
        elif path.startswith(_IN_SCRIPTS):
            files[f"packages/{MONITOR}/{path}"] = _OWN_NAME.sub(MONITOR.encode() + b".", content)
    return _kept(files, cache, keep_compiled=True)


def _kept(files: dict[str, bytes], cache: Path | None, keep_compiled: bool = False) -> Path:
    try:
        where = cache or Path(platformdirs.user_cache_path("dlmon", appauthor=False)) / "bundles"
    except RuntimeError:
        raise BundleError(
            "there is no home directory to keep a copy of dlmon in; set XDG_CACHE_HOME"
        ) from None
    folder = where / hash_of(files)
    try:
        if cache is None:
            own_private_folder(where.parent)
        own_private_folder(where)
        with _locked(where):
            if not _is_whole(folder, files, keep_compiled):
                _write(folder, files)
            _lock_while_running(folder)
            _remove_unused(where)
    except NotPrivateError as error:
        raise BundleError(
            f"another interpreter needs a copy of dlmon, but {error.strerror}: remove it, or set "
            "XDG_CACHE_HOME to a folder of your own"
        ) from None
    except OSError as error:
        raise BundleError(
            f"another interpreter needs a copy of dlmon in {where}, which can't be written: "
            f"{error.strerror}"
        ) from None
    return folder


def package_files(packages: Iterable[str] = PACKAGES) -> dict[str, bytes]:
    """Return the content of every file of some packages, by its path in the bundle.

    Raises:
        BundleError: a package is not installed as a folder.
    """
    files = {}
    for package in packages:
        # This finds the package without importing it.
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise BundleError(f"the package {package} is not where Python finds packages")
        folder = Path(found.submodule_search_locations[0])
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            # Compiled modules are for one interpreter, and hidden files are somebody's own.
            if package == "dlmon" and parts[0] in _FACE:
                continue
            if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
                files[str(path.relative_to(folder.parent))] = path.read_bytes()
    return files


def hash_of(files: dict[str, bytes]) -> str:
    """Return the hash that names a bundle, of all names and contents."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()[:32]


def _is_whole(folder: Path, files: dict[str, bytes], keep_compiled: bool = False) -> bool:
    """Whether a folder holds these files and nothing else, and only its owner could change it.

    Compiled modules are removed first, as their content can't be checked, unless they are to be
    kept: a script must not wait for them to be compiled each time, and its own are kept too.
    """
    found = set()
    folders = [folder]
    try:
        while folders:
            top = folders.pop()
            _check_own(top, stat.S_ISDIR)
            for path in top.iterdir():
                name = str(path.relative_to(folder))
                if path.name == "__pycache__":
                    if not keep_compiled:
                        shutil.rmtree(path)
                elif path.is_dir():
                    folders.append(path)
                else:
                    _check_own(path, stat.S_ISREG)
                    if path.read_bytes() != files.get(name):
                        return False
                    found.add(name)
    except OSError:
        return False
    return found == files.keys()


def _check_own(path: Path, is_kind: Callable[[int], bool]) -> None:
    """Raise `NotPrivateError` for a link, another kind of file, or what others could change."""
    found = path.lstat()
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or others_may_write(found):
        raise NotPrivateError(None, f"{path} is not the user's alone")


@contextmanager
def _locked(where: Path) -> Iterator[None]:
    """Keep others from writing bundles there; the lock is dropped with the descriptor."""
    descriptor = os.open(where, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write a bundle under a name of its own, then give it the right one."""
    being_made = folder.with_name(f".{os.urandom(8).hex()}")
    make_new_private_folder(being_made)
    try:
        for name, content in files.items():
            path = being_made / name
            make_private_folder(path.parent)
            with os.fdopen(open_private(path, os.O_WRONLY), "wb") as file:
                file.write(content)
        if os.path.lexists(folder):
            # What is wrong may be in use; it is removed like what a killed writer left.
            folder.rename(folder.with_name(f".{os.urandom(8).hex()}"))
        being_made.rename(folder)
    finally:
        shutil.rmtree(being_made, ignore_errors=True)


def _lock_while_running(folder: Path) -> None:
    """Keep a bundle from being removed until this process ends, which drops the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.utime(folder)


def _remove_unused(where: Path) -> None:
    """Remove bundles that no process has needed for a while, and what killed writers left."""
    for path in where.iterdir():
        unfinished = path.name.startswith(".")
        if not unfinished and not _BUNDLE_NAME.fullmatch(path.name):
            continue
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            continue
        unused_s = time.time() - path.stat().st_mtime
        if (unfinished or unused_s > _UNUSED_S) and not _is_locked(path):
            # What another user put there may not be ours to remove; it is never run.
            shutil.rmtree(path, ignore_errors=True)


def _is_locked(folder: Path) -> bool:
    """Return whether a process may still hold the lock of `_lock_while_running` on a bundle."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
