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
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

PACKAGES = ("dlmon", "workloads")
# Python before 3.11 has no -P, so the working directory, which stands first, makes way here.
_START = (
    "import runpy, sys; "
    "sys.path[:1] = [sys.argv.pop(1)] + [first for first in sys.path[:1] if first]; "
    "runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
)


class BundleError(Exception):
    """The folder can't be written; the message is one sentence for a person."""


def bundle_folder(cache: Path | None = None) -> Path:
    """Return a folder with the packages, written unless a whole one is there.

    Args:
        cache: where such folders are kept; by default the platform's cache directory.

    Raises:
        BundleError: it can't be written there.
    """
    files = _package_files()
    try:
        where = cache or Path(platformdirs.user_cache_path("dlmon", appauthor=False)) / "bundles"
    except RuntimeError:
        raise BundleError(
            "there is no home directory to keep a copy of dlmon in; set XDG_CACHE_HOME"
        ) from None
    folder = where / _hash_of(files)
    if not _is_whole(folder, files):
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _held(folder.parent):
                # Somebody else may have been faster.
                if not _is_whole(folder, files):
                    _write(folder, files)
        except OSError as error:
            raise BundleError(
                f"another interpreter needs a copy of dlmon in {where}, which can't be written: "
                f"{error.strerror}"
            ) from None
    return folder


def bundled_command(python: str, module: str, bundle: Path) -> list[str]:
    """Return the command that runs a module of a bundle in another interpreter."""
    return [python, "-c", _START.format(module=module), str(bundle)]


def _package_files() -> dict[str, bytes]:
    """Return the content of every file of the packages, by its path in the bundle."""
    return {
        str(path.relative_to(root)): path.read_bytes() for root, path in sorted(_package_paths())
    }


def _package_paths() -> Iterator[tuple[Path, Path]]:
    for package in PACKAGES:
        # This finds the package without importing it.
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise BundleError(f"the package {package} is not where Python finds packages")
        folder = Path(found.submodule_search_locations[0])
        for path in folder.rglob("*"):
            parts = path.relative_to(folder).parts
            # Compiled modules are for one interpreter, and hidden files are somebody's own.
            if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
                yield folder.parent, path


def _hash_of(files: dict[str, bytes]) -> str:
    """Return what names a bundle: it differs when any name or byte does."""
    told = hashlib.sha256()
    for name, content in files.items():
        for part in (name.encode(), content):
            told.update(len(part).to_bytes(8, "big"))
            told.update(part)
    return told.hexdigest()[:32]


def _is_whole(folder: Path, files: dict[str, bytes]) -> bool:
    """Whether every file is there, for something may tidy the cache file by file."""
    try:
        return all((folder / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


@contextmanager
def _held(where: Path) -> Iterator[None]:
    """Keep others from writing bundles there; the lock is dropped with the descriptor."""
    descriptor = os.open(where, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write a bundle under a name of its own, then give it the right one in one step."""
    being_made = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        for name, content in files.items():
            path = being_made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if folder.exists():
            # One that lost some of its files.
            shutil.rmtree(folder)
        being_made.rename(folder)
    finally:
        shutil.rmtree(being_made, ignore_errors=True)
