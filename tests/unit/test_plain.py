"""The lines of a session that is followed without a screen: when what they tell of happened."""

import re
from dataclasses import replace

from fakes.recorded import recorded_session, write_log

from dlmon.records import Model
from tui.plain import follow


def followed(tmp_path, capsys, records):
    """Return what is printed of a session."""
    write_log(tmp_path, records, "shown")
    assert follow(tmp_path / "shown" / "session.jsonl", None) == 0
    return capsys.readouterr().out


def test_the_summary_tells_what_a_run_cost_and_how_it_computed(tmp_path, capsys):
    header, *records, result = recorded_session()
    options = {**header.options, "precision": "mixed_float16", "price": "0.5"}
    result = replace(
        result,
        options=options,
        cost_usd=0.0123,
        energy_j_per_epoch={"gpu": 1234.0, "cpu": 85.0},
        effective_flop_s=1.25e12,
        peak_share=0.344,
    )
    told = followed(tmp_path, capsys, [replace(header, options=options), *records, result])
    assert re.search(r"^settings +mixed_float16 *$", told, re.MULTILINE)
    assert re.search(r"^cost +0\.012 USD *$", told, re.MULTILINE)
    assert re.search(r"^energy +GPU 1\.23 kJ, CPU 85 J an epoch *$", told, re.MULTILINE)
    assert re.search(r"^effective +1\.25 TFLOP/s, 34 % of peak *$", told, re.MULTILINE)
    assert re.search(r"^ +device +an epoch +USD +year", told, re.MULTILINE)


def test_without_a_price_no_cost_is_told(tmp_path, capsys):
    told = followed(tmp_path, capsys, recorded_session())
    assert "USD" not in told
    assert not re.search("^(cost|settings) ", told, re.MULTILINE)


def test_inference_tells_of_passes_and_of_batches_not_of_epochs(tmp_path, capsys):
    header, *records, result = recorded_session()
    options = {**header.options, "mode": "inference"}
    records = [replace(r, mode="inference") if isinstance(r, Model) else r for r in records]
    result = replace(result, options=options, seconds_per_epoch=None)
    told = followed(tmp_path, capsys, [replace(header, options=options), *records, result])
    assert "  pass 3/3 took" in told
    assert "epoch" not in told
    assert re.search(r"^step +median [0-9.]+ ms", told, re.MULTILINE)
    assert "a batch" in told


def lasting(records, asked):
    """Return records of a run in which fewer epochs were asked for than were trained."""
    return [
        replace(r, epochs=asked, extra_epochs=r.epochs - asked) if isinstance(r, Model) else r
        for r in records
    ]


def test_epochs_that_follow_those_asked_for_share_lines_of_ten_seconds(tmp_path, capsys):
    records = recorded_session(epochs=40, samples=6_400)
    told = followed(tmp_path, capsys, lasting(records, asked=2))
    lines = re.findall("^[0-9:]{8}  (epochs? .* took .*)$", told, re.MULTILINE)
    assert lines[0].startswith("epoch 1/40 took ")
    assert lines[1].startswith("epoch 2/40 took ")
    spans = [re.match("epochs ([0-9]+) to ([0-9]+) took ([0-9.]+) s  ", line) for line in lines[2:]]
    assert 1 < len(spans) < 10
    ends = [2, *(int(span[2]) for span in spans)]
    assert [int(span[1]) for span in spans] == [end + 1 for end in ends[:-1]]
    assert ends[-1] == 40
    assert all(float(span[3]) >= 10 for span in spans[:-1])
    assert "loss" in lines[-1]
    after = told.partition(lines[2])[2]
    assert not re.search("^[0-9:]{8}  training$", after, re.MULTILINE)


def test_an_epoch_of_more_than_ten_seconds_has_its_own_line(tmp_path, capsys):
    records = recorded_session(epochs=4, step_us=50_000)
    told = followed(tmp_path, capsys, lasting(records, asked=1))
    assert re.findall("  (epochs? [^ ]+) took", told) == [f"epoch {n}/4" for n in range(1, 5)]


def test_passes_share_lines_too(tmp_path, capsys):
    header, *records, result = lasting(recorded_session(epochs=5, samples=640), asked=1)
    options = {**header.options, "mode": "inference"}
    records = [replace(r, mode="inference") if isinstance(r, Model) else r for r in records]
    result = replace(result, options=options, seconds_per_epoch=None)
    told = followed(tmp_path, capsys, [replace(header, options=options), *records, result])
    assert "  pass 1/5 took" in told
    assert "  passes 2 to 5 took" in told


def test_lines_are_stamped_with_when_it_happened_not_with_when_they_were_read(
    utc, tmp_path, capsys
):
    write_log(tmp_path, recorded_session(), "shown")
    assert follow(tmp_path / "shown" / "session.jsonl", None) == 0
    stamped = re.findall("^([0-9:]{8})  (.*)$", capsys.readouterr().out, re.MULTILINE)
    told = {text.split()[0]: at for at, text in reversed(stamped)}
    assert told["session"] == told["log"] == "14:56:00"
    begun, *_, ended = [at for at, text in stamped if text.startswith("epoch ")]
    assert "14:56:01" <= told["compiling"] < begun < ended < "14:57:00"
    assert [at for at, _ in stamped] == sorted(at for at, _ in stamped)
