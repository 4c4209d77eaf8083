"""The log of a run as it would be if the run had been suspended."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

from dlmon.records import Batches, Epoch, Record, Suspended
from dlmon.session.session import time_of

TIMES = ("t", "begin", "end", "train_end", "first_end", "last_end", "t_last")


def suspended(records: list[Record], suspensions: list[tuple[int, int]]) -> list[Record]:
    """Return the log of a run that was suspended.

    Args:
        records: the log of the run as it would be without.
        suspensions: the begin of each in time in which the run ran, and its length in ns.
    """
    suspensions = sorted(dict(suspensions).items())

    def at(t: int) -> int:
        return t + sum(length for begin, length in suspensions if begin < t)

    def later(record: Record) -> Record:
        times = {
            spec.name: at(value)
            for spec in fields(record)
            if spec.name in TIMES and (value := getattr(record, spec.name)) is not None
        }
        if isinstance(record, Epoch) and record.validation is not None:
            times["validation"] = later(record.validation)
        if isinstance(record, Batches):
            ends = [record.begin]
            for took_us in record.dt_us:
                ends.append(ends[-1] + took_us * 1000)
            took = [at(end) - at(begin) for begin, end in pairwise(ends)]
            times["dt_us"] = tuple(ns // 1000 for ns in took)
        return replace(record, **times) if times else record

    header, *rest = records
    log, coming = [header], list(suspensions)
    for record in rest:
        while coming and coming[0][0] < (time_of(record) or 0):
            begin, length = coming.pop(0)
            t = at(begin)
            log += [Suspended(t), Suspended(t, t + length)]
        log.append(later(record))
    return log
