"""The fold of a log that begins at an entry of its index: it comes to what all of the log does."""

import functools
import json
import random
import shutil
from dataclasses import replace
from unittest.mock import patch

import pytest
from fakes.recorded import BEGIN_NS, recorded_session, write_log
from fakes.scripts import Script, script_session
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmon.log.follower import LogFollower
from dlmon.log.index import Place, index_of, line_of, write_index
from dlmon.records import (
    Batches,
    BatchSummary,
    Facts,
    Machine,
    Metrics,
    NamedPause,
    Notice,
    Output,
    Result,
    encode,
)
from dlmon.session.figures import read_figures
from dlmon.session.follower import SessionFollower
from dlmon.session.keyframes.entries import (
    EARLIER_OUTPUT,
    LAST_OUTPUT_LINES,
    RECENT_NS,
    Keyframes,
    last_of,
)
from dlmon.session.keyframes.maker import KeyframeMaker
from dlmon.session.keyframes.reader import IndexReader
from dlmon.session.keyframes.series import series_of
from dlmon.session.keyframes.values import NoKeyframe
from dlmon.session.marks import MarkFinder, time_of
from dlmon.session.recording import Recording
from dlmon.session.replay import ReplaySource
from dlmon.session.session import Session

SECOND = 10**9
LONG = recorded_session(epochs=24, gpus=2)


@functools.cache
def lines_of_long():
    return indexed(LONG, every_s=30)[1]


def indexed(records, every_s=10):
    """Return the entries of a session, its lines, and the whole session."""
    session, keyframes, lines = Session(records[0]), Keyframes(records[0]), []
    finder = MarkFinder(session)
    maker = KeyframeMaker(session, every_ns=every_s * SECOND, every_bytes=0)
    for number, record in enumerate(records[1:], 1):
        session.fold(record)
        maker.take(record, finder.take(record, session))
        if maker.is_due:
            for line in maker.make(Place(number + 1, 1, "")):
                keyframes.add(line)
                lines.append(line)
    return keyframes, lines, session


def by_index(keyframes, records, t):
    """Return the session at a moment, resumed from an entry; None where none is early enough."""
    found = last_of(keyframes.restored_before(t))
    if found is None:
        return None
    session, place = found
    for record in records[place.offset :]:
        if (time_of(record) or t) > t:
            break
        session.fold(record)
    return session


def whole(records, t):
    session = Session(records[0])
    for record in records[1:]:
        if (time_of(record) or t) > t:
            break
        session.fold(record)
    return session


def shown(session, t):
    """Return all figures, but the output, of which the last lines are kept."""
    return replace(session.snapshot(t), output=())


@pytest.mark.parametrize("second", [115, 130, 147.7, 160, 208, 223])
def test_an_entry_and_the_rest_come_to_the_same_figures_as_the_whole_log(second):
    keyframes, _, _ = indexed(LONG)
    t = BEGIN_NS + int(second * SECOND)
    session = by_index(keyframes, LONG, t)
    assert shown(session, t) == shown(whole(LONG, t), t)
    expected = whole(LONG, t)
    assert session.epoch_starts == expected.epoch_starts
    assert session.phase_spans == expected.phase_spans
    assert session.facts == expected.facts


@pytest.mark.parametrize("second", [120, 130, 140, 169])
def test_the_loops_of_a_script_come_to_the_same(second):
    script = Script()
    for number in range(5):
        script.train("a", 10, step_ms=50, steps=300, epochs=1)
        script.train(f"b_{number}", 20, step_ms=30, steps=200, first_ms=900, late=True)
    keyframes, _, _ = indexed(script.records)
    t = script.records[0].t + second * SECOND
    assert shown(by_index(keyframes, script.records, t), t) == shown(whole(script.records, t), t)


@pytest.mark.parametrize("second", [130, 160, 223])
def test_pauses_that_have_a_name_come_to_the_same(second):
    records = [LONG[0]]
    for record in LONG[1:]:
        if isinstance(record, Batches) and record.first:
            begin = record.t - record.dt_us[0] * 1000
            name = ("checkpoint", "compile", "garbage")[len(records) % 3]
            records.append(NamedPause(begin, begin + sum(record.dt_us) * 500, name))
        records.append(record)
    keyframes, _, _ = indexed(records)
    t = BEGIN_NS + second * SECOND
    expected = shown(whole(records, t), t)
    assert {"checkpoint", "garbage"} <= set(map(str, expected.account))
    assert shown(by_index(keyframes, records, t), t) == expected


def test_the_charts_are_the_same_within_a_cell():
    keyframes, _, full = indexed(LONG)
    end = full.last_t
    part = by_index(keyframes, LONG, end)
    named, expected = series_of(part), series_of(full)
    assert set(named) == set(expected)
    for name, series in expected.items():
        for start, width, count in ((BEGIN_NS, 8 * SECOND, 14), (end - 20 * SECOND, SECOND, 20)):
            pairs = zip(
                named[name].columns(start, width, count),
                series.columns(start, width, count),
                strict=True,
            )
            for found, known in pairs:
                if known is not None and found is not None:
                    assert found == pytest.approx(known, rel=0.5, abs=30), name
        assert named[name].end_ns == series.end_ns


def test_the_mean_of_a_chart_is_kept():
    keyframes, _, full = indexed(LONG)
    part = by_index(keyframes, LONG, full.last_t)
    span = full.last_t - BEGIN_NS
    for name, series in series_of(full).items():
        (mean,) = series.columns(BEGIN_NS, span, 1)
        if name.startswith("metric."):
            # What changes much within a few seconds, as a loss at first, is kept too coarsely.
            continue
        assert series_of(part)[name].columns(BEGIN_NS, span, 1)[0] == pytest.approx(mean, rel=0.03)


def test_no_entry_is_so_late_that_what_limits_the_run_would_not_be_seen():
    keyframes, _, _ = indexed(LONG)
    assert last_of(keyframes.restored_before(BEGIN_NS + 95 * SECOND)) is None


def test_the_last_lines_of_output_are_there():
    records = recorded_session(epochs=12)[:-1]
    outputs = [record for record in records if isinstance(record, Output)]
    keyframes, _, session = indexed(records)
    found = by_index(keyframes, records, session.last_t).snapshot().output
    assert found == tuple(outputs)[-len(found) :]
    assert found


def test_where_earlier_output_is_left_out_that_is_said():
    lines = [Output(BEGIN_NS + number, "stdout", str(number)) for number in range(50)]
    records = [LONG[0], *lines, *LONG[1:]]
    keyframes, _, session = indexed(records, every_s=1)
    output = by_index(keyframes, records, session.last_t).snapshot().output
    assert output[0].text == EARLIER_OUTPUT
    assert len(output) > LAST_OUTPUT_LINES


def test_energy_is_close():
    def metered(records):
        for record in records:
            if isinstance(record, Machine) and record.gpus:
                joules = (record.t - BEGIN_NS) / SECOND * 100
                gpus = tuple(replace(gpu, energy_j=joules) for gpu in record.gpus)
                record = replace(record, gpus=gpus)
            yield record

    records = list(metered(LONG))
    keyframes, _, full = indexed(records)
    part = by_index(keyframes, records, full.last_t)
    assert part.machine.energy.gpu_joules_since_start == full.machine.energy.gpu_joules_since_start
    whole_epochs = full.snapshot().epochs
    assert part.machine.energy.gpu(0).per_epoch(whole_epochs) == pytest.approx(
        full.machine.energy.gpu(0).per_epoch(whole_epochs), rel=0.01
    )


def ends(session):
    """Return where each series that holds anything ends."""
    named = series_of(session).items()
    return {name: series.end_ns for name, series in named if series.end_ns is not None}


@st.composite
def sessions(draw):
    """Records of sessions of all kinds: slow and fast steps, summaries, gaps, few samples."""
    vary = random.Random(draw(st.integers(0, 2**32)))
    step_us = draw(st.sampled_from([2_000, 20_000, 900_000, 6_000_000]))
    header = LONG[0]
    model = next(record for record in LONG if type(record).__name__ == "Model")
    records, t = [header, model], BEGIN_NS
    for epoch in range(draw(st.integers(1, 4))):
        first = 0
        for _ in range(draw(st.integers(1, 12))):
            count = draw(st.integers(1, max(1, 4_000_000 // step_us)))
            dt_us = tuple(int(step_us * vary.uniform(0.8, 1.3)) for _ in range(count))
            begin, t = t, t + sum(dt_us) * 1000
            if draw(st.booleans()) and epoch:
                ranked = sorted(dt_us)
                step = tuple(ranked[int(share * (count - 1))] for share in (0, 0, 0, 0.5, 1, 1, 1))
                records.append(
                    BatchSummary(
                        epoch,
                        first,
                        count,
                        10 * count,
                        begin + dt_us[0] * 1000,
                        t,
                        sum(dt_us),
                        step,
                    )
                )
            else:
                records.append(Batches(epoch, first, 10, begin + dt_us[0] * 1000, dt_us))
            first += count
            if draw(st.booleans()):
                sample = vary.choice([r for r in LONG if isinstance(r, Machine)][:5])
                records.append(replace(sample, t=t))
            if draw(st.integers(0, 5)) == 0:
                records.append(Notice(t, "something happened"))
        t += draw(st.sampled_from([0, 0, 3, 700])) * SECOND
    return records


@settings(max_examples=40, deadline=None)
@given(sessions(), st.floats(0, 1))
def test_any_session_comes_to_the_same_figures(records, share):
    keyframes, _, full = indexed(records)
    t = BEGIN_NS + int((full.last_t - BEGIN_NS) * share)
    session = by_index(keyframes, records, t)
    if session is not None:
        expected = whole(records, t)
        assert shown(session, t) == shown(expected, t)
        assert ends(session) == ends(expected)


def entry_with(state_number, change):
    """Return the entries of a session, one of them with another state."""
    _, lines, full = indexed(LONG)
    numbers = [n for n, line in enumerate(lines) if line.startswith(b'{"type":"state"')]
    state = json.loads(lines[numbers[state_number]])
    change(state)
    lines[numbers[state_number]] = line_of(state)
    keyframes = Keyframes(LONG[0])
    for line in lines:
        keyframes.add(line)
    return keyframes, full


@pytest.mark.parametrize("start", [-(2**62), -1, 2**62])
def test_a_rest_that_is_longer_than_a_cell_is_refused_before_it_fills_the_memory(start):
    def change(state):
        state["rest"]["cpu_pct"][0] = start

    keyframes, _ = entry_with(-1, change)
    with pytest.raises(NoKeyframe, match="a rest of another length"):
        keyframes.last_session()


def columns_of(session, *asked):
    return {name: series.columns(*asked) for name, series in series_of(session).items()}


@pytest.mark.parametrize("recent_s", [5, 20, 60])
def test_what_is_longer_ago_is_drawn_as_finely_once_it_is_asked_for(recent_s, monkeypatch):
    keyframes, _, full = indexed(LONG)
    expected = by_index(keyframes, LONG, full.last_t)
    monkeypatch.setattr("dlmon.session.keyframes.entries.RECENT_NS", recent_s * SECOND)
    found = by_index(keyframes, LONG, full.last_t)
    held = found.throughput._fine.sums
    assert len(held) < len(expected.throughput._fine.sums)
    newest = full.last_t - 4 * SECOND, SECOND, 4
    assert columns_of(found, *newest) == columns_of(expected, *newest)
    assert found.throughput._fine.sums is held
    all_of_it = BEGIN_NS, SECOND, (full.last_t - BEGIN_NS) // SECOND
    assert columns_of(found, *all_of_it) == columns_of(expected, *all_of_it)


def test_what_is_longer_ago_is_drawn_coarsely_where_its_entry_cannot_be(monkeypatch):
    def change(state):
        state["series"]["cpu_pct"] = [0, ["much"]]

    keyframes, full = entry_with(0, change)
    monkeypatch.setattr("dlmon.session.keyframes.entries.RECENT_NS", 20 * SECOND)
    found = by_index(keyframes, LONG, full.last_t)
    span = BEGIN_NS, 20 * SECOND, (full.last_t - BEGIN_NS) // (20 * SECOND)
    for name, columns in columns_of(found, *span).items():
        expected = series_of(full)[name].columns(*span)
        for mean, known in zip(columns, expected, strict=True):
            assert mean is None or mean == pytest.approx(known, rel=0.5, abs=30), name
    assert None not in columns_of(found, *span)["cpu_pct"]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_forged_entry_is_refused_or_can_be_shown(data):
    lines = lines_of_long()
    own = [n for n, line in enumerate(lines) if line.startswith((b'{"type":"at"', b'{"type":"st'))]
    number = data.draw(st.sampled_from(own) | st.integers(0, len(lines) - 1))
    fields = json.loads(lines[number])
    path, holder = [], fields
    while isinstance(holder, (dict, list)) and holder:
        key = data.draw(
            st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
        )
        path.append((holder, key))
        holder = holder[key]
        if data.draw(st.integers(0, 3)) == 0:
            break
    holder, key = path[-1]
    holder[key] = data.draw(
        st.sampled_from([None, -1, 0, 2**63, 1e300, "x", [], {}, [[]], [1e308], True, -(2**62)])
    )
    forged = [*lines[:number], line_of(fields), *lines[number + 1 :]]
    keyframes = Keyframes(LONG[0])
    recent_ns = data.draw(st.sampled_from([RECENT_NS, 20 * SECOND]))
    try:
        for line in forged:
            keyframes.add(line)
        with patch("dlmon.session.keyframes.entries.RECENT_NS", recent_ns):
            found = keyframes.last_session()
    except NoKeyframe:
        return
    if found is not None:
        session, _ = found
        for record in LONG[1:]:
            session.fold(record)
        session.snapshot()
        for series in series_of(session).values():
            series.columns(BEGIN_NS, SECOND, 100)


@pytest.fixture
def log(tmp_path):
    """Return a log of twelve epochs with its index."""
    path = write_log(tmp_path, LONG)
    session = Session(LONG[0])
    follower, finder = LogFollower(path), MarkFinder(session)
    maker = KeyframeMaker(session, every_ns=10 * SECOND, every_bytes=0)
    lines = []
    for record in follower.new_records():
        session.fold(record)
        maker.take(record, finder.take(record, session))
        if maker.is_due:
            lines += maker.make(follower.place)
    follower.close()
    write_index(path, LONG[0].id, lines)
    return path


def near_end(path):
    follower = LogFollower(path)
    try:
        index = IndexReader(path, follower)
        index.read()
        return last_of(index.restored_near_end())
    finally:
        follower.close()


def read_whole(path):
    recording = Recording(path)
    while recording.read_share is not None:
        recording.read_on(1.0)
    recording.close()
    return recording


def test_a_log_is_taken_up_near_its_end(log, monkeypatch):
    session, place = near_end(log)
    assert place.offset > log.stat().st_size / 2
    assert session.last_t < BEGIN_NS + 150 * SECOND
    monkeypatch.setattr("dlmon.session.follower.LONG_LOG_BYTES", 0)
    follower = SessionFollower(log, by_index=True)
    records = []
    while follower.running or follower.read_share is not None:
        records += follower.poll()
    assert shown(follower.session, None) == shown(whole(LONG, 2**62), None)
    assert len(records) < len(LONG) / 2
    follower.close()


@pytest.mark.parametrize("long_bytes", [0, 1 << 40])
def test_a_log_that_is_removed_before_it_is_read_is_read_all_the_same(log, monkeypatch, long_bytes):
    monkeypatch.setattr("dlmon.session.follower.LONG_LOG_BYTES", long_bytes)
    follower = SessionFollower(log, by_index=True)
    shutil.rmtree(log.parent)
    while follower.running or follower.read_share is not None:
        follower.poll()
    assert shown(follower.session, None) == shown(whole(LONG, 2**62), None)
    assert follower.loss == "was removed"
    follower.close()


def test_the_marks_of_an_index_are_those_of_the_log(log):
    marks = read_whole(log).marks
    index_of(log).unlink()
    assert marks == read_whole(log).marks
    assert marks


def change(path, function):
    index = index_of(path)
    index.write_bytes(function(index.read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        lambda index: b"",
        lambda index: index[: len(index) // 3],
        lambda index: index[:-1],
        lambda index: index.replace(b'"at"', b'"no"'),
        lambda index: index.replace(LONG[0].id.encode(), b"another"),
        lambda index: b"\x00" * 5000,
        lambda index: index.replace(b'"t":', b'"t":-'),
        lambda index: index.replace(b'"place":[', b'"place":[1'),
        lambda index: b"\n".join([index.split(b"\n")[0], b"[" * 50_000, b""]),
        lambda index: index + b'{"type":"epoch"',
        lambda index: index + index,
    ],
)
def test_an_index_that_is_torn_or_of_something_else_does_no_harm(log, function):
    expected = read_whole(log)
    change(log, function)
    found = read_whole(log)
    assert found.marks == expected.marks
    assert found.end_ns == expected.end_ns
    taken = near_end(log)
    if taken is not None:
        session, place = taken
        follower = LogFollower(log)
        follower.go_to(place.offset)
        for record in follower.new_records():
            session.fold(record)
        follower.close()
        assert shown(session, None) == shown(whole(LONG, 2**62), None)


def test_an_index_of_a_log_that_was_replaced_is_ignored(log):
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], encode(Notice(BEGIN_NS, "x" * 77)), *lines[1:]]))
    assert near_end(log) is None


def test_an_index_of_more_than_the_log_holds_is_ignored(log):
    size = log.stat().st_size
    log.write_bytes(log.read_bytes()[: size // 2])
    assert near_end(log) is None


def test_a_result_and_batches_are_no_records_that_an_index_keeps():
    keyframes = Keyframes(LONG[0])
    result = next(record for record in LONG if isinstance(record, Result))
    with pytest.raises(NoKeyframe):
        keyframes.add(encode(result))


def test_newer_facts_are_kept():
    header = LONG[0]
    facts = Facts(BEGIN_NS, header.wall, "tower", replace(header.machine, driver="999"))
    records = [header, facts, *LONG[1:]]
    keyframes, _, session = indexed(records)
    assert by_index(keyframes, records, session.last_t).facts.driver == "999"


def test_what_is_compared_comes_out_the_same_by_the_index(log, monkeypatch):
    monkeypatch.setattr("dlmon.session.follower.LONG_LOG_BYTES", 0)
    by_index = read_figures(log)
    index_of(log).unlink()
    whole = read_figures(log)
    assert by_index.windows == whole.windows
    assert by_index.values == pytest.approx(whole.values)
    assert by_index.curve.start_ns == whole.curve.start_ns
    span_s = whole.curve.seconds
    assert by_index.curve.columns(span_s, 4) == pytest.approx(
        whole.curve.columns(span_s, 4), rel=0.1
    )


def test_the_extremes_of_a_minute_are_kept():
    keyframes, _, full = indexed(LONG)
    part = by_index(keyframes, LONG, full.last_t)
    for name, series in series_of(full).items():
        span = BEGIN_NS - 10 * SECOND, full.last_t
        expected, found = series.extremes(*span), series_of(part)[name].extremes(*span)
        assert found == (expected and pytest.approx(expected, rel=1e-3)), name


def test_what_is_gone_to_in_pieces_is_what_is_gone_to_at_once(log, monkeypatch):
    """Another moment may be asked for at any point of the way to the last one."""
    monkeypatch.setattr("dlmon.session.replay.WORTH_A_JUMP_BYTES", 0)
    monkeypatch.setattr("dlmon.session.replay.SEEKING_S", 0.0)
    source, vary = ReplaySource(log), random.Random(7)
    while source.ahead_share is not None:
        source.read_ahead(1.0)
    source.stop_clock()
    took_pieces = 0
    for _ in range(60):
        t = vary.randrange(source.start_ns, source.end_ns + 1)
        source.seek(t, 0.0)
        for _ in range(vary.choice((0, 1, 5, 1_000_000))):
            if source.read_share is None:
                break
            source.poll(0.0)
            took_pieces += 1
        if source.read_share is None:
            expected, found = whole(LONG, t).snapshot(t), source.snapshot()
            assert (found.batches, found.epochs) == (expected.batches, expected.epochs)
            assert (found.phase, found.account) == (expected.phase, expected.account)
    source.close()
    assert took_pieces > 100


@pytest.mark.parametrize("second", [115, 130, 147.7, 160, 208, 223])
def test_what_is_known_of_each_epoch_comes_with_an_entry(second):
    t = BEGIN_NS + int(second * SECOND)
    keyframes, _, _ = indexed(LONG)
    resumed, all_of_it = by_index(keyframes, LONG, t), whole(LONG, t)
    assert resumed.epoch_uses.ended == all_of_it.epoch_uses.ended
    assert resumed.epoch_uses.state == all_of_it.epoch_uses.state
    assert all(use.readings >= 8 for use in resumed.epoch_uses.ended.values())


@pytest.mark.parametrize("most", [1e30, 1e270, -1e30])
def test_losses_that_grew_without_bound_come_with_an_entry(most):
    header, *rest = script_session(seconds=160, steps=2_000)
    losses = [Metrics(header.t + n * SECOND, {"loss": most / n}) for n in range(3, 160)]
    records = [header, *sorted((*rest, *losses), key=time_of_record)]
    t = header.t + 147 * SECOND
    keyframes, _, _ = indexed(records)
    resumed, all_of_it = by_index(keyframes, records, t), whole(records, t)
    metric, expected = resumed.learning.metrics["loss"], all_of_it.learning.metrics["loss"]
    assert metric.newest == expected.newest
    assert metric.readings == expected.readings
    assert bool(metric.readings) == (abs(most) < 1e100)
    drawn, expected_drawn = (
        each.series.columns(t - 40 * SECOND, 4 * SECOND, 10) for each in (metric, expected)
    )
    assert drawn == pytest.approx(expected_drawn, rel=0.1)


def time_of_record(record):
    return getattr(record, "end", None) or getattr(record, "t", 0)
