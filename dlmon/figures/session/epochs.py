"""What differed in an epoch, in words: only what was measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.figures import units
from dlmon.figures.comparison.earlier_runs import epoch_word
from dlmon.quantities import OTHER_CORES, RUN_CORES
from dlmon.records import Epoch, Model, Notice
from dlmon.records.words import gpu_name
from dlmon.session.epoch_comparison import (
    COMPILING_S,
    ENDING_S,
    MIN_EPOCHS,
    OPENING_S,
    STALLED_S,
    STEPS_S,
    VALIDATION_S,
    WAITED_S,
    EpochComparison,
    EpochDifference,
    compare_epoch,
)
from dlmon.session.learning import importance, metric_of
from dlmon.session.session import Session
from dlmon.session.snapshot import Snapshot

# What is compared names nothing more, or was read too seldom to.
NOTHING_DIFFERED = "Nothing else that is compared differed."
NOT_READ = "The machine was read too seldom to compare what it did."
_MOST_NOTICES = 2

_PARTS = {
    OPENING_S: "its start took",
    WAITED_S: "waiting for data took",
    VALIDATION_S: "validation took",
    ENDING_S: "what followed the last batch took",
    STEPS_S: "its steps took",
}
# Each with how its number, and that of the other epochs, is written.
_CAUSES = {
    "heat_pct": ("{gpu} slowed by heat in {} of readings", "{:.0f} %"),
    "power_brake_pct": ("{gpu} slowed by the power brake in {} of readings", "{:.0f} %"),
    "slowdown_pct": ("{gpu} slowed by a hardware slowdown in {} of readings", "{:.0f} %"),
    "power_cap_pct": ("{gpu} at its power cap in {} of readings", "{:.0f} %"),
    "cpu_wait_pct": ("some program waited for a CPU {} of the time", "{:.0f} %"),
    "memory_wait_pct": ("some program waited for memory {} of the time", "{:.0f} %"),
    "io_wait_pct": ("some program waited for a disk {} of the time", "{:.0f} %"),
    "sm_mhz": ("{gpu} clock {} MHz", "{:,.0f}"),
    "gpu_pct": ("{gpu} busy {}", "{:.0f} %"),
    RUN_CORES: ("the run itself used {} CPU cores", "{:.1f}"),
    OTHER_CORES: ("other programs used {} CPU cores", "{:.1f}"),
    "others_gpu_gib": ("other programs held {} GiB on {gpu}", "{:.1f}"),
    "stopped_pct": ("the CPU limit stopped the run in {} of periods", "{:.0f} %"),
    "steal_pct": ("CPU steal {}", "{:.0f} %"),
    "swap_mib_s": ("swap {} MiB/s", "{:.0f}"),
}


def epoch_text_of(epoch: Epoch, session: Session, snapshot: Snapshot) -> str:
    """Say how long an epoch of a session took beside the others, and what differed."""
    alike, compile_s = session.epochs_like(epoch, snapshot.epochs)
    validation_compile_s = session.loops.of(epoch).validations.compile_s
    found = compare_epoch(epoch, alike, session.epoch_history.of, compile_s, validation_compile_s)
    gpu = gpu_name(snapshot.gpus) if snapshot.gpus else "GPU"
    # An alert tells of what is said here anyway, and explains nothing.
    notices = [
        note.text
        for note in snapshot.notices
        if isinstance(note, Notice) and epoch.begin <= note.t <= epoch.end
    ]
    each = epoch_word(snapshot.header)
    return epoch_comparison_text(found, each, gpu, notices, snapshot.model, snapshot.compiles)


def epoch_comparison_text(
    it: EpochComparison,
    each: str = "epoch",
    gpu: str = "GPU",
    notices: Sequence[str] = (),
    model: Model | None = None,
    compiles: bool = True,
) -> str:
    """Say how long an epoch took beside the others, and what differed."""
    took = f"took {units.seconds(it.seconds)}"
    then = [f"Notice in it: {text.rstrip('.')}." for text in notices[:_MOST_NOTICES]]
    if it.usual_s is None:
        asked = steps_asked_for(it.epoch, model)
        if not it.epoch.whole and not asked:
            took += " and was cut short, so it is not compared with the others."
            return " ".join((took, *then))
        of_asked = f" for {asked}, limited by --steps" if asked else ""
        least = f"{MIN_EPOCHS} {'such' if asked else 'whole'} {units.plural(each)}"
        took += f"{of_asked}; it takes {least} to say what is usual."
        return " ".join((took, *then))
    more_s = it.seconds - it.usual_s
    by = units.seconds(abs(more_s))
    usual = f"the usual {units.seconds(it.usual_s)}"
    if units.seconds(it.seconds) == units.seconds(it.usual_s):
        first = f"{took}, as usual"
    else:
        first = f"{took}, {by} {'more' if more_s > 0 else 'less'} than {usual}"
    is_first = it.epoch.epoch == 0
    named = [_part_text(part, compiles, is_first) for part in it.parts]
    if round(it.rest_s, 2):
        rest = f"{units.seconds(abs(it.rest_s))} {'more' if it.rest_s > 0 else 'less'}"
        named.append(f"all else {rest} than usual")
    parts = ", ".join(named)
    sentences = [f"{first}: {parts}." if parts else f"{first}.", *then]
    causes = "; ".join(_cause_text(cause, gpu) for cause in it.causes)
    if causes:
        sentences.append(f"{causes[0].upper()}{causes[1:]}.")
    elif not it.is_read:
        sentences.append(NOT_READ)
    elif it.is_slow or not parts:
        is_named = parts or then
        sentences.append(NOTHING_DIFFERED if is_named else NOTHING_DIFFERED.replace(" else", ""))
    return " ".join(sentences)


def steps_asked_for(epoch: Epoch, model: Model | None) -> str:
    """Return 50 of 1,875 steps, where an epoch had as many as were asked for; else ""."""
    if model is None or not model.cut_short or epoch.whole:
        return ""
    asked, whole = model.steps_cap or 0, model.steps_per_epoch or 0
    if epoch.steps is None or epoch.steps < asked:
        return ""
    return f"{asked:,} of {whole:,} steps" if asked < whole else f"{asked:,} steps"


def _part_text(part: EpochDifference, compiles: bool, is_first: bool) -> str:
    took = units.seconds(part.value)
    usually = f"usually {units.seconds(part.usual)}" if part.usual >= 0.005 else "usually none"
    if part.name == STALLED_S:
        return f"{units.counted(part.count, 'stall')} took {took} ({usually})"
    if part.name == COMPILING_S:
        if compiles:
            return f"compiling took {took} of it"
        batch = "its first batch" if is_first else "its first batch of another size"
        return f"{batch} took {took} more than a usual one"
    return f"{_PARTS[part.name]} {took} ({usually})"


def _cause_text(cause: EpochDifference, gpu: str) -> str:
    text, number = _CAUSES[cause.name]
    value, usual = number.format(cause.value), number.format(cause.usual)
    return f"{text.format(value, gpu=gpu)} (usually {usual})"


def metrics_of(epochs: Sequence[Epoch]) -> list[str]:
    """Return the names of the metrics, each before that of its validation: the loss first."""
    # All epochs are asked: one that was cut short has no metrics of a validation.
    names = dict.fromkeys(name for epoch in epochs for name in epoch.metrics)
    order = list(dict.fromkeys(metric_of(name)[0] for name in names))
    order.sort(key=importance)
    return sorted(names, key=lambda name: (order.index(metric_of(name)[0]), metric_of(name)[1]))


def validation_time(epoch: Epoch) -> str:
    """Write how long the validation of an epoch took; a dash where there was none."""
    validation = epoch.validation
    return units.seconds(validation.took_s) if validation else "–"


def samples_per_second_of(epoch: Epoch, in_tokens: bool = False) -> str:
    """Write the throughput of an epoch without its validation; a dash where it isn't known."""
    train_s = (epoch.train_end - epoch.begin) / 1e9
    counted = epoch.tokens if in_tokens else epoch.samples
    return units.rate(counted / train_s) if counted is not None and train_s > 0 else "–"


def metric_text(epoch: Epoch, name: str) -> str:
    """Write a metric of an epoch, or why there is none."""
    value = epoch.metrics.get(name)
    return epoch.why.get(name, "–") if value is None else units.metric(value)


def short_name(name: str) -> str:
    """Return the name of a metric in few cells."""
    metric, is_validation = metric_of(name)
    if is_validation:
        # As Keras says it, whatever a framework calls it.
        name = f"val_{metric}"
    for kind in ("sparse_categorical_", "categorical_", "binary_"):
        name = name.replace(f"{kind}accuracy", "acc")
    return name.replace("accuracy", "acc")
