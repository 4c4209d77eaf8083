"""The Slurm of the tests is a real one: it runs jobs, gives GPUs, loses a node."""

from __future__ import annotations

import os

from fakes.sessions import eventually


def test_a_job_runs_on_two_nodes_with_a_gpu_each(slurm):
    printed = slurm.run("srun", "-N2", "--gres=gpu:1", "printenv", "SLURMD_NODENAME")
    assert sorted(printed.split()) == ["n1", "n2"]


def test_a_node_that_dies_costs_its_job(slurm):
    job = slurm.run(
        "sbatch", "--parsable", "--no-requeue", "-w", "n2", "-o/dev/null", "--wrap", "sleep 99"
    ).strip()
    eventually(lambda: slurm.state_of(job) == "RUNNING", "the job to run")
    slurm.kill_node("n2")
    eventually(lambda: slurm.state_of(job) == "NODE_FAIL", "the node to be found missing")
    assert slurm.nodes()["n2"].startswith("down")


def test_what_the_tests_start_finds_it(slurm):
    assert os.environ["SLURM_CONF"] == str(slurm.config)
