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
