"""What limits a run, and what shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dlmon.records.record import record
from dlmon.records.words import Word

MIN_SAMPLES = 5
NAMED_IN_FULL = 2
BUSY_PCT = 90.0
# What has held goes on until it is so far below what it takes to begin.
_STAYS = 0.8


class LimitKind(Word):
    """What a limit is of."""

    LOSS = "loss"
    DATA = "data"
    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "memory"
    DISK = "disk"
    OTHERS = "other programs"
    WAITING = "waiting"
    UNCLEAR = "not clear"


KINDS = {
    "loss": LimitKind.LOSS,
    "gpu-lost": LimitKind.UNCLEAR,
    "data-wait": LimitKind.DATA,
    **dict.fromkeys(
        ("gpu", "gpu-near-power", "gpu-thermal", "gpu-power-brake", "gpu-slowdown"), LimitKind.GPU
    ),
    "gpu-power-cap": LimitKind.GPU,
    "cpu-quota": LimitKind.CPU,
    "other-programs": LimitKind.OTHERS,
    **dict.fromkeys(("cpu", "threads", "cores"), LimitKind.CPU),
    **dict.fromkeys(("swap", "memory-pressure"), LimitKind.MEMORY),
    "steal": LimitKind.OTHERS,
    "thread": LimitKind.CPU,
    "io-pressure": LimitKind.DISK,
    "gpu-shared": LimitKind.OTHERS,
    "idle": LimitKind.WAITING,
}
"""What each rule's limit is of, in the order in which they are named."""


@record(frozen=True)
class Evidence:
    """One rule that holds: a headline and the figures that show it; both in short.

    The advice is a next step for which the
    readings speak; empty where they speak for none. The share of the run's time that it took, 0 to
    1, is known of some.
    """

    rule: str
    brief: str
    headline: str
    figures: tuple[str, ...] = ()
    advice: str = ""
    share: float | None = None

    @property
    def text(self) -> str:
        """The same as a clause."""
        return ": ".join(filter(None, (self.headline, ", ".join(self.figures))))


@record(frozen=True)
class Limit:
    """What limits a run: `rule` names the strongest that held, `text` is for a person.

    `evidence` is all that held, the strongest first; none where it isn't clear. `measured` is
    what the readings come to, whatever holds: each figure with what it is of. Of a run that has
    `ended` all is said in the past.
    """

    rule: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    measured: tuple[tuple[LimitKind, str], ...] = ()
    ended: bool = False

    @property
    def kind(self) -> LimitKind:
        return KINDS.get(self.rule, LimitKind.UNCLEAR)

    @property
    def headline(self) -> str:
        """What limits it in a few words; empty where that isn't clear."""
        return self.evidence[0].headline if self.evidence else ""

    @property
    def figures(self) -> tuple[str, ...]:
        """The evidence in short: the strongest rule's, the others', then what else was measured."""
        if not self.evidence:
            return tuple(text for _, text in self.measured)
        strongest, *others = self.evidence
        said = {self.kind} | {KINDS.get(one.rule, LimitKind.UNCLEAR) for one in others}
        if LimitKind.OTHERS in said:
            # Those figures hold what this run took, too.
            said |= {LimitKind.CPU}
        if LimitKind.DATA in said:
            said |= {LimitKind.GPU}
        if LimitKind.WAITING in said:
            said |= {LimitKind.CPU, LimitKind.DATA}
        rest = (text for kind, text in self.measured if kind not in said)
        return (*strongest.figures, *(one.brief for one in others), *rest)

    @property
    def advice(self) -> str:
        """What to try against the strongest; empty for nothing."""
        return self.evidence[0].advice if self.evidence else ""


def verb(ended: bool, now: str, then: str) -> str:
    """Return the form of a verb: the last, once the run is over."""
    return then if ended else now


def reaches(value: float, least: float, holds: bool) -> bool:
    """Whether a value is as large as a rule asks for, or nearly so where the rule `holds`."""
    return value >= (least * _STAYS if holds else least)


def is_below(value: float, most: float, holds: bool) -> bool:
    """Whether a value is as small as a rule asks for, or nearly so where the rule `holds`."""
    return value < (most / _STAYS if holds else most)


def is_busy(pct: float, holds: bool) -> bool:
    """Whether hardware has next to no time left, or little where the rule `holds`."""
    left_pct = 100 - BUSY_PCT
    return 100 - pct <= (left_pct / _STAYS if holds else left_pct)


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean, None where too few readings are known to stand for the half minute."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) >= MIN_SAMPLES else None
