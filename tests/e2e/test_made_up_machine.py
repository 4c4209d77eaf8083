"""`dlmon watch` of a made-up machine: files of two vendors of GPUs, and a driver of the third."""

import json
import os
import signal
import sys

import pytest
from fakes import drm_tree
from fakes.drm_tree import Tree, fdinfo
from fakes.sessions import Printing, eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sensors run on Linux")

# Imported by each Python as it starts, it moves the folder of the sensors' files.
MOVES_ROOT = """\
import os
from pathlib import Path
from dlmon.sensors.drm import cards, intel_memory
from dlmon.sensors.nvidia import provider
cards.ROOT = provider.ROOT = Path(os.environ["MADE_UP_ROOT"])
intel_memory.DEVICES = cards.ROOT / "dev/dri"
intel_memory._ask_xe = intel_memory._ask_i915 = lambda descriptor: os.read(descriptor, 1 << 16)
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """The files of a machine that all processes of this test read."""
    (tmp_path / "sitecustomize.py").write_text(MOVES_ROOT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("MADE_UP_ROOT", str(tmp_path / "root"))
    cards = drm_tree.rx_7900_xtx(), drm_tree.arc_a770(), drm_tree.uhd_770()
    return Tree(tmp_path / "root", *cards)


def test_the_gpus_of_all_vendors_are_watched_together(
    tmp_path, tree, own_driver, dlmon_command, ended_with_test
):
    tree.open_card(os.getpid(), 5, fdinfo(tree.cards[0], 3, "drm-memory-vram: 2048 MiB"))
    own_driver.says("gpus 1", f"process 0 {os.getpid()} 300")
    plain, as_json = (
        ended_with_test(Printing(tmp_path / way, [dlmon_command, "watch", way]))
        for way in ("--plain", "--json")
    )
    names = "NVIDIA Fake 100, AMD Radeon RX 7900 XTX, Intel Arc A770, Intel UHD Graphics 770"
    plain.wait_for_line(f"{names}, NVIDIA driver ")
    plain.wait_for_line("GPU 1 97 % 17.6 GiB 339 W 63 °C  GPU 2 ")
    eventually(lambda: as_json.stdout.count("\n") > 1, "two samples")
    sample = json.loads(as_json.stdout.splitlines()[1])
    by_gpu = sample["gpus"]
    assert [gpu["index"] for gpu in by_gpu] == [0, 1, 2, 3]
    assert (by_gpu[1]["utilization_pct"], by_gpu[1]["power_w"]) == (97, 339.0)
    # What a driver doesn't tell has its reason.
    unknown = {name for name, value in by_gpu[2].items() if value is None} - {"state"}
    assert "temperature_c" in unknown
    assert unknown <= by_gpu[2]["why"].keys()
    (mine,) = (row for row in sample["processes"] if row["pid"] == os.getpid())
    assert (mine["gpus"], mine["gpu_memory_mib"]) == ([0, 1], 2_348)
    for watching in (plain, as_json):
        watching.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize("fault", ["crash", "hang"])
def test_other_cards_are_read_while_nvidias_driver_is_left_out(
    fault, tmp_path, tree, own_driver, dlmon_command, ended_with_test
):
    tree.write("sys/bus/pci/drivers/nvidia/0000:07:00.0/class", "0x030200")
    own_driver.says("gpus 1")
    watching = ended_with_test(
        Printing(tmp_path / "watch", [dlmon_command, "watch", "--json", "--interval", "0.1"])
    )
    eventually(lambda: watching.stdout.count("\n") > 2, "two samples")
    own_driver.says("gpus 1", f"{fault} nvmlDeviceGetUtilizationRates")

    def lost():
        *_, line = [line for line in watching.stdout.split("\n")[:-1] if '"gpus"' in line]
        return json.loads(line)["gpus"][0]["state"] == "lost"

    eventually(lost, "the loss of NVIDIA's")
    count = watching.stdout.count("\n")
    eventually(lambda: watching.stdout.count("\n") > count + 2, "samples after it")
    sample = json.loads(watching.stdout.split("\n")[-2])
    assert [gpu["index"] for gpu in sample["gpus"]] == [0, 1, 2, 3]
    assert sample["gpus"][0]["why"]["power_w"].startswith("lost: the sensors ")
    assert sample["gpus"][1]["utilization_pct"] == 97
    assert "they go on without NVIDIA's GPUs, which are tried again" in watching.stderr
    own_driver.says("gpus 1")
    watching.process.send_signal(signal.SIGINT)
