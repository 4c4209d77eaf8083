"""What a script's Python imports first under `dlmon exec`: a folder for PYTHONPATH."""
