"""The limit of a run, and the evidence for it."""

from __future__ import annotations

from dlmon.records.record import record
from dlmon.records.words import Word

NAMED_IN_FULL = 2


class LimitKind(Word):
    """The resource that limits a run."""

    LOSS = "loss"
    DATA = "data"
    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "memory"
    DISK = "disk"
    STEP = "parts of a step"
    OTHERS = "other programs"
    WAITING = "waiting"
    UNCLEAR = "not clear"


NETWORK = "network"
KINDS = {
    "loss": LimitKind.LOSS,
    "gpu-lost": LimitKind.UNCLEAR,
    "ranks": LimitKind.DATA,
    "data-wait": LimitKind.DATA,
    **dict.fromkeys(
        ("gpu", "gpu-near-power", "gpu-thermal", "gpu-power-brake", "gpu-slowdown"), LimitKind.GPU
    ),
    "gpu-power-cap": LimitKind.GPU,
    **dict.fromkeys(("gpu-memory", "gpu-tensor", "gpu-kernels"), LimitKind.GPU),
    "cpu-quota": LimitKind.CPU,
    "other-programs": LimitKind.OTHERS,
    **dict.fromkeys(("cpu", "threads", "cores"), LimitKind.CPU),
    **dict.fromkeys(("swap", "memory-pressure"), LimitKind.MEMORY),
    "optimizer": LimitKind.STEP,
    "copy": LimitKind.STEP,
    "thread": LimitKind.CPU,
    "io-pressure": LimitKind.DISK,
    "gpu-shared": LimitKind.OTHERS,
    "allocator": LimitKind.MEMORY,
    "steal": LimitKind.OTHERS,
    **dict.fromkeys(("own-code", NETWORK), LimitKind.STEP),
    "idle": LimitKind.WAITING,
}
"""The kind of limit that each rule finds, strongest rule first."""


@record(frozen=True)
class Evidence:
    """A rule that holds, and the figures that show it.

    Attributes:
        rule: the rule.
        brief: the headline and the figures in short.
        headline: what the rule found.
        figures: the measured figures.
        advice: a next step that the readings support; empty if they support none.
        share: the share of the run's time that it took, 0 to 1; None if unknown.
    """

    rule: str
    brief: str
    headline: str
    figures: tuple[str, ...] = ()
    advice: str = ""
    share: float | None = None

    @property
    def text(self) -> str:
        """The headline and the figures as one clause."""
        return ": ".join(filter(None, (self.headline, ", ".join(self.figures))))


@record(frozen=True)
class Limit:
    """The limit of a run.

    Attributes:
        evidence: all rules that hold, the strongest first; empty if the limit is not clear.
        measured: the measured figures, whatever holds, each with its kind.
        is_over: the run is over, so texts are in the past tense.
    """

    evidence: tuple[Evidence, ...] = ()
    measured: tuple[tuple[LimitKind, str], ...] = ()
    is_over: bool = False

    @property
    def rule(self) -> str:
        """The strongest rule that holds."""
        return self.evidence[0].rule if self.evidence else "not-clear"

    @property
    def text(self) -> str:
        """The strongest rules in full, the others in short."""
        if not self.evidence:
            listed = ", ".join(text for _, text in self.measured) or "nothing is measured"
            return f"Not clear: {listed}."
        text = " ".join(f"{evidence.text}." for evidence in self.evidence[:NAMED_IN_FULL])
        also = ", ".join(evidence.brief for evidence in self.evidence[NAMED_IN_FULL:])
        return f"{text} Also: {also}." if also else text

    @property
    def kind(self) -> LimitKind:
        return KINDS.get(self.rule, LimitKind.UNCLEAR)

    @property
    def headline(self) -> str:
        """The headline of the strongest rule; empty if the limit is not clear."""
        return self.evidence[0].headline if self.evidence else ""

    @property
    def figures(self) -> tuple[str, ...]:
        """The figures of the strongest rule, the other rules in short, then other measurements."""
        if not self.evidence:
            return tuple(text for _, text in self.measured)
        strongest, *weaker = self.evidence
        covered = {self.kind} | {KINDS.get(item.rule, LimitKind.UNCLEAR) for item in weaker}
        if LimitKind.OTHERS in covered:
            # The figures about other programs include the CPU time of this run.
            covered |= {LimitKind.CPU}
        if LimitKind.DATA in covered:
            covered |= {LimitKind.GPU}
        if LimitKind.WAITING in covered:
            covered |= {LimitKind.CPU, LimitKind.DATA}
        rest = (text for kind, text in self.measured if kind not in covered)
        return (*strongest.figures, *(evidence.brief for evidence in weaker), *rest)

    @property
    def advice(self) -> str:
        """The advice of the strongest rule, else of a rule about steps; empty for none."""
        first, *weaker = self.evidence or (Evidence("", "", ""),)
        on_steps = [item.advice for item in weaker if KINDS.get(item.rule) is LimitKind.STEP]
        return next(filter(None, (first.advice, *on_steps)), "")
