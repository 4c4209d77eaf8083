"""Write the figures of all logs again: `make golden`."""

import shutil
import tempfile
from pathlib import Path

from .figures import FIGURES, all_figures, logs_in, text_of

with tempfile.TemporaryDirectory() as folder, logs_in(Path(folder)) as logs:
    texts = {name: text_of(figures()) for name, figures in all_figures(logs).items()}
shutil.rmtree(FIGURES, ignore_errors=True)
FIGURES.mkdir()
for name, text in texts.items():
    (FIGURES / f"{name}.json").write_text(text)
