"""Answer the questions of agents with the sections of reports, as short texts."""
