"""The options of `run`: one table, of which every place that has them is made.

Made of it are the command line of `run` and `sweep`, its help and completion, the form of
the home screen, the keys of config.toml, what a sweep shares and varies, and the tables in
docs/commands.md and docs/settings.md.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace

from dlmon.options.checks import (
    check_alert,
    check_device,
    check_host,
    check_interval,
    check_log_dir,
    check_name,
    check_number_of_cpus,
    check_price,
    check_python,
    check_seconds,
    of_value,
    of_workload,
)
from dlmon.options.option import Option, Scope, as_text, option, seconds_of, whole_number_of
from dlmon.records.record import record
from workloads.catalog import Workload

ALL = "ALL"
"""What stands for every workload in a sweep."""
LEAST_TIME_IN_SWEEP_S = 5.0
"""The minimum time of steady training in a sweep, unless `--seconds` says otherwise.

A quick network would end before its figure, and the band about that, can be known.
"""


@record(frozen=True)
class RunOptions:
    """What a person chose; None means the workload's own."""

    device: str = option(
        default="auto",
        label="Device",
        hint="auto: a GPU if there is one",
        hints={"cpu": "cpu: the processor", "gpu": "by its number in nvidia-smi"},
        help="What to train on: auto is a GPU if there is one, N the number in nvidia-smi.",
        explanation="What to train on: the processor (cpu), a certain GPU, or what is best here "
        "(auto).",
        metavar="auto|cpu|gpu|gpu:N",
        choices=("auto", "cpu", "gpu"),
        check=of_value(check_device),
    )
    batch_size: int | None = option(
        default=None,
        label="Batch size",
        hint="samples in a batch",
        help="Samples in a batch.",
        explanation="How many samples the network sees before its parameters are adjusted once.",
        metavar="N",
        read=whole_number_of("the batch size"),
        check=of_workload("batch_size"),
        unset="the workload's",
        is_of_workload=True,
    )
    epochs: int | None = option(
        default=None,
        label="Epochs",
        hint="times to train on all samples",
        help="Epochs to train; in other modes, passes over the samples.",
        explanation="How many times training goes through all samples.",
        metavar="N",
        read=whole_number_of("the number of epochs"),
        check=of_workload("epochs"),
        unset="the workload's",
        is_of_workload=True,
    )
    steps: int | None = option(
        default=None,
        label="Steps",
        hint="maximum batches per epoch",
        help="At most this many batches of training, and of validation, per epoch; the time of a "
        "whole epoch is then projected.",
        explanation="Cuts each epoch short after this many batches, to try something out; the time "
        "of a whole epoch is then projected.",
        metavar="N",
        read=whole_number_of("the number of steps"),
        check=of_workload("steps"),
        unset="all",
        is_of_workload=True,
    )
    seconds: float | None = option(
        default=None,
        label="Seconds",
        hint="minimum time of steady training",
        help="Minimum time of steady training: more epochs follow until it is reached.",
        explanation="How many seconds to train at least once the speed is steady: more epochs "
        "follow until then. A result takes three; five narrow its uncertainty.",
        metavar="SECONDS",
        read=seconds_of("the minimum time", "3"),
        check=of_value(check_seconds),
        unset="no minimum",
        default_words=f"0; in a sweep {LEAST_TIME_IN_SWEEP_S:g}",
    )
    threads: int | None = option(
        default=None,
        label="Threads",
        hint="CPU threads of the backend",
        help="Threads of the backend.",
        explanation="How many threads of the processor may compute at once.",
        metavar="N",
        read=whole_number_of("the number of threads"),
        check=of_workload("threads"),
        unset="automatic",
    )
    cpus: int | None = option(
        default=None,
        label="CPUs",
        hint="CPUs that it may run on",
        help="CPUs that it may run on.",
        explanation="How many of the processor's CPUs it may run on, to measure the effect of "
        "fewer.",
        metavar="N",
        read=whole_number_of("the number of CPUs"),
        check=check_number_of_cpus,
        unset="all",
    )
    data: str = option(
        default="auto",
        label="Data",
        hint="real if downloaded, else random",
        hints={
            "synthetic": "random, of the real shapes",
            "real": "downloaded where not cached",
        },
        help="The samples: auto is the real ones if Keras has already downloaded them, else "
        "synthetic ones: random, of the same shapes.",
        explanation="Real samples, or synthetic ones: random, of the same shapes, which train as "
        "fast but teach nothing, so accuracy on new samples stays near chance; auto takes the real "
        "ones if Keras has already downloaded them.",
        choices=("auto", "synthetic", "real"),
    )
    mode: str = option(
        default="train",
        label="Mode",
        hint="which passes each step makes",
        help="gradients: forward and backward without the weight update; inference: forward only.",
        explanation="Whether the network is trained, computes its gradients without updating its "
        "weights (gradients: forward and backward pass), or only computes its outputs "
        "(inference: forward pass).",
        choices=("train", "gradients", "inference"),
    )
    precision: str = option(
        default="float32",
        label="Precision",
        hint="number format of the arithmetic",
        help="Number format of the arithmetic.",
        explanation="How many bits a number has in most of the arithmetic: 32, or 16 with sums in "
        "32 (mixed), which hardware made for it does faster.",
        choices=("float32", "mixed_float16", "mixed_bfloat16"),
    )
    jit: str = option(
        default="auto",
        label="JIT",
        hint="compile each step with XLA",
        help="Compile each step with XLA; auto: as Keras does.",
        explanation="Whether XLA compiles each step as a whole, which takes longer at first; auto "
        "leaves that to Keras.",
        choices=("auto", "on", "off"),
    )
    backend: str = option(
        default="tensorflow",
        label="Backend",
        hint="what Keras runs on",
        help="What Keras 3 runs on, where it is installed.",
        explanation="Which library does the arithmetic; it has to be installed.",
        choices=("tensorflow", "jax", "torch"),
    )
    python: str | None = option(
        default=None,
        label="Python",
        hint="another interpreter's path",
        help="Another interpreter, such as one with a TensorFlow compiled for this CPU.",
        explanation="The path of another Python interpreter to train in, such as one with a "
        "TensorFlow that was compiled for this processor.",
        metavar="PATH",
        check=check_python,
        unset="dlmon's own",
        path="file",
    )
    interval: float = option(
        default=1.0,
        label="Interval",
        hint="seconds between hardware samples",
        help="Seconds between hardware samples, from 0.1 to 3,600.",
        explanation="How many seconds pass between two readings of the hardware.",
        metavar="SECONDS",
        read=seconds_of("the interval", "0.5"),
        check=of_value(check_interval),
    )
    pcie: bool = option(
        default=False,
        label="PCIe",
        hint="measures the GPUs' PCIe traffic",
        help="Measure what crosses each GPU's PCIe link, which takes 40 ms per GPU every 5 s.",
        explanation="Whether what crosses each GPU's PCIe link is measured, every five seconds: "
        "that takes 40 ms per GPU.",
        scope=Scope.SETTING,
    )
    price: str | None = option(
        default=None,
        label="Price",
        hint="USD per hour, or 0.00795/cpu",
        help="What this machine costs per hour, or each of its CPUs (0.00795/cpu), for the cost of "
        "the run.",
        explanation="What this machine costs per hour in US dollars, or each of its CPUs "
        "(0.00795/cpu), for the cost of the run.",
        metavar="USD",
        check=of_value(check_price),
        unset="none",
        scope=Scope.SHARED,
    )
    host: str | None = option(
        default=None,
        label="Host",
        hint="another machine, by ssh",
        help="Another machine to train on, which ssh reaches: nothing has to be installed there "
        "but a Python with Keras (--python). What dlmon run starts there continues when "
        "you close dlmon.",
        explanation="Another machine to train on, by the name that ssh knows it by. Nothing has to "
        "be installed there but a Python that has Keras; the training continues when you "
        "close dlmon.",
        metavar="HOST",
        check=of_value(check_host),
        unset="this machine",
        scope=Scope.LAUNCH,
        is_swept=True,
    )
    detach: bool = option(
        default=False,
        label="Detach",
        hint="yes: it continues without dlmon",
        help="Start it and leave it running.",
        explanation="Whether training continues when you close dlmon.",
        yes="yes, leave it running",
        scope=Scope.LAUNCH,
    )
    name: str | None = option(
        default=None,
        label="Name",
        hint="what to call this session",
        help="What to call it: a name of your own, by which every command finds it.",
        explanation="What to call this session, so that you find it again; several may have the "
        "same name.",
        metavar="NAME",
        check=of_value(check_name),
        unset="none",
        scope=Scope.LAUNCH,
    )
    alert: str | None = option(
        default=None,
        label="Alert",
        hint="an address to send messages to",
        help="Where to send a message when it ends, fails, stalls, gets slow or the like: an "
        "address such as https://ntfy.sh/my-topic, or off. dlmon alerts --test shows what comes.",
        explanation="Where to send a message when the run ends, fails, stalls, gets slow or the "
        "like, while you don't look: an address such as https://ntfy.sh/my-topic, or off.",
        metavar="ADDRESS",
        check=check_alert,
        unset="as in config.toml",
        scope=Scope.LAUNCH,
        is_secret=True,
    )
    log_dir: str | None = option(
        default=None,
        label="Log dir",
        hint="where the session is recorded",
        help="Where sessions are kept.",
        explanation="The directory in which this session is recorded, in place of the usual one.",
        metavar="DIR",
        check=check_log_dir,
        unset="the usual one",
        path="dir",
        scope=Scope.LAUNCH,
    )

    def problem(
        self, workload: Workload | None, here: bool = True, names: Iterable[str] | None = None
    ) -> str | None:
        """Say in one sentence why these can't be run, here or anywhere; None when they can."""
        return next(iter(self.problems(workload, here, names).values()), None)

    def problems(
        self, workload: Workload | None, here: bool = True, names: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Say in one sentence each which of these can't be run, and why.

        What another machine lacks, it says itself.

        Args:
            workload: what is trained with them; None checks what holds of any.
            here: whether on this machine.
            names: those that are of interest; None for all.
        """
        here = here and self.host is None
        problems = {
            name: OPTIONS[name].problem(getattr(self, name), workload, here)
            for name in (OPTIONS if names is None else names)
        }
        return {name: problem for name, problem in problems.items() if problem is not None}

    def command_line(self, workload: Workload, configured: RunOptions | None = None) -> str:
        """Return the command that runs the same, without what is the default anyway.

        Args:
            workload: what is trained.
            configured: the defaults in the user's config.toml, which the command would follow.
        """
        words = ["dlmon", "run", workload.name]
        for name, described in OPTIONS.items():
            value = getattr(self, name)
            if {described.default, getattr(configured or self, name)} == {value}:
                continue
            if described.is_switch:
                words.append(described.flag if value else f"--no-{described.flag[2:]}")
            else:
                words += [described.flag, as_text(value)]
        return shlex.join(words)


OPTIONS: Mapping[str, Option] = {
    spec.name: replace(spec.metadata["option"], name=spec.name) for spec in fields(RunOptions)
}


def _of_scope(scope: Scope) -> tuple[str, ...]:
    return tuple(
        name
        for name, described in OPTIONS.items()
        if described.scope >= scope or (described.is_swept and scope >= Scope.SHARED)
    )


SETTINGS, SHARED, VARIED = map(_of_scope, (Scope.SETTING, Scope.SHARED, Scope.VARIED))
"""The options that config.toml may hold, that runs of a sweep may share, and that it may vary."""
