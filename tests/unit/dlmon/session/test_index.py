"""The fold of a log that begins at an entry of its index: it comes to what all of the log does."""

import contextlib
import io
import pickle
import random
import shutil
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from fakes.recorded import BEGIN_NS, recorded_session, write_log
from fakes.scripts import Script, script_session
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmon.log.index import LogPosition, index_of, position_after, read_index, write_index
from dlmon.log.log_follower import LogFollower
from dlmon.log.writer import LogWriter
from dlmon.records import (
    Batches,
    BatchSummary,
    Facts,
    Machine,
    Metrics,
    NamedPause,
    Notice,
    Output,
    encode,
)
from dlmon.session.follower import SessionFollower
from dlmon.session.index import Index, _Pickler, end_of
from dlmon.session.replay import ReplaySource
from dlmon.session.run_figures import read_figures
from dlmon.session.session import EARLIER_OUTPUT, OUTPUT_LINES_IN_INDEX, Session, time_of
from dlmon.statistics.series import Series

SECOND = 10**9
LONG = recorded_session(epochs=24, gpus=2)


def indexed(records, every_s=10):
    """Return the index of a session, as it is read again, and the whole session."""
    session = Session(records[0])
    index = Index(Path("nowhere"), session, every_ns=every_s * SECOND, apart=0)
    for number, record in enumerate(records[1:], 1):
        session.add(record)
        index.take(partial(LogPosition, number + 1, 1, ""))
    held = pickle.dumps((index._entries, index._parts), protocol=5)
    index._entries, index._parts = pickle.loads(held)
    return index, session


def series_of(session):
    """Return all series of a session that hold anything, in their order."""
    parts = []
    _Pickler(io.BytesIO(), parts, {}).dump(session)
    return [part for part in parts if isinstance(part, Series) and part.end_ns is not None]


def by_index(index, records, t):
    """Return the session at a moment, resumed from an entry; None where none is early enough."""
    found = index.before(t)
    if found is None:
        return None
    session = index.restored(found)
    for record in records[found.position.offset :]:
        if (time_of(record) or t) > t:
            break
        session.add(record)
    return session


def whole(records, t):
    session = Session(records[0])
    for record in records[1:]:
        if (time_of(record) or t) > t:
            break
        session.add(record)
    return session


def shown(session, t):
    """Return all figures, but the output, of which the last lines are kept.

    And but for what is read off a chart, which is kept in fewer digits.
    """
    return replace(session.snapshot(t), output=(), samples_per_second_now=None)


@pytest.fixture(scope="module")
def with_pauses():
    """Return records of a long run with other facts and pauses that have a name."""
    facts = Facts(BEGIN_NS, LONG[0].wall, "tower", replace(LONG[0].machine, driver="999"))
    records = [LONG[0], facts]
    for record in LONG[1:]:
        if isinstance(record, Batches) and record.first:
            begin = record.t - record.dt_us[0] * 1000
            name = ("checkpoint", "compile", "garbage")[len(records) % 3]
            records.append(NamedPause(begin, begin + sum(record.dt_us) * 500, name))
        records.append(record)
    return records


@pytest.mark.parametrize("second", [115, 130, 147.7, 160, 208, 223])
def test_an_entry_and_the_rest_come_to_the_same_figures_as_the_whole_log(second, with_pauses):
    index, _ = indexed(with_pauses)
    t = BEGIN_NS + int(second * SECOND)
    session, expected = by_index(index, with_pauses, t), whole(with_pauses, t)
    assert shown(session, t) == shown(expected, t)
    assert second < 130 or {"checkpoint", "garbage"} <= {
        *map(str, expected.snapshot(t).time_breakdown)
    }
    now, expected_now = (one.snapshot(t).samples_per_second_now for one in (session, expected))
    assert (now is None) == (expected_now is None)
    assert now is None or now.per_second == pytest.approx(expected_now.per_second, rel=1e-6)
    assert session.epoch_starts == expected.epoch_starts
    assert session.phase_spans == expected.phase_spans
    assert session.facts == expected.facts
    assert session.facts.driver == "999"
    assert session.epoch_history.ended == expected.epoch_history.ended
    assert all(use.readings >= 8 for use in session.epoch_history.ended.values())
    # The charts are the same, too.
    drawn = series_of(session), series_of(expected)
    assert len(drawn[0]) == len(drawn[1]) > 10
    for found, known in zip(*drawn, strict=True):
        for width, count in ((8 * SECOND, 30), (t - BEGIN_NS, 1)):
            columns = found.columns(BEGIN_NS, width, count)
            # A bucket in which an entry was made may lack its beginning.
            exact = known.columns(BEGIN_NS, width, count)
            assert columns == [one and pytest.approx(one, rel=0.5, abs=30) for one in exact]
        extremes = known.extremes(BEGIN_NS - 10 * SECOND, t)
        assert found.extremes(BEGIN_NS - 10 * SECOND, t) == pytest.approx(extremes, rel=3e-3)
        assert found.end_ns == known.end_ns


@pytest.mark.parametrize("second", [120, 130, 140, 169])
def test_the_loops_of_a_script_come_to_the_same(second):
    script = Script()
    for number in range(5):
        script.train("a", 10, step_ms=50, steps=300, epochs=1)
        script.train(f"b_{number}", 20, step_ms=30, steps=200, first_ms=900, late=True)
    index, _ = indexed(script.records)
    t = script.records[0].t + second * SECOND
    assert shown(by_index(index, script.records, t), t) == shown(whole(script.records, t), t)


def test_no_entry_is_so_late_that_what_limits_the_run_would_not_be_seen():
    index, _ = indexed(LONG)
    assert index.before(BEGIN_NS + 95 * SECOND) is None


def test_where_earlier_output_is_left_out_that_is_said():
    lines = [Output(BEGIN_NS + number, "stdout", str(number)) for number in range(50)]
    records = [LONG[0], *lines, *LONG[1:]]
    index, session = indexed(records, every_s=1)
    output = by_index(index, records, session.last_t).snapshot().output
    assert output[0].text == EARLIER_OUTPUT
    assert len(output) > OUTPUT_LINES_IN_INDEX


def test_energy_is_close():
    def metered(records):
        for record in records:
            if isinstance(record, Machine) and record.gpus:
                joules = (record.t - BEGIN_NS) / SECOND * 100
                gpus = tuple(replace(gpu, energy_j=joules) for gpu in record.gpus)
                record = replace(record, gpus=gpus)
            yield record

    records = list(metered(LONG))
    index, full = indexed(records)
    part = by_index(index, records, full.last_t)
    assert part.machine.energy.gpu_joules_since_start == full.machine.energy.gpu_joules_since_start
    whole_epochs = full.snapshot().epochs
    assert part.machine.energy.gpu(0).per_epoch(whole_epochs) == pytest.approx(
        full.machine.energy.gpu(0).per_epoch(whole_epochs), rel=0.01
    )


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
    index, full = indexed(records)
    t = BEGIN_NS + int((full.last_t - BEGIN_NS) * share)
    session = by_index(index, records, t)
    if session is not None:
        expected = whole(records, t)
        assert shown(session, t) == shown(expected, t)
        ends = ([series.end_ns for series in series_of(one)] for one in (session, expected))
        assert next(ends) == next(ends)


def index_of_long(path):
    """Return the index of `LONG`, whose log is there, and write none."""
    session, lines = Session(LONG[0]), encode(LONG[0])
    index = Index(path, session, every_ns=10 * SECOND, apart=0)
    for record in LONG[1:]:
        session.add(record)
        lines += encode(record)
        index.take(partial(position_after, lines, len(lines)))
    assert len(lines) == path.stat().st_size
    return index


@pytest.fixture(scope="module")
def long_log(tmp_path_factory):
    path = write_log(tmp_path_factory.mktemp("long"), LONG)
    index_of_long(path).save()
    return path


@pytest.fixture
def log(tmp_path, long_log):
    """Return a log of 24 epochs with its index."""
    folder = shutil.copytree(long_log.parent, tmp_path / long_log.parent.name)
    return folder / long_log.name


def near_end(path):
    """Return the session shortly before the end of a log, and from where that is to be read on."""
    follower = LogFollower(path)
    try:
        index = Index(path, Session(follower.header))
        found = index.before(end_of(follower)) if index.load(follower) else None
        return None if found is None else (found.position.offset, index.restored(found))
    finally:
        follower.close()


def marks_of(path):
    source = ReplaySource(path)
    while source.ahead_share is not None:
        source.read_ahead(1.0)
    source.close()
    return source.marks


def test_a_log_is_taken_up_near_its_end_unless_its_index_is_of_another_or_of_more(log, monkeypatch):
    offset, session = near_end(log)
    assert offset > log.stat().st_size / 2
    assert session.last_t < BEGIN_NS + 150 * SECOND
    monkeypatch.setattr("dlmon.session.follower.LONG_LOG_BYTES", 0)
    follower = SessionFollower(log, by_index=True)
    records = []
    while follower.running or follower.read_share is not None:
        records += follower.poll()
    assert shown(follower.session, None) == shown(whole(LONG, 2**62), None)
    assert len(records) < len(LONG) / 2
    follower.close()
    first, *lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([first, *lines[: len(lines) // 2]]))
    assert near_end(log) is None
    log.write_bytes(b"".join([first, encode(Notice(BEGIN_NS, "x" * 77)), *lines]))
    assert near_end(log) is None


def test_who_reads_a_long_log_without_an_index_leaves_one_for_the_next(log, monkeypatch):
    monkeypatch.setattr("dlmon.session.follower.LONG_LOG_BYTES", 0)
    index_of(log).unlink()
    read = []
    for _ in range(2):
        with contextlib.closing(SessionFollower(log, by_index=True)) as follower:
            records = []
            while follower.running or follower.read_share is not None:
                records += follower.poll()
            read.append((len(records), shown(follower.session, None)))
    (whole_log, first), (its_end, second) = read
    assert whole_log == len(LONG) - 1
    assert its_end < whole_log
    assert first == second


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
    marks = marks_of(log)
    index_of(log).unlink()
    assert marks == marks_of(log)
    assert marks


def is_no_index(path):
    """Return whether what lies beside a log comes to nothing, and whether the log is read."""
    return near_end(path) is None and bool(marks_of(path))


@pytest.mark.parametrize(
    "change",
    [
        lambda index: b"",
        lambda index: b"\x00" * 5000,
        lambda index: index[:-1],
        lambda index: index[:40] + b"x" + index[41:],
        lambda index: index[:16] + pickle.dumps(Harm()),
    ],
)
def test_an_index_that_is_no_such_comes_to_nothing(log, change):
    index_of(log).write_bytes(change(index_of(log).read_bytes()))
    assert is_no_index(log)


class Harm:
    def __reduce__(self):
        return pytest.fail, ("it was loaded",)


def test_an_index_of_another_session_key_or_code_or_without_a_home_comes_to_nothing(
    log, tmp_path, monkeypatch
):
    def no_home(*_, **__):
        raise RuntimeError

    assert read_index(log, "another") is None
    with monkeypatch.context() as patch:
        patch.setattr("dlmon.log.index._code_digest", lambda: b"another")
        assert is_no_index(log)
    with monkeypatch.context() as patch:
        patch.setattr("platformdirs.user_state_path", no_home)
        assert is_no_index(log)
    # Nothing is loaded that another key signed.
    write_index(log, LONG[0].id, pickle.dumps(Harm()))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of somebody else"))
    assert is_no_index(log)


def test_who_goes_on_from_an_index_makes_the_same_entries(log):
    whole_log, cut = log.read_bytes(), log.stat().st_size * 2 // 3
    expected = index_of_long(log)
    index = Index(log, Session(LONG[0]), every_ns=10 * SECOND, apart=0)
    follower = LogFollower(log)
    assert index.load(follower)
    index._entries = [entry for entry in index._entries if entry.position.offset < cut]
    follower.go_to(index.go_on())
    for record in follower.new_records():
        index.session.add(record)
        index.take(lambda: follower.position)
    follower.close()
    assert [entry.position for entry in index._entries] == [e.position for e in expected._entries]
    assert log.read_bytes() == whole_log
    for found, known in zip(index._entries, expected._entries, strict=True):
        both = index.restored(found), expected.restored(known)
        assert shown(both[0], None) == shown(both[1], None)
    for found, known in zip(*map(series_of, both), strict=True):
        columns = found.columns(BEGIN_NS, 8 * SECOND, 30)
        expected_columns = known.columns(BEGIN_NS, 8 * SECOND, 30)
        assert columns == [one and pytest.approx(one, rel=0.1) for one in expected_columns]


@pytest.mark.parametrize("can_be_written", [True, False])
def test_a_log_can_be_taken_up_from_the_index_that_was_written_with_it(tmp_path, can_be_written):
    writer, session = LogWriter(tmp_path / "sessions", LONG[0]), Session(LONG[0])
    if not can_be_written:
        index_of(writer.path).mkdir()
    index = Index(writer.path, session, 10 * SECOND, 0)
    for record in LONG[1:]:
        writer.write(record)
        session.add(record)
        index.take(lambda: writer.position)
        index.save(20_000)
    writer.close()
    assert len(writer.path.read_bytes().splitlines()) == len(LONG)
    found = near_end(writer.path)
    assert (found is not None) is can_be_written
    if can_be_written:
        follower = LogFollower(writer.path)
        follower.go_to(found[0])
        for record in follower.new_records():
            found[1].add(record)
        follower.close()
        assert shown(found[1], None) == shown(whole(LONG, 2**62), None)
        assert stat.S_IMODE(index_of(writer.path).stat().st_mode) == 0o600


def test_what_is_compared_comes_out_the_same_by_the_index(log, monkeypatch):
    monkeypatch.setattr("dlmon.session.follower.LONG_LOG_BYTES", 0)
    by_index = read_figures(log)
    index_of(log).unlink()
    whole = read_figures(log)
    assert by_index.throughput_error == whole.throughput_error
    assert by_index.values == pytest.approx(whole.values)
    assert by_index.curve.start_ns == whole.curve.start_ns
    quarters = [
        run.curve.series.columns(
            whole.curve.start_ns, (whole.curve.end_ns - whole.curve.start_ns) // 4, 4
        )
        for run in (by_index, whole)
    ]
    assert quarters[0] == pytest.approx(quarters[1], rel=0.1)


def test_what_is_gone_to_in_pieces_is_what_is_gone_to_at_once(log, monkeypatch):
    """Another moment may be asked for at any point of the way to the last one."""
    monkeypatch.setattr("dlmon.session.replay.WORTH_A_JUMP_BYTES", 0)
    monkeypatch.setattr("dlmon.session.replay.SEEKING_S", 0.0)
    source, vary = ReplaySource(log), random.Random(7)
    while source.ahead_share is not None:
        source.read_ahead(1.0)
    source.stop_clock()
    took_pieces = 0
    for _ in range(25):
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
            assert (found.phase, found.time_breakdown) == (expected.phase, expected.time_breakdown)
    source.close()
    assert took_pieces > 40


@pytest.mark.parametrize("most", [1e30, 1e270, -1e30])
def test_losses_that_grew_without_bound_come_with_an_entry(most):
    header, *rest = script_session(seconds=160, steps=2_000)
    losses = [Metrics(header.t + n * SECOND, {"loss": most / n}) for n in range(3, 160)]
    in_order = sorted((*rest, *losses), key=lambda one: time_of(one) or 0)
    records, t = [header, *in_order], header.t + 147 * SECOND
    index, _ = indexed(records)
    metric, expected = (
        one.learning.metrics["loss"] for one in (by_index(index, records, t), whole(records, t))
    )
    assert (metric.newest, metric.readings) == (expected.newest, expected.readings)
    assert bool(metric.readings) == (abs(most) < 1e100)
    columns = [one.series.columns(t - 40 * SECOND, 4 * SECOND, 10) for one in (metric, expected)]
    assert columns[0] == pytest.approx(columns[1], rel=0.1)
