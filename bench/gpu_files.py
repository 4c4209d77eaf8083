"""Compare the CPU that the sensors spend on a card of AMD or Intel with that on one of NVIDIA.

Measured: the CPU time of a card's readings at 1 Hz, five of the fast tier and one of the slow, in
turns: of two cards of AMD and two of Intel in a made-up tree of /sys and /proc, and of four GPUs of
the tests' own NVIDIA driver library. With --processes, so many processes of the tree have ten open
files, each tenth process a card among them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness
from estimate import estimate_median, spread, verdict

from dlmon.sensors.drm.cards import DrmProvider
from dlmon.sensors.nvidia.provider import NvidiaProvider
from dlmon.sensors.provider import Provider

sys.path.insert(0, str(harness.ROOT / "tests"))

from fake_nvml import FakeDriver, build
from fakes import drm_tree

CARDS, BAR = 4, 1.0
FAST_PER_SLOW = 5
SECOND = 10**9


def main() -> None:
    parser = harness.parser(__doc__)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--processes", type=int, default=200)
    arguments = parser.parse_args()
    if "FAKE_NVML_STATE" not in os.environ:
        _again_with_a_driver()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        providers = {"files": DrmProvider(_tree(Path(folder), arguments.processes).root)}
        providers["NVML"] = NvidiaProvider(wake=True)
        for provider in providers.values():
            facts = provider.facts()
            assert len(facts.gpus or ()) == CARDS, facts.why
        spent = {name: [] for name in providers}
        for turn in range(arguments.turns + 1):
            for name, provider in providers.items():
                spent[name].append(_cpu_ms(provider, turn * FAST_PER_SLOW * SECOND))
    for name, values in spent.items():
        # The first turn finds what is supported.
        print(f"{'CPU of a card, by ' + name:<44} {spread(values[1:], 3)} ms a second")
    pairs = zip(spent["files"][1:], spent["NVML"][1:], strict=True)
    ratios = [files / nvml for files, nvml in pairs]
    print(verdict("files / NVML", estimate_median(ratios), BAR, "×"))


def _again_with_a_driver() -> None:
    """Run this bench again in an environment with the tests' driver library."""
    folder = Path(tempfile.mkdtemp(prefix="dlmon-bench-"))
    driver = FakeDriver(build(folder), folder)
    driver.says(f"gpus {CARDS}")
    environment = driver.environment()
    # Writing every call to a file is for tests, and would count as the sensors' work.
    del environment["FAKE_NVML_CALLS"]
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def _tree(root: Path, processes: int) -> drm_tree.Tree:
    makes: tuple[Callable[[], drm_tree.MadeCard], ...] = (
        drm_tree.rx_7900_xtx,
        drm_tree.mi300x,
        drm_tree.arc_a770,
        drm_tree.arc_b580,
    )
    tree = drm_tree.Tree(root, *(make() for make in makes))
    for pid in range(1000, 1000 + processes):
        for file in range(10):
            is_card = pid % 10 == 0 and file == 9
            target = "/dev/dri/renderD128" if is_card else "/dev/null"
            text = drm_tree.fdinfo(tree.cards[0], pid, "drm-memory-vram: 1024 KiB")
            tree.open_card(pid, file, text if is_card else "pos:\t0\n", target)
    return tree


def _cpu_ms(provider: Provider, t: int) -> float:
    """Return the CPU time of five seconds of readings, for a card and a second."""
    begin_ns = time.process_time_ns()
    for reading in range(FAST_PER_SLOW):
        provider.fast(t + reading * SECOND)
    provider.slow(t + FAST_PER_SLOW * SECOND)
    return (time.process_time_ns() - begin_ns) / 1e6 / FAST_PER_SLOW / CARDS


if __name__ == "__main__":
    harness.run(main)
