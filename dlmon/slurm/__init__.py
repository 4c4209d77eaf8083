"""Slurm: submit a job, follow it in the queue, cancel it, and report the resources it used."""
