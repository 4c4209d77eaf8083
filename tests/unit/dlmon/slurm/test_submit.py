import shlex
from pathlib import Path

import pytest

from dlmon.slurm import submit as submitting
from dlmon.slurm.commands import SlurmError
from dlmon.slurm.submit import array_script, batch_script, read_slurm_options, submit, warning_s


def script_of(text, folder="/logs/id", by_srun=False):
    command, output = ["python", "-m", "dlmon.supervisor", folder], Path(folder, "job.out")
    options = read_slurm_options(text)
    return batch_script(options, output, "train.py", command, by_srun, '{"session": "id"}')


def directives(script):
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH ")]
    return [shlex.split(line.removeprefix("#SBATCH ")) for line in lines]


def test_the_script_of_a_job():
    assert script_of("-p gpu --gres=gpu:1 -t 2:00:00") == (
        "#!/bin/bash\n"
        "#SBATCH --job-name=train.py\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --output=/dev/null\n"
        "#SBATCH --signal=B:TERM@90\n"
        "#SBATCH -p gpu\n"
        "#SBATCH --gres=gpu:1\n"
        "#SBATCH -t 2:00:00\n"
        "\n"
        "[ ! -d /logs/id ] || exec >> /logs/id/job.out 2>&1\n"
        "exec python -m dlmon.supervisor /logs/id << 'END OF JOB'\n"
        '{"session": "id"}\n'
        "END OF JOB\n"
    )


def test_what_a_person_asks_comes_after_what_dlmon_asks():
    asked = directives(script_of("-J mine -o own.out"))
    assert asked[-2:] == [["-J", "mine"], ["-o", "own.out"]]
    assert "job.out" not in script_of("-o own.out")


def test_options_are_split_as_a_shell_does_and_stay_as_they_are():
    text = """--comment='it is "mine" $(x)' --exclude "a b" """
    assert directives(script_of(text))[-2:] == [
        ['--comment=it is "mine" $(x)'],
        ["--exclude", "a b"],
    ]


def test_a_percent_of_the_path_is_no_pattern():
    assert ["--output=/logs/5%%/job.out"] in directives(script_of("", "/logs/5%", by_srun=True))


def test_a_signal_of_ones_own_stands():
    script = script_of("--signal=B:USR1@120")
    assert script.count("--signal") == 1
    options = read_slurm_options("--signal B:SIGUSR1@120")
    assert options.own_signal == "USR1"
    assert read_slurm_options("-t 5").own_signal is None


@pytest.mark.parametrize(("asked", "warned"), [(None, 90), (7200.0, 90), (600.0, 60), (60.0, 20)])
def test_a_short_job_is_warned_later(asked, warned):
    assert warning_s(asked) == warned


@pytest.mark.parametrize(
    ("text", "seconds"), [("-t30", 1800), ("--time=1-0", 86400), ("-t 2:00:00", 7200), ("", None)]
)
def test_the_time_limit_in_each_way_of_asking(text, seconds):
    assert read_slurm_options(text).time_limit_s == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-p 'gpu", "a quote is not closed"),
        ("gpu", "takes options of sbatch"),
        ("-p gpu\n#SBATCH -A x", "one line of options"),
        ("--wrap=true", "leave --wrap out"),
        ("-W", "leave --wait out"),
        ("-a 0-3", "leave --array out"),
        ("-a0-3", "leave --array out"),
        ("-M other", "leave --clusters out"),
    ],
)
def test_what_is_none_for_dlmon_is_refused(text, why):
    with pytest.raises(SlurmError, match=why):
        read_slurm_options(text)


@pytest.mark.parametrize("printed", [b"123\n", b"123;cluster\n", b"a notice of the site\n123\n"])
def test_the_number_of_the_job(monkeypatch, printed):
    asked = []

    def run(words, timeout_s):
        asked.append(words)
        return printed

    monkeypatch.setattr(submitting, "run_slurm", run)
    assert submit(Path("/logs/id/job.sh"), "/work") == "123"
    assert asked == [["sbatch", "--parsable", "--chdir=/work", "/logs/id/job.sh"]]


def test_no_number_is_a_sentence(monkeypatch):
    monkeypatch.setattr(submitting, "run_slurm", lambda words, timeout_s: b"queued\n")
    with pytest.raises(SlurmError, match="sbatch named no job"):
        submit(Path("job.sh"))


def test_the_script_of_an_array_finds_the_folder_of_its_task():
    options = read_slurm_options("-t 2:00:00")
    output, tasks = Path("/logs/sweep 5%"), Path("/logs/sweep 5%/tasks")
    script = array_script(options, output, "grid", ["python", "-m", "x"], tasks, "--array=0-3%2")
    assert ["--array=0-3%2"] in directives(script)
    assert ["--output=/logs/sweep 5%%/task-%A-%a.out"] in directives(script)
    assert script.endswith(
        "folder=$(sed -n \"$((SLURM_ARRAY_TASK_ID + 1))p\" '/logs/sweep 5%/tasks')\n"
        'exec python -m x "$folder" >> "$folder/job.out" 2>&1\n'
    )


@pytest.mark.parametrize("text", ["-N2", "-N 2-4", "--nodes=2", "-n 8", "--ntasks-per-node=4"])
def test_several_tasks_each_run_the_command_and_hear_of_the_end_themselves(text):
    options = read_slurm_options(text)
    assert options.has_several_tasks
    script = batch_script(options, Path("/logs/job.out"), "train.py", ["python"], by_srun=True)
    assert "\nexec srun python\n" in script
    assert "#SBATCH --signal=TERM@90\n" in script


@pytest.mark.parametrize("text", ["", "-N1", "-n 1", "-N x", "-c 8"])
def test_one_task_runs_it_alone(text):
    assert not read_slurm_options(text).has_several_tasks
