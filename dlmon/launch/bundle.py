"""Write what runs in somebody else's interpreter into a folder of its own.

The folder holds `dlmon/` and `workloads/` as packages and nothing else: never
our site-packages, and never `dlmon/` itself on the path, whose `keras.py` would
be taken for Keras. Its name is the hash of its content, so one that is there is
the right one, and two versions of dlmon never share any. It is written and checked as the one on a
box is.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from dlmon.launch.bootstrap import hash_of, is_whole, keep, remove_unused
from dlmon.system.private_files import own_private_folder

PACKAGES = ("dlmon", "workloads")
MONITOR = "_dlmon_monitor"
"""What our package is called inside a script's process."""
_ENTRY = "instrument/entry/sitecustomize.py"
_IN_SCRIPTS = ("instrument/", "records/", "statistics/")
_OWN_NAME = re.compile(rb"\bdlmon\.(?=instrument\b|records\b|statistics\b)")
# What only the command line and the screens need; no trained process and no other machine does.
_FACE = ("figures", "render", "options", "cli")


class BundleError(Exception):
    """The folder can't be written; the message is one sentence for a person."""


def bundle_folder(cache: Path | None = None) -> Path:
    """Return a folder with the packages, which stays there for a month after it was needed last.

    Nobody but the user may write where it lies, and it is written again where it
    holds anything but what it should.

    Args:
        cache: where such folders are kept; by default the platform's cache directory.

    Raises:
        BundleError: it can't be written there, or others could change it.
    """
    return _kept(package_files(), cache)


def script_folder(cache: Path | None = None) -> Path:
    """Return a folder with what enters the Python of a script.

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
    return _kept(files, cache)


def _kept(files: dict[str, bytes], cache: Path | None) -> Path:
    name = hash_of(files)
    try:
        where = cache or Path(platformdirs.user_cache_path("dlmon", appauthor=False)) / "bundles"
        if cache is None:
            own_private_folder(where.parent)
        own_private_folder(where)
        if not is_whole(str(where / name), name):
            keep(str(where), name, files)
        remove_unused(str(where), name)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "there is no home directory"
        raise BundleError(
            f"another interpreter needs a copy of dlmon, which can't be kept: {why}; set "
            "XDG_CACHE_HOME to a folder of your own"
        ) from None
    return where / name


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
