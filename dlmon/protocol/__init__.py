"""What viewers and supervisors say to each other: a job, questions about a run, a stop."""
