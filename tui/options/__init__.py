"""Everything that a run can be asked."""
