"""The messages between viewers and supervisors: a job, requests about a run, a stop."""
