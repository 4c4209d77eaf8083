"""What the lines of a machine say."""

from dlmon.records import MachineFacts
from dlmon.render.watch import facts_line


def test_the_first_line_says_what_a_container_may_use():
    machine = MachineFacts(cpu_model="Xeon", cores=1, memory_mib=65_536, memory_limit_mib=4_096)
    assert facts_line("box", machine) == "box: Xeon, 1 core, 4.0 GiB; GPU: none"
