"""The limit of a run, and the evidence for it."""

from __future__ import annotations

from typing import NamedTuple

from dlmon.records.record import record
from dlmon.records.words import Word

NAMED_IN_FULL = 2


class LimitKind(Word):
    """The resource, or the part of a step or of the time, that limits a run."""

    LOSS = "loss"
    DATA = "data"
    GPU = "GPU"
    CPU = "CPU"
    MEMORY = "memory"
    DISK = "disk"
    STEP = "parts of a step"
    OTHERS = "other programs"
    WAITING = "waiting"
    TIME = "parts of the time"
    UNCLEAR = "not clear"


class Tone(Word):
    """What a headline means to a reader: it decides the colour."""

    BAD = "bad"
    """Something stops the run, or makes it useless."""
    LIMIT = "limit"
    """Something slows the run down."""
    GOOD = "good"
    """The hardware is simply busy, or all is well."""
    UNCLEAR = "unclear"
    """It can't be told, or not yet."""


class RuleKind(NamedTuple):
    """The short name, the tone and the kind of what a rule finds."""

    name: str
    tone: Tone
    kind: LimitKind = LimitKind.UNCLEAR


_BAD, _LIMIT, _GOOD, _UNCLEAR = Tone.BAD, Tone.LIMIT, Tone.GOOD, Tone.UNCLEAR
FORWARD, NETWORK, OWN_CODE = "forward", "network", "own-code"
TIE, RANKS, IDLE = "tie", "ranks", "idle"
NOT_CLEAR, OPENING = "not-clear", "opening"
INPUT, STALLED = "input", "stalled"
STANDS = (INPUT, STALLED)
"""The states of a run that stands at a line of its code."""
KINDS = {
    "failed": RuleKind("FAILED", _BAD),
    "out-of-memory": RuleKind("OUT OF MEMORY", _BAD),
    "interrupted": RuleKind("INTERRUPTED", _BAD),
    "silent": RuleKind("NO SIGN OF LIFE", _BAD),
    "queued": RuleKind("QUEUED", _UNCLEAR),
    "stopping": RuleKind("STOPPING", _UNCLEAR),
    INPUT: RuleKind("WAITS FOR INPUT", _BAD),
    STALLED: RuleKind("STALLED", _BAD),
    "loss": RuleKind("NAN LOSS", _BAD, LimitKind.LOSS),
    "loss-infinite": RuleKind("INFINITE LOSS", _BAD, LimitKind.LOSS),
    "gpu-lost": RuleKind("GPU LOST", _BAD),
    RANKS: RuleKind("WAITING FOR", _LIMIT, LimitKind.DATA),
    TIE: RuleKind("NOT CLEAR", _UNCLEAR, LimitKind.STEP),
    "data-wait": RuleKind("DATA-BOUND", _LIMIT, LimitKind.DATA),
    "gpu": RuleKind("GPU-BOUND", _GOOD, LimitKind.GPU),
    "gpu-near-power": RuleKind("GPU-BOUND", _GOOD, LimitKind.GPU),
    "gpu-thermal": RuleKind("GPU HOT", _LIMIT, LimitKind.GPU),
    "gpu-power-brake": RuleKind("POWER BRAKE", _LIMIT, LimitKind.GPU),
    "gpu-slowdown": RuleKind("GPU SLOWDOWN", _LIMIT, LimitKind.GPU),
    "gpu-power-cap": RuleKind("POWER CAP", _LIMIT, LimitKind.GPU),
    "gpu-memory": RuleKind("GPU BANDWIDTH", _GOOD, LimitKind.GPU),
    "gpu-tensor": RuleKind("TENSOR CORES", _GOOD, LimitKind.GPU),
    "gpu-kernels": RuleKind("SMALL KERNELS", _LIMIT, LimitKind.GPU),
    "cpu-quota": RuleKind("CPU LIMIT", _LIMIT, LimitKind.CPU),
    "other-programs": RuleKind("CPU SHARED", _LIMIT, LimitKind.OTHERS),
    "cpu": RuleKind("CPU-BOUND", _GOOD, LimitKind.CPU),
    "threads": RuleKind("FEW THREADS", _LIMIT, LimitKind.CPU),
    "cores": RuleKind("CPU BUSY", _LIMIT, LimitKind.CPU),
    "swap": RuleKind("SWAPPING", _LIMIT, LimitKind.MEMORY),
    "memory-pressure": RuleKind("SHORT OF MEMORY", _LIMIT, LimitKind.MEMORY),
    "optimizer": RuleKind("OPTIMISER", _LIMIT, LimitKind.STEP),
    "copy": RuleKind("COPYING", _LIMIT, LimitKind.STEP),
    "thread": RuleKind("ONE THREAD", _LIMIT, LimitKind.CPU),
    "io-pressure": RuleKind("SLOW DISK", _LIMIT, LimitKind.DISK),
    "gpu-shared": RuleKind("GPU SHARED", _LIMIT, LimitKind.OTHERS),
    "allocator": RuleKind("SHORT OF GPU MEMORY", _LIMIT, LimitKind.MEMORY),
    "steal": RuleKind("CPU STEAL", _LIMIT, LimitKind.OTHERS),
    "collectives": RuleKind("COLLECTIVES", _LIMIT, LimitKind.STEP),
    OWN_CODE: RuleKind("YOUR CODE", _LIMIT, LimitKind.STEP),
    FORWARD: RuleKind("FORWARD", _LIMIT, LimitKind.STEP),
    NETWORK: RuleKind("FORWARD AND BACKWARD", _GOOD, LimitKind.STEP),
    IDLE: RuleKind("WAITING", _LIMIT, LimitKind.WAITING),
    "before-training": RuleKind("BEFORE TRAINING", _LIMIT, LimitKind.TIME),
    "compiling": RuleKind("COMPILING", _LIMIT, LimitKind.TIME),
    "pauses": RuleKind("PAUSES", _LIMIT, LimitKind.TIME),
    "slow-steps": RuleKind("REGULAR SLOW STEPS", _LIMIT, LimitKind.TIME),
    "epoch-starts": RuleKind("EPOCH STARTS", _LIMIT, LimitKind.TIME),
    "validating": RuleKind("VALIDATING", _LIMIT, LimitKind.TIME),
    "evaluating": RuleKind("EVALUATING", _LIMIT, LimitKind.TIME),
    "checkpoints": RuleKind("CHECKPOINTS", _LIMIT, LimitKind.TIME),
    "garbage": RuleKind("GARBAGE COLLECTION", _LIMIT, LimitKind.TIME),
    "between-epochs": RuleKind("BETWEEN EPOCHS", _LIMIT, LimitKind.TIME),
    "other-code": RuleKind("OUTSIDE TRAINING", _LIMIT, LimitKind.TIME),
    NOT_CLEAR: RuleKind("NOT CLEAR", _UNCLEAR),
    OPENING: RuleKind("EPOCH START", _UNCLEAR),
    "evaluates": RuleKind("EVALUATING", _GOOD),
    "no-training": RuleKind("NO TRAINING SEEN", _UNCLEAR),
    "starting": RuleKind("STARTING", _UNCLEAR),
    "not-yet": RuleKind("NOT YET KNOWN", _UNCLEAR),
    "not-known": RuleKind("NOT KNOWN", _UNCLEAR),
}
"""What each state and each rule is called, the strongest first."""


@record(frozen=True)
class Evidence:
    """A rule that holds, and the figures that show it.

    Attributes:
        rule: the rule.
        figure: the figure beside its name, such as 67 %; empty without one.
        reasons: what was measured, the most telling first.
        advice: a next step that the readings support; empty if they support none.
        share: the share of the run's time that it took, 0 to 1; None if unknown.
        whom: what the name ends in, as the rank that is waited for.
    """

    rule: str
    figure: str
    reasons: tuple[str, ...]
    advice: str = ""
    share: float | None = None
    whom: str = ""

    @property
    def name(self) -> str:
        return f"{KINDS[self.rule].name} {self.whom}".rstrip()

    @property
    def title(self) -> str:
        """The name with its figure: YOUR CODE 67 %."""
        return f"{self.name}{',' * bool(self.whom and self.figure)} {self.figure}".rstrip()

    @property
    def reason(self) -> str:
        """The reasons as one clause."""
        return ", ".join(self.reasons)

    @property
    def text(self) -> str:
        """The title and the reason."""
        return f"{self.title}: {self.reason}" if self.reasons else self.title


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
    def lead(self) -> Evidence:
        """The strongest rule that holds; if none does, that it is not clear."""
        if self.evidence:
            return self.evidence[0]
        measured = tuple(text for _, text in self.measured)
        return Evidence(NOT_CLEAR, "", measured or ("nothing is measured",))

    @property
    def rule(self) -> str:
        return self.lead.rule

    @property
    def kind(self) -> LimitKind:
        return KINDS[self.rule].kind

    @property
    def text(self) -> str:
        """The strongest rules in full, the others in short."""
        text = " ".join(f"{item.text}." for item in self.evidence[:NAMED_IN_FULL] or (self.lead,))
        also = ", ".join(item.title for item in self.evidence[NAMED_IN_FULL:])
        return f"{text} Also: {also}." if also else text

    @property
    def also(self) -> tuple[str, ...]:
        """The other rules in short, then measurements of another kind."""
        weaker = self.evidence[1:]
        if not self.evidence:
            return ()
        covered = {self.kind} | {KINDS[item.rule].kind for item in weaker}
        if LimitKind.OTHERS in covered:
            # The figures about other programs include the CPU time of this run.
            covered |= {LimitKind.CPU}
        if LimitKind.DATA in covered:
            covered |= {LimitKind.GPU}
        if LimitKind.WAITING in covered:
            covered |= {LimitKind.CPU, LimitKind.DATA}
        rest = (text for kind, text in self.measured if kind not in covered)
        return (*(item.title for item in weaker), *rest)

    @property
    def advice(self) -> str:
        """The advice of the strongest rule; of busy hardware, that of a rule about steps."""
        advised = [self.lead]
        if KINDS[self.rule].tone is Tone.GOOD:
            advised += [item for item in self.evidence if KINDS[item.rule].kind is LimitKind.STEP]
        return next((item.advice for item in advised if item.advice), "")
