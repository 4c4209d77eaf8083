"""The time of an epoch compared with the others, and its metrics, as text."""

from __future__ import annotations

from collections.abc import Sequence

from dlmon.figures import units
from dlmon.figures.session.epoch_numbers import epoch_word
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
# Their texts, and the formats of their numbers.
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
    """Compare the time of an epoch with the others of its session, and say what differed."""
    similar, compile_s = session.epochs_like(epoch, snapshot.epochs)
    validation_compile_s = session.loops.of(epoch).validations.compile_s
    history = session.epoch_history.of
    comparison = compare_epoch(epoch, similar, history, compile_s, validation_compile_s)
    gpu = gpu_name(snapshot.gpus) if snapshot.gpus else "GPU"
    # An alert repeats what stands here already.
    notices = [
        note.text
        for note in snapshot.notices
        if isinstance(note, Notice) and epoch.begin <= note.t <= epoch.end
    ]
    word, model = epoch_word(snapshot.header), snapshot.model
    return epoch_comparison_text(comparison, word, gpu, notices, model, snapshot.compiles)


def epoch_comparison_text(
    comparison: EpochComparison,
    epoch_word: str = "epoch",
    gpu: str = "GPU",
    notices: Sequence[str] = (),
    model: Model | None = None,
    compiles: bool = True,
) -> str:
    """Compare the time of an epoch with the others, and say what differed."""
    took = f"took {units.seconds(comparison.seconds)}"
    notice_texts = [f"Notice in it: {text.rstrip('.')}." for text in notices[:_MOST_NOTICES]]
    if comparison.usual_s is None:
        why = _why_not_compared(comparison.epoch, epoch_word, model)
        return " ".join((f"{took}{why}.", *notice_texts))
    more_s = comparison.seconds - comparison.usual_s
    by, usual = units.seconds(abs(more_s)), f"the usual {units.seconds(comparison.usual_s)}"
    if units.seconds(comparison.seconds) == units.seconds(comparison.usual_s):
        first = f"{took}, as usual"
    else:
        first = f"{took}, {by} {'more' if more_s > 0 else 'less'} than {usual}"
    is_first = comparison.epoch.epoch == 0
    part_texts = [_part_text(part, compiles, is_first) for part in comparison.parts]
    rest_s = comparison.rest_s
    if round(rest_s, 2):
        rest = f"{units.seconds(abs(rest_s))} {'more' if rest_s > 0 else 'less'}"
        part_texts.append(f"all else {rest} than usual")
    parts = ", ".join(part_texts)
    sentences = [f"{first}: {parts}." if parts else f"{first}.", *notice_texts]
    causes = "; ".join(_cause_text(cause, gpu) for cause in comparison.causes)
    if causes:
        sentences.append(f"{causes[0].upper()}{causes[1:]}.")
    elif not comparison.is_read:
        sentences.append(NOT_READ)
    elif comparison.is_slow or not parts:
        has_reason = parts or notice_texts
        sentences.append(NOTHING_DIFFERED if has_reason else NOTHING_DIFFERED.replace(" else", ""))
    return " ".join(sentences)


def _why_not_compared(epoch: Epoch, epoch_word: str, model: Model | None) -> str:
    """Return the end of the sentence about an epoch that has no others to be compared with."""
    if epoch.profiled:
        return " with a profiler, so it is not compared with the others"
    steps = steps_asked_for(epoch, model)
    if not epoch.whole and not steps:
        return " and was cut short, so it is not compared with the others"
    of_steps = f" for {steps}, limited by --steps" if steps else ""
    least = f"{MIN_EPOCHS} {'such' if steps else 'whole'} {units.plural(epoch_word)}"
    return f"{of_steps}; it takes {least} to say what is usual"


def steps_asked_for(epoch: Epoch, model: Model | None) -> str:
    """Return the steps of an epoch that --steps limited: 50 of 1,875 steps; else ""."""
    if model is None or not model.cut_short or epoch.whole:
        return ""
    limit, whole = model.steps_cap or 0, model.steps_per_epoch or 0
    if epoch.steps is None or epoch.steps < limit:
        return ""
    return f"{limit:,} of {whole:,} steps" if limit < whole else f"{limit:,} steps"


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
    """Return the names of the metrics, the loss first, each with its validation behind it."""
    # An epoch that was cut short has no metrics of a validation, so look at all.
    names = dict.fromkeys(name for epoch in epochs for name in epoch.metrics)
    order = list(dict.fromkeys(metric_of(name)[0] for name in names))
    order.sort(key=importance)
    return sorted(names, key=lambda name: (order.index(metric_of(name)[0]), metric_of(name)[1]))


def validation_time(epoch: Epoch) -> str:
    """Write the time of the validation of an epoch; a dash without one."""
    validation = epoch.validation
    return units.seconds(validation.took_s) if validation else "–"


def samples_per_second_of(epoch: Epoch, in_tokens: bool = False) -> str:
    """Write the throughput of an epoch without its validation; a dash if unknown."""
    train_s = (epoch.train_end - epoch.begin) / 1e9
    count = epoch.tokens if in_tokens else epoch.samples
    return units.rate(count / train_s) if count is not None and train_s > 0 else "–"


def metric_text(epoch: Epoch, name: str) -> str:
    """Write a metric of an epoch, or why there is none."""
    value = epoch.metrics.get(name)
    return epoch.why.get(name, "–") if value is None else units.metric(value)


def short_name(name: str) -> str:
    """Return the name of a metric in few cells."""
    metric, is_validation = metric_of(name)
    if is_validation:
        # Keras's name, for all frameworks.
        name = f"val_{metric}"
    for kind in ("sparse_categorical_", "categorical_", "binary_"):
        name = name.replace(f"{kind}accuracy", "acc")
    return name.replace("accuracy", "acc")


def why_no_epochs(model: Model | None, running: bool, noun: str) -> str:
    """Say why a run has no epoch that ended."""
    if model is not None and model.has_epochs is False:
        return f"the script's loop has no {noun}s"
    return f"no {noun} has ended yet" if running else f"the run ended before its first {noun}"
