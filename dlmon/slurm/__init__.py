"""Slurm: submit a job, follow it in the queue, cancel it, and say what it used."""
