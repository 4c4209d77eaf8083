"""A folder for PYTHONPATH: under `dlmon exec`, Python imports its `sitecustomize` first."""
