"""Read the metrics that other programs have recorded.

`find` finds the runs in a path, the readers (`event_files`, `wandb_files`, `databases`,
`text_files`) yield while they read, and `file_session` shows a run as a session.
"""
