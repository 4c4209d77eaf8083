"""The marks of a session: what they are found by, and what is none."""

from fakes.recorded import BEGIN_NS, recorded_session

from dlmon.records import Alert, AlertEvent, Batches, Cpu, Epoch, Gpu, Machine, Notice
from dlmon.session.marks import Mark, MarkKind
from dlmon.session.session import Session

SECOND = 10**9
HEADER = recorded_session()[0]


def marks_of(records):
    session = Session(records[0])
    for record in records[1:]:
        session.add(record)
    return session.marks


def kinds_of(records):
    return [mark.kind for mark in marks_of(records)]


def steady(count=300, step_us=20_000):
    """Return a header and batches of steady training, and when the last of them ended."""
    batches = Batches(0, 0, 10, BEGIN_NS, (step_us,) * count)
    return [HEADER, batches], BEGIN_NS + (count - 1) * step_us * 1000


def test_the_end_of_each_epoch_is_a_mark():
    records = recorded_session(epochs=3)
    ends = [record.end for record in records if isinstance(record, Epoch)]
    found = [mark for mark in marks_of(records) if mark.kind == MarkKind.EPOCH]
    assert [(mark.t, mark.number) for mark in found] == list(zip(ends, range(3), strict=True))


def test_a_batch_that_stood_still_for_over_a_second_is_a_stall_once_that_is_known():
    records, end = steady()
    stalled = Batches(0, 300, 10, end + SECOND // 50, (20_000, 2_500_000, 20_000))
    assert marks_of([*records, stalled]) == [
        Mark(end + SECOND // 50 + 2_520_000_000, MarkKind.STALL, 2.5)
    ]
    # One of a slow network is none, nor is the first, which compiles.
    records, end = steady(count=20, step_us=1_500_000)
    assert marks_of([*records, Batches(0, 20, 10, end, (1_600_000,) * 3)]) == []
    assert marks_of([HEADER, Batches(0, 0, 10, BEGIN_NS, (9_000_000,))]) == []


def test_what_comes_every_so_many_steps_is_marked_as_that_once_it_has_come_twice():
    records = [HEADER]
    for number in range(4):
        dt_us = (2_000_000 if number else 20_000, *[20_000] * 99)
        records.append(Batches(0, 100 * number, 10, BEGIN_NS + 4 * number * SECOND, dt_us))
    kinds = [MarkKind.STALL, MarkKind.BETWEEN_STEPS, MarkKind.BETWEEN_STEPS]
    assert kinds_of(records) == kinds


def test_an_epoch_that_took_long_to_open_is_a_stall():
    records, end = steady()
    opened = Batches(1, 0, 10, end + 4 * SECOND, (20_000, 20_000), opening_us=3_980_000)
    (mark,) = marks_of([*records, opened])
    # What was opened is seen once its first batches are known.
    known = end + 4 * SECOND + 20_000_000
    assert (mark.kind, mark.number, mark.t) == (MarkKind.STALL, 3.98, known)


def throttled(second, *reasons):
    return Machine(BEGIN_NS + second * SECOND, 0.0, gpus=(Gpu(0, throttle=reasons),))


def test_throttling_is_one_mark_where_it_begins_until_it_was_away_for_a_minute():
    lasting = [throttled(0), *(throttled(second, "thermal slowdown") for second in range(1, 9))]
    assert marks_of([HEADER, *lasting]) == [
        Mark(BEGIN_NS + SECOND, MarkKind.THROTTLING, 0, "thermal slowdown")
    ]
    samples = [throttled(second, *("power cap",) * (second % 2)) for second in range(30)]
    later = [throttled(30), throttled(95, "power cap")]
    found = marks_of([HEADER, *samples, *later])
    assert [mark.t for mark in found] == [BEGIN_NS + SECOND, BEGIN_NS + 95 * SECOND]
    # So is a CPU that its control group stops.
    stopped = Machine(BEGIN_NS, 0.0, cpu=Cpu(50.0, throttled_pct=3.0))
    assert kinds_of([HEADER, stopped]) == [MarkKind.THROTTLING]


def test_a_notice_and_an_alert_are_marks_with_their_words():
    notice = Notice(BEGIN_NS, "the sensors were restarted")
    text = "STALLED: no batch for 61 s"
    told = Alert(BEGIN_NS, AlertEvent.STALLED, text, BEGIN_NS, False, ("step 8",))
    assert [(mark.kind, mark.text) for mark in marks_of([HEADER, notice, told])] == [
        (MarkKind.NOTICE, "the sensors were restarted"),
        (MarkKind.ALERT, "alert: STALLED: no batch for 61 s (step 8)"),
    ]


def test_a_mark_is_no_earlier_than_what_was_known_before_it():
    """In the order of a log, a reading may come between the end of an epoch and its record."""
    epoch = next(record for record in recorded_session() if isinstance(record, Epoch))
    reading = Machine(epoch.end + SECOND // 2, 0.0)
    (mark,) = marks_of([HEADER, reading, epoch])
    assert (mark.kind, mark.t) == (MarkKind.EPOCH, reading.t)
