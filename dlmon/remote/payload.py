"""What a box needs of dlmon: the files that are sent there, as parts that are named by hash."""

from __future__ import annotations

import importlib.util
import io
import platform
import zipfile
from functools import cache
from pathlib import Path

from dlmon.launch.bundle import hash_of, package_files
from dlmon.records.record import record

_PACKAGES = ("dlmon", "workloads", "platformdirs")
_MODULES = ("pynvml",)
_COMPILED = "psutil"


@record(frozen=True)
class Part:
    """Some files of dlmon; `system` says where they run, such as linux-x86_64, None anywhere."""

    hash: str
    files: dict[str, bytes]
    system: str | None

    def archive(self) -> bytes:
        """Return the files as a zip file."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in self.files.items():
                archive.writestr(name, content)
        return packed.getvalue()


@cache
def parts() -> tuple[Part, ...]:
    """Return all that may have to be sent: what runs anywhere, and what was compiled for here.

    Raises:
        BundleError: a package of ours is not where Python finds packages.
    """
    anywhere = package_files(_PACKAGES)
    for module in _MODULES:
        # Without it a box reports no GPU, and says why.
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None:
            anywhere[f"{module}.py"] = Path(found.origin).read_bytes()
    made = [Part(hash_of(anywhere), anywhere, None)]
    if importlib.util.find_spec(_COMPILED) is not None:
        compiled = package_files((_COMPILED,))
        system = f"{platform.system().lower()}-{platform.machine()}"
        made.append(Part(hash_of(compiled), compiled, system))
    return tuple(made)
