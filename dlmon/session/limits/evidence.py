"""What limits a run, and what shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dlmon.records.record import record
from dlmon.records.words import Word

MIN_SAMPLES = 5
NAMED_IN_FULL = 2


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
    **dict.fromkeys(("cpu", "cpu-quota", "threads", "cores", "thread"), LimitKind.CPU),
    **dict.fromkeys(("swap", "memory-pressure"), LimitKind.MEMORY),
    "io-pressure": LimitKind.DISK,
    "idle": LimitKind.WAITING,
    **dict.fromkeys(("other-programs", "steal", "gpu-shared"), LimitKind.OTHERS),
}
"""What each rule's limit is of."""


@record(frozen=True)
class Evidence:
    """One rule that holds: a clause that states what was measured, and its figure in short.

    The same in parts are a headline and its figures. The advice is a next step for which the
    readings speak; empty where they speak for none.
    """

    rule: str
    text: str
    brief: str
    headline: str = ""
    figures: tuple[str, ...] = ()
    advice: str = ""


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
        """What the strongest is of."""
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
        """What to try against the strongest for which there is anything; empty for nothing.

        Of a run that learns nothing, to make it faster is no advice.
        """
        count = 1 if self.kind is LimitKind.LOSS else NAMED_IN_FULL
        return next((one.advice for one in self.evidence[:count] if one.advice), "")


def verb(ended: bool, now: str, then: str) -> str:
    """Return the form of a verb: the last, once the run is over."""
    return then if ended else now


def mean_of(values: Iterable[float | None]) -> float | None:
    """Return the mean, None where too few readings are known to stand for the half minute."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) >= MIN_SAMPLES else None
