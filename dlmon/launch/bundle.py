"""Copy the code that runs in another interpreter into a folder of its own.

The folder holds the packages `dlmon/` and `workloads/` and nothing else: our site-packages must
not be on the path of another interpreter, nor `dlmon/` itself, whose `keras.py` would shadow
Keras. Its name is the hash of its content, so two versions of dlmon never share a folder. It is
written and checked like the folder on a remote host.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from dlmon.launch.bootstrap import hash_of, is_whole, remove_unused, write_folder
from dlmon.system.private_files import own_private_folder

PACKAGES = ("dlmon", "workloads")
MONITOR = "_dlmon_monitor"
"""The name of our package inside a script's process."""
_ENTRY = "instrument/entry/sitecustomize.py"
_IN_SCRIPTS = ("instrument/", "records/", "statistics/")
_OWN_NAME = re.compile(rb"\bdlmon\.(?=instrument\b|records\b|statistics\b)")
# Only the command line and the screens need these, never another interpreter or host.
_SCREEN_PACKAGES = ("figures", "render", "options", "cli", "metric_files")


class BundleError(Exception):
    """Raised if the folder can't be written; the message is one sentence for a person."""


def bundle_folder(cache: Path | None = None) -> Path:
    """Return a folder with the packages, which stays for a month after its last use.

    Only the user may write to it, and it is written again if its content is not as it should be.

    Args:
        cache: its parent folder; by default in the platform's cache directory.

    Raises:
        BundleError: it can't be written there, or others could change it.
    """
    return _folder_with(package_files(), cache)


def script_folder(cache: Path | None = None) -> Path:
    """Return a folder with the code that runs inside a script's process.

    `entry/` belongs on PYTHONPATH, and holds only a `sitecustomize.py`. `packages/` holds the code
    that is imported once something trains. Its package has a name of its own, because the
    script's environment or folder may have another `dlmon`.

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
    return _folder_with(files, cache)


def _folder_with(files: dict[str, bytes], cache: Path | None) -> Path:
    name = hash_of(files)
    try:
        parent = cache or Path(platformdirs.user_cache_path("dlmon", appauthor=False)) / "bundles"
        if cache is None:
            own_private_folder(parent.parent)
        own_private_folder(parent)
        if not is_whole(str(parent / name), name):
            write_folder(str(parent), name, files)
        remove_unused(str(parent), name)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "there is no home directory"
        raise BundleError(
            f"another interpreter needs a copy of dlmon, which can't be kept: {why}; set "
            "XDG_CACHE_HOME to a folder of your own"
        ) from None
    return parent / name


def package_files(packages: Iterable[str] = PACKAGES) -> dict[str, bytes]:
    """Return the content of every file of some packages, by its path in the bundle.

    Raises:
        BundleError: a package is not installed as a folder.
    """
    files = {}
    for package in packages:
        # This finds the package without importing it.
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise BundleError(f"the package {package} is not where Python finds packages")
        folder = Path(spec.submodule_search_locations[0])
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if package == "dlmon" and parts[0] in _SCREEN_PACKAGES:
                continue
            # Compiled modules fit only one interpreter, and hidden files are a person's own.
            if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in parts):
                files[str(path.relative_to(folder.parent))] = path.read_bytes()
    return files
