"""The lines of a session that is followed without a screen: when each event happened."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.recorded import folded, recorded_machine, recorded_session, write_log
from fakes.scripts import script_session
from fakes.suspended import suspended

import dlmon.render.follow
import dlmon.session.follower
from dlmon.exit_codes import FAILED
from dlmon.notification import DesktopAlerts
from dlmon.records import Batches, Epoch, Facts, Model, Notice, Phase, Stack, Status
from dlmon.render.follow import _Following, _Lines, follow
from dlmon.render.summary import Ending
from dlmon.session.session import time_of


def followed(tmp_path, capsys, records, exit_code=0):
    """Return what is printed of a session, with all figures."""
    log = write_log(tmp_path, records, "shown")
    assert follow(log, None, ending=Ending(verbose=True)) == exit_code
    return capsys.readouterr().out


@pytest.mark.parametrize("mode", ["gradients", "inference"])
def test_a_mode_that_learns_nothing_shows_passes_and_batches(tmp_path, capsys, mode):
    header, *records, result = recorded_session()
    options = {**header.options, "mode": mode}
    records = [replace(r, mode=mode) if isinstance(r, Model) else r for r in records]
    result = replace(result, options=options, seconds_per_epoch=None)
    printed = followed(tmp_path, capsys, [replace(header, options=options), *records, result])
    assert "  pass 3/3 took" in printed
    assert "epoch" not in printed
    assert re.search(r"^step +mean [0-9.]+ ms, median [0-9.]+ ms", printed, re.MULTILINE)
    assert "per batch" in printed


def test_while_a_long_log_is_read_nothing_old_is_printed_as_now(tmp_path, capsys, monkeypatch):
    """A line is due all the time, and each record is a slice of its own."""
    monkeypatch.setattr(dlmon.render.follow, "LINE_EVERY_S", 0)
    monkeypatch.setattr(dlmon.render.follow, "SLICE_S", 0)
    monkeypatch.setattr(dlmon.session.follower, "AT_ONCE", 1)
    printed = followed(tmp_path, capsys, recorded_session())
    shares = [
        int(share) for share in re.findall(r"  reading the log: (\d+) %$", printed, re.MULTILINE)
    ]
    assert len(shares) > 5
    assert shares == sorted(shares)
    # What happened is printed with the time at which it did; what was so then is not.
    assert "  epoch 3/3 took" in printed
    assert not re.search(r"  step \d+/", printed)


@pytest.mark.parametrize(("reached", "is_headed"), [("training", True), ("opening", False)])
def test_while_an_epoch_starts_no_headline_is_printed(
    tmp_path, capsys, monkeypatch, reached, is_headed
):
    monkeypatch.setattr(dlmon.render.follow, "LINE_EVERY_S", 0)
    session = folded(recorded_session(reached))
    now = {"running": True, "status": Status.RUNNING, "problem": None, "read_share": None}
    follower = SimpleNamespace(session=session, path=tmp_path, snapshot=session.snapshot, **now)
    _Lines(follower, False).show([])
    printed = capsys.readouterr().out
    assert "step " in printed
    assert ("GPU-BOUND 97 %" in printed) == is_headed
    assert "NO STEP" not in printed


def lasting(records, asked):
    """Return records of a run in which fewer epochs were asked for than were trained."""
    return [
        replace(r, epochs=asked, extra_epochs=r.epochs - asked) if isinstance(r, Model) else r
        for r in records
    ]


def opening_late(records, epoch):
    """Return the records with a long opening of an epoch, which takes the end of the one before."""
    opened = []
    for record in records:
        if isinstance(record, Batches) and (record.epoch, record.first) == (epoch, 0):
            record = replace(record, opening_us=2_100_000)
            begin = record.t - record.dt_us[0] * 1000
            opened.append(Phase(begin - 2_100_000_000, "opening", epoch))
        opened.append(record)
    return opened


def test_a_run_trains_once_though_it_validates_between_and_a_long_opening_is_a_stall(
    tmp_path, capsys
):
    printed = followed(tmp_path, capsys, opening_late(recorded_session(epochs=4), 2))
    assert len(re.findall("  epoch [0-9]/4 took", printed)) == 4
    # The first validation compiles, too.
    phases = re.findall("  (training|compiling|starting epoch.*)$", printed, re.MULTILINE)
    assert phases[:4] == ["compiling", "training", "compiling", "training"]
    assert [phase for phase in phases if "starting" in phase] == ["starting epoch 3"]
    said = "^stalls +1 stall at the start of an epoch: over ten times"
    assert re.search(said, printed, re.MULTILINE)


def test_of_a_pause_that_was_a_compilation_there_is_no_other_line(tmp_path, capsys):
    records = recorded_session(epochs=1)
    begun = next(r.t for r in records if isinstance(r, Phase) and r.name == "compiling")
    at = next(i for i, r in enumerate(records) if isinstance(r, Phase) and r.name == "training")
    trained = records[at].t
    paused = [Stack(trained, begun, 1, 1, ()), Stack(trained + 2 * 10**9, trained, 1, 1, ())]
    printed = followed(tmp_path, capsys, [*records[: at + 1], *paused, *records[at + 1 :]])
    assert re.findall("  (.*) without a batch", printed) == ["2.00 s"]


@pytest.mark.parametrize(("step_us", "fewest", "most"), [(11_600, 4, 10), (50_000, 40, 40)])
def test_of_epochs_that_follow_those_asked_for_one_has_a_line_every_ten_seconds(
    tmp_path, capsys, step_us, fewest, most
):
    samples = 6_400 if step_us < 50_000 else 32_000
    records = recorded_session(epochs=40, samples=samples, step_us=step_us)
    printed = followed(tmp_path, capsys, lasting(records, asked=2))
    lines = re.findall("^[0-9:]{8}  (epoch .* took .*)$", printed, re.MULTILINE)
    assert [line.split(" took")[0] for line in lines[:3]] == [f"epoch {n}/40" for n in (1, 2, 3)]
    assert fewest <= len(lines) <= most
    after = printed.partition(lines[2])[2]
    assert not re.search("^[0-9:]{8}  training$", after, re.MULTILINE)


def test_lines_are_stamped_with_when_it_happened_not_with_when_they_were_read(
    utc, tmp_path, capsys
):
    write_log(tmp_path, recorded_session(), "shown")
    assert follow(tmp_path / "shown" / "session.jsonl", None) == 0
    stamped = re.findall("^([0-9:]{8})  (.*)$", capsys.readouterr().out, re.MULTILINE)
    times = {text.split()[0]: at for at, text in reversed(stamped)}
    assert times["session"] == times["log"] == "14:56:00"
    begun, *_, ended = [at for at, text in stamped if text.startswith("epoch ")]
    assert "14:56:01" <= times["compiling"] < begun < ended < "14:57:00"
    assert [at for at, _ in stamped] == sorted(at for at, _ in stamped)


def test_a_suspension_is_in_no_duration_and_in_every_time_of_day(utc, tmp_path, capsys):
    records = recorded_session()
    printed = followed(tmp_path, capsys, records)
    middle = (records[0].t + max(r.end for r in records if isinstance(r, Epoch))) // 2
    stack = Stack(middle + 10**8, middle - 10**8, 1, 1, ())
    at = next(n for n, r in enumerate(records) if (time_of(r) or 0) > stack.t)
    log = suspended([*records[:at], stack, *records[at:]], [(middle, 600 * 10**9)])
    later = followed(tmp_path / "suspended", capsys, log)
    assert re.search(r"^suspended +600 s, in no figure$", later, re.MULTILINE)
    assert "without a batch" not in later
    took = "  (epoch [0-9]/3 took [0-9.]+ s)"
    assert re.findall(took, later) == re.findall(took, printed)
    assert "14:57" not in printed
    assert re.search("^15:06:[0-9]{2}  epoch 3/3 took", later, re.MULTILINE)


def test_each_sample_of_a_recorded_machine_is_a_line_with_what_did_not_change(tmp_path, capsys):
    header, *samples = recorded_machine(12)
    later = replace(header.machine, cpu_model="AMD EPYC")
    notice = Notice(samples[5].t, "the sensors ended; they are started again")
    facts = Facts(samples[5].t, 0.0, "tower", later)
    printed = followed(tmp_path, capsys, [header, *samples[:6], notice, facts, *samples[6:]])
    lines = printed.splitlines()
    assert lines[0].endswith(f"session {header.id}")
    assert lines[2][10:].startswith(
        "tower: Intel i7-9700K, 8 cores, 32.0 GiB, NVIDIA GTX 1060 6GB, driver"
    )
    sampled = [line for line in lines if re.match(r"\d\d:\d\d:\d\d  CPU", line)]
    assert len(sampled) == 12
    # Its memory is reported once.
    assert all(" 4.7 GiB " in line for line in sampled), sampled
    assert lines[9].endswith("notice: the sensors ended; they are started again")
    assert lines[10][10:].startswith("tower: AMD EPYC, 8 cores, 32.0 GiB, NVIDIA GTX 1060 6GB")
    assert lines.index("") == 3 + 12 + 2


def test_the_summary_of_a_recorded_machine_says_how_long_and_how_it_was_used(tmp_path, capsys):
    printed = followed(tmp_path, capsys, recorded_machine(energy=True))
    rows = dict(re.findall(r"^(mean \w+(?: 0)?|\w+)  +(.*?) *$", printed, re.MULTILINE))
    assert rows["recorded"] == "the machine tower"
    assert (rows["status"], rows["wall"]) == ("completed", "00:29")
    assert re.fullmatch(r"\d\d %", rows["mean CPU"])
    assert re.fullmatch(r"\d\d %", rows["mean GPU 0"])
    assert rows["energy"] == "CPU 1.16 kJ, GPU 0 2.61 kJ"
    for word in ("epoch", "throughput", "workload", "published"):
        assert word not in printed
    # One that was interrupted is summed up from its samples.
    printed = followed(tmp_path / "cut", capsys, recorded_machine(30, status=None), exit_code=1)
    assert re.search(r"^mean CPU +\d\d % *$", printed, re.MULTILINE)
    assert re.search(r"^energy +– \(its energy counter was not read\) *$", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("steps", "said"),
    [(None, ""), (1, " (1 step)"), (2, " (2 steps)"), (12_000, " (12,000 steps)")],
)
def test_an_epoch_that_was_cut_says_after_how_many_steps_where_that_is_known(
    tmp_path, capsys, steps, said
):
    cut = [
        replace(record, whole=False, steps=steps) if isinstance(record, Epoch) else record
        for record in recorded_session()
    ]
    printed = followed(tmp_path, capsys, cut)
    lines = re.findall(r"^[0-9:]{8}  epoch .* took [0-9.]+ s(.*?)  ", printed, re.MULTILINE)
    assert lines == [said] * 3


def test_an_epoch_that_is_written_again_with_its_validation_has_a_line_for_that(tmp_path, capsys):
    records = script_session(seconds=6, validated=True)
    printed = followed(tmp_path, capsys, records, exit_code=FAILED)
    lines = [line.split("  ", 1)[1] for line in printed.splitlines() if " took " in line]
    assert [line.split(" took")[0] for line in lines][:4] == [
        "epoch 1",
        "validation of epoch 1",
        "epoch 2",
        "validation of epoch 2",
    ]
    assert "validation of epoch 1 took 0.10 s, the epoch 2.10 s in all" in printed


class Lost:
    """A follower whose host stays lost while its text counts the seconds."""

    running = True
    lasting_problem = "box closed the connection"
    since = iter(("; next try in 1 s", ", for 1 s; connecting", ", for 2 s; next try in 3 s"))

    @property
    def problem(self):
        return self.lasting_problem + next(self.since)


def test_what_lasts_is_said_once_however_its_seconds_count(capsys):
    following = _Following(Lost(), None, None, DesktopAlerts(False))
    for _ in range(3):
        following._report_problem()
    assert capsys.readouterr().err == "dlmon: box closed the connection; next try in 1 s\n"
