"""What the app does for a person: functions that take the app, show screens and wait for them.

A screen posts what it asks for (`tui.requests`); `tui.app` says which function answers it.
"""
