"""Where the time of a session went, and what held it up, in words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import epoch_word
from dlmon.figures.session.phases import BEFORE_TRAINING, SCRIPT_CODE
from dlmon.figures.session.stack_lines import stack_text
from dlmon.records import COMPILE, GARBAGE, NamedPause, StepParts, TimePart
from dlmon.records.record import record
from dlmon.session.gaps import Gap, GapKind, notices_in, pauses_in, stacks_in
from dlmon.session.snapshot import Snapshot
from dlmon.statistics.regular_gaps import RegularSteps

PART_NAMES = {
    TimePart.STARTUP: "start and imports",
    TimePart.LOADING: "loading data",
    TimePart.BUILDING: "building",
    TimePart.COMPILING: "compiling",
    TimePart.TRAINING: "steps",
    TimePart.STALLS: "stalls",
    TimePart.BETWEEN_STEPS: "between steps",
    TimePart.OPENINGS: "starting epochs",
    TimePart.DATA_WAIT: "waiting for data",
    TimePart.VALIDATION: "validation",
    TimePart.EVALUATION: "evaluation",
    TimePart.CHECKPOINT: "checkpoints",
    TimePart.GARBAGE: "garbage collection",
    TimePart.GAPS: "between epochs",
    TimePart.CLOSING: "shutdown",
    TimePart.SCRIPT: SCRIPT_CODE,
    TimePart.UNKNOWN: "other",
}
# Where these have no room otherwise.
BRIEF_NAMES = {
    TimePart.STARTUP: "start",
    TimePart.LOADING: "loading",
    TimePart.OPENINGS: "epoch starts",
    TimePart.DATA_WAIT: "data wait",
    TimePart.GARBAGE: "garbage",
    TimePart.GAPS: "between",
    TimePart.SCRIPT: "script",
}
STEP_NAMES = {
    "wait_us": "waiting for data",
    "copy_us": "copy to the device",
    "forward_us": "forward",
    "backward_us": "backward",
    "optimizer_us": "optimiser",
    "rest_us": "the rest",
}
_BRIEF_STEP_NAMES = {"wait_us": "data wait", "copy_us": "copy", "rest_us": "rest"}
# Waiting is named from this share of the time on.
_WAITED_PCT, _WAITED_FOR_CPU_PCT = 0.5, 5.0
_TAKEN_PCT = 1.0
# A run that has less of a CPU did not wait for one: what waits has some of it.
_ASLEEP_CORES = 0.05
# The time of a pause is left out where it takes at least this share of the gap.
_NEARLY_ALL = 0.9
_PAUSE_NAMES = {COMPILE: "compiled", GARBAGE: "garbage collection"}
_MISMATCH = re.compile(r"tensor '(.+?)' (size|dtype|stride|rank|dispatch key set) mismatch")
_SWAPPED_MIB_S = 0.05
_MOST_NOTICES = 2
# Of less time than that, 0.00 s would be written.
LEAST_S = 0.005


@record(frozen=True)
class PartRow:
    """A part of a session's time: its name, its seconds, and its share of all, 0 to 1."""

    part: TimePart
    name: str
    seconds: float
    share: float

    @property
    def in_figures(self) -> str:
        """Return its time and its share: 12.3 s, 62 %."""
        return f"{units.seconds(self.seconds)}, {units.share(self.share)}"

    @property
    def percent(self) -> int:
        """Return its share in whole percent."""
        return round(100 * self.share)


def part_name(part: TimePart, is_script: bool = False, compiles: bool = True) -> str:
    """Return what a part is called: of a script all before it trains is its start."""
    if part is TimePart.STARTUP and is_script:
        return BEFORE_TRAINING
    if part is TimePart.COMPILING and not compiles:
        return "first batch"
    return PART_NAMES[part]


def names_of(snapshot: Snapshot) -> Mapping[TimePart, str]:
    """Return what the parts of a session are called."""
    is_script, compiles = snapshot.header.is_script, snapshot.compiles
    names = {part: part_name(part, is_script, compiles) for part in TimePart}
    if epoch_word(snapshot.header) != "epoch":
        names[TimePart.GAPS] = "between passes"
    return names


def account_rows(
    account: Mapping[TimePart, float], names: Mapping[TimePart, str] = PART_NAMES
) -> tuple[PartRow, ...]:
    """Return the parts that took any time that can be written, in the order of a run."""
    total = sum(account.values())
    return tuple(
        PartRow(part, names[part], account[part], account[part] / total)
        for part in TimePart
        if account.get(part, 0.0) >= LEAST_S
    )


def in_short(rows: Sequence[PartRow], most: int) -> tuple[PartRow, ...]:
    """Return the steps and the `most` largest other parts, with short names, in the order of a run.

    One more part sums up the rest. No part that takes 0 % is returned.
    """
    known = [row for row in rows if row.part is not TimePart.UNKNOWN and row.percent]
    others = [row for row in known if row.part is not TimePart.TRAINING]
    largest = sorted(others, key=lambda row: -row.seconds)[:most]
    named = [row for row in known if row in largest or row not in others]
    left = [row for row in rows if row not in named]
    seconds, share = sum(row.seconds for row in left), sum(row.share for row in left)
    rest = PartRow(TimePart.UNKNOWN, PART_NAMES[TimePart.UNKNOWN], seconds, share)
    short = (replace(row, name=BRIEF_NAMES.get(row.part, row.name)) for row in named)
    return (*short, *[rest] * bool(rest.percent))


def step_rows(parts: StepParts) -> tuple[tuple[str, float, float], ...]:
    """Return what a step is made of: each part's field, its milliseconds, its share, 0 to 1."""
    known = ((name, parts.share(name)) for name in STEP_NAMES)
    step_ms = parts.step_us / parts.steps / 1000
    return tuple((name, share * step_ms, share) for name, share in known if share is not None)


def step_parts_text(parts: StepParts) -> str:
    """Say in a line what a step is made of: forward 31 %, backward 44 %, optimiser 19 %."""
    return ", ".join(
        f"{_BRIEF_STEP_NAMES.get(name, STEP_NAMES[name])} {units.share(share)}"
        for name, _, share in step_rows(parts)
    )


def regular_steps_text(steps: RegularSteps) -> str:
    """Say how often a loop does something between its steps, and how long that takes."""
    return f"{units.seconds(steps.seconds / steps.times)} every {steps.every:,} steps"


def longest_gaps(gaps: Sequence[Gap], count: int) -> tuple[Gap, ...]:
    """Return the longest gaps, the longest first."""
    return tuple(sorted(gaps, key=lambda gap: gap.start - gap.end)[:count])


def gap_of_session(gap: Gap, snapshot: Snapshot, *, brief: bool = False) -> str:
    """Say of a gap what `gap_text` does, with all that its session knows of it."""
    stacks = stacks_in(gap.start, gap.end, snapshot.stacks)
    causes = pauses_texts(pauses_in(gap, snapshot.pauses), gap.seconds)
    causes += [stack_text(stacks[0])] if stacks else []
    word, notices = epoch_word(snapshot.header), notices_in(gap, snapshot.notices)
    return gap_text(gap, word, notices, causes, brief=brief)


def gap_text(
    gap: Gap,
    epoch_word: str = "epoch",
    notices: Sequence[str] = (),
    causes: Sequence[str] = (),
    *,
    brief: bool = False,
) -> str:
    """Say how long there was no batch, where, why if that is known, and what the machine did.

    As in: 2.1 s without a batch at the start of epoch 4: CPU 0 %, disk 0 MiB/s, nothing waited
    for memory. A `brief` text leaves out that there was no batch, where the heading says so.
    """
    place = _place(gap, epoch_word)
    words = (units.seconds(gap.seconds), "" if brief else "without a batch", place)
    text = " ".join(word for word in words if word)
    said = "; ".join((*causes, *(_said(notice, place) for notice in notices[:_MOST_NOTICES])))
    text = f"{text}: {said}" if said else text
    if gap.meanwhile is None:
        return f"{text}; the machine was not read meanwhile"
    done = ", ".join(_meanwhile(gap.meanwhile))
    return f"{text}{'; ' if said else ': '}{done}" if done else text


def pauses_texts(pauses: Sequence[NamedPause], within_s: float) -> list[str]:
    """Say what a framework did within a number of seconds, each thing once.

    As in: checkpoint, 1.9 GB written to /data at 680 MB/s.
    """
    kinds: dict[tuple[str, bool], list[NamedPause]] = {}
    for pause in pauses:
        kinds.setdefault((pause.name, bool(pause.beside)), []).append(pause)
    texts = []
    for (name, is_beside), alike in kinds.items():
        seconds = sum(pause.seconds for pause in alike)
        words = f"{_PAUSE_NAMES.get(name, name)}{' in another thread' if is_beside else ''}"
        if name == COMPILE and (reason := next((p.reason for p in alike if p.reason), None)):
            words = f"re{words}: {guard_text(reason)}"
        breaks = sum(pause.graph_breaks or 0 for pause in alike)
        if breaks:
            words += f" ({units.counted(breaks, 'graph break')})"
        if not is_beside and seconds < _NEARLY_ALL * within_s:
            words += f", {units.seconds(seconds)} of it"
        written = sum(pause.written_bytes or 0 for pause in alike)
        if written:
            folder = next((f" to {pause.folder}" for pause in alike if pause.folder), "")
            words += f", {units.size(written)} written{folder}"
            if seconds > 0:
                words += f" at {units.size(round(written / seconds))}/s"
        texts.append(words)
    return texts


def guard_text(guard: str) -> str:
    """Say in words what changed where a guard of PyTorch's tells; else return it as it is."""
    found = _MISMATCH.match(guard)
    if found is None:
        return guard
    what = {"size": "shape", "dtype": "type"}.get(found[2], found[2])
    return f"the {what} of {found[1]} changed"


def _said(notice: str, place: str) -> str:
    """Return what a notice says of a gap: its cause alone where it names the place, too."""
    _, names_place, cause = notice.rstrip(".").partition(f" {place}: ")
    return cause if names_place else f"notice in it: {notice.rstrip('.')}"


def _place(gap: Gap, epoch_word: str) -> str:
    if gap.kind is GapKind.NAMED:
        return ""
    if gap.before == "evaluating":
        return "before the evaluation"
    step = "" if gap.step is None else f"at step {gap.step + 1:,}"
    regularly = "" if gap.every is None else f", as every {gap.every:,} steps"
    if gap.epoch is None:
        return f"{step}{regularly}" if step else "between two phases"
    epoch = f"{epoch_word} {gap.epoch + 1:,}"
    if step:
        return f"{step} of {epoch}{regularly}"
    return f"at the start of {epoch}" if gap.kind is GapKind.OPENING else f"after {epoch}"


# From which mean on each is said, in their order.
_SAID = (
    ("disk_mib_s", 0.0, "disk {:.0f} MiB/s"),
    ("swap_mib_s", _SWAPPED_MIB_S, "swap {:.1f} MiB/s"),
    ("stopped_pct", _TAKEN_PCT, "stopped by the CPU limit in {:.0f} % of periods"),
    ("steal_pct", _TAKEN_PCT, "CPU steal {:.0f} %"),
    ("memory_wait_pct", _WAITED_PCT, "programs waited for memory {:.0f} % of the time"),
    ("io_wait_pct", _WAITED_PCT, "programs waited for a disk {:.0f} % of the time"),
)


def _meanwhile(did: Mapping[str, float]) -> list[str]:
    parts = [f"CPU {did['cpu_pct']:.0f} %{_cores(did)}"] if "cpu_pct" in did else []
    parts += [text.format(did[name]) for name, least, text in _SAID if did.get(name, -1.0) >= least]
    parts += _waited_for_cpu(did)
    if did.get("memory_wait_pct", _WAITED_PCT) < _WAITED_PCT:
        parts.append("nothing waited for memory")
    return parts


def _waited_for_cpu(did: Mapping[str, float]) -> list[str]:
    """Say how long the run waited for a CPU; how long any did, where it may be one of them."""
    who, pct = "programs", did.get("cpu_wait_pct")
    if "run_cpu_wait_pct" in did:
        who, pct = "this run", did["run_cpu_wait_pct"]
    elif did.get("run_cores", 1.0) < _ASLEEP_CORES:
        return []
    if pct is None or pct < _WAITED_FOR_CPU_PCT:
        return []
    return [f"{who} waited for a CPU {pct:.0f} % of the time"]


def _cores(did: Mapping[str, float]) -> str:
    """Say how much of the CPU time was this run's."""
    if "run_cores" not in did or "busy_cores" not in did:
        return ""
    others = max(0.0, did["busy_cores"] - did["run_cores"])
    return f" (this run {did['run_cores']:.1f} cores, all else {others:.1f})"
