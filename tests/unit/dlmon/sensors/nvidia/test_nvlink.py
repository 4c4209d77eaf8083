"""NVLinks: which there are, which are active, what they carry."""

from __future__ import annotations

import pytest
from fakes.nvml_module import NVMLError, NvmlModule

from dlmon.sensors.nvidia.device import NvLinks, existing_links

SECOND = 1_000_000_000
GPU = (0, "a")


def asked(links, module, name):
    (query,) = [query for query in links.queries if query.name == name]
    return query.readers[0](module, GPU)


def test_the_links_that_exist_are_found_out_once_and_the_active_ones_counted():
    module = NvmlModule("a")
    module.links = [1, 1, 0, 1]
    links = NvLinks()
    for _ in range(12):
        assert asked(links, module, "nvlinks") == 3
    assert len(module.calls) == len([0, 1, 2, 3, "no such link"]) + 4
    module.links[0] = 0
    assert asked(links, module, "nvlinks") == 2


@pytest.mark.parametrize(("links", "errors", "code"), [([], {}, "3"), ([1, 1], {"link": 15}, "15")])
def test_neither_a_gpu_without_nvlink_nor_one_that_is_lost_is_asked_for_more(links, errors, code):
    module = NvmlModule("a")
    module.links, module.errors = links, errors
    with pytest.raises(NVMLError, match=code):
        existing_links(module, GPU)
    assert len(module.calls) == 1


def test_what_crosses_all_links_is_the_growth_of_the_drivers_counters():
    module, now = NvmlModule("a"), [0]
    module.links = [1]
    links = NvLinks(lambda: now[0])
    asked(links, module, "nvlinks")
    for name in ("nvlink_receive_mib_s", "nvlink_send_mib_s"):
        with pytest.raises(ValueError, match="no earlier reading"):
            asked(links, module, name)
    now[0] = 5 * SECOND
    module.values |= {"received": 5 * 3 * 1024, "sent": 5 * 512}
    assert asked(links, module, "nvlink_receive_mib_s") == 3.0
    assert asked(links, module, "nvlink_send_mib_s") == 0.5
    module.values["sent"] = 2**64 - 1
    with pytest.raises(ValueError, match="an impossible value"):
        asked(links, module, "nvlink_send_mib_s")
