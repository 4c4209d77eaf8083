"""Print the findings of `dlmon doctor` as JSON: `python -P -m dlmon.doctor [--quick] [DIR]`.

DIR is the log directory; without it, the default one.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from dlmon.doctor.examination import run_doctor
from dlmon.log.folder import log_directory
from dlmon.system.children import print_answer


def main() -> None:
    """Print a list of findings."""
    directories = [Path(word) for word in sys.argv[1:] if word != "--quick"]
    directory = log_directory(directories[0] if directories else None)
    findings = run_doctor(directory, quick="--quick" in sys.argv)
    print_answer([asdict(finding) for finding in findings])


if __name__ == "__main__":
    main()
