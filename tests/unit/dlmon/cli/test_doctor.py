"""What `dlmon doctor` prints."""

from dlmon.cli.doctor import print_findings
from dlmon.doctor.finding import Finding


def test_findings_are_marked_and_followed_by_what_to_do(capsys):
    print_findings(
        [
            Finding("Python", "ok", "3.11.7"),
            Finding("GPU", "missing", "no NVIDIA driver", "install one"),
            Finding("CPU", "warning", "on battery"),
            Finding("GPU", "absent", "no NVIDIA GPU found"),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "✓ Python: 3.11.7",
        "✗ GPU: no NVIDIA driver",
        "    → install one",
        "! CPU: on battery",
        "– GPU: no NVIDIA GPU found",
    ]
