"""What a box is sent of dlmon."""

import io
import platform
import zipfile

from dlmon.launch.bundle import hash_of
from dlmon.remote import payload
from dlmon.remote.payload import parts


def test_what_runs_anywhere_is_one_part_and_what_was_compiled_another():
    anywhere, compiled = parts()
    assert anywhere.system is None
    assert compiled.system == f"{platform.system().lower()}-{platform.machine()}"
    names = set(anywhere.files)
    assert {"dlmon/remote/agent.py", "workloads/__main__.py", "platformdirs/__init__.py"} <= names
    assert "pynvml.py" in names
    assert {name.split("/")[0] for name in compiled.files} == {"psutil"}
    assert not [name for name in names if name.endswith(".so") or "__pycache__" in name]


def test_a_part_is_named_by_what_is_in_it_and_is_unpacked_as_it_was():
    for part in parts():
        assert part.hash == hash_of(part.files)
        with zipfile.ZipFile(io.BytesIO(part.archive())) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == part.files


def test_without_psutil_and_pynvml_the_rest_is_sent(monkeypatch):
    find_spec = payload.importlib.util.find_spec
    absent = ("psutil", "pynvml")
    monkeypatch.setattr(
        payload.importlib.util,
        "find_spec",
        lambda name: None if name in absent else find_spec(name),
    )
    (anywhere,) = parts.__wrapped__()
    assert "pynvml.py" not in anywhere.files
    assert "dlmon/remote/agent.py" in anywhere.files
