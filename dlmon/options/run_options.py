"""The table of the options of `run`.

The command lines of `run` and `sweep` with their help and completion, the form on the home screen,
the keys of config.toml, the options of sweeps, and the table in docs/commands.md are made from it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import cache, partial
from typing import TYPE_CHECKING, get_type_hints

from dlmon.options.checks import (
    check_alert,
    check_device,
    check_host,
    check_log_dir,
    check_name,
    check_number_of_cpus,
    check_number_of_devices,
    check_price,
    check_python,
    check_tracker,
    within,
)
from dlmon.options.option import Option, Scope, as_text, option, seconds_of, whole_number_of
from dlmon.records.record import record
from dlmon.records.words import ONE_DEVICE_WITH_TORCH

if TYPE_CHECKING:
    from workloads.catalog import Workload

ALL = "ALL"
"""The name that stands for all workloads in a sweep."""
LEAST_TIME_IN_SWEEP_S = 5.0
"""The least time of steady training in a sweep, without `--seconds`: a small network would end
before its throughput and the interval of that are known."""


@record(frozen=True)
class RunOptions:
    """The options of a run; None for the workload's default."""

    device: str = option(
        default="auto",
        hint="auto: a GPU if there is one",
        hints={"cpu": "cpu: the processor", "gpu": "by its number in nvidia-smi"},
        help="What to train on: the processor (cpu), a GPU by its number in nvidia-smi (gpu:N), "
        "several (gpu:0+1) or all of them (gpu:all), or, with auto, a GPU if there is one.",
        metavar="auto|cpu|gpu|gpu:N",
        choices=("auto", "cpu", "gpu"),
        check=check_device,
        says_itself=True,
    )
    devices: int | None = option(
        default=None,
        hint="GPUs that share each batch",
        help="How many GPUs share each batch, on TensorFlow and JAX. Each has a batch of the "
        "workload's size unless --batch-size says how large all of it is. On the CPU they are "
        "virtual: a way to try it.",
        metavar="N",
        parse=whole_number_of("the number of devices"),
        check=check_number_of_devices,
        unset="one",
        default_words="1",
        noun="device",
    )
    batch_size: int | None = option(
        default=None,
        hint="samples in a batch",
        help="How many samples the network sees before its parameters are adjusted once.",
        metavar="N",
        parse=whole_number_of("the batch size"),
        limits=True,
        unset="the workload's",
        is_of_workload=True,
        brief="batch",
    )
    epochs: int | None = option(
        default=None,
        hint="times to train on all samples",
        help="How many times training goes through all samples; in other modes, passes over them.",
        metavar="N",
        parse=whole_number_of("the number of epochs"),
        limits=True,
        unset="the workload's",
        is_of_workload=True,
        noun="epoch",
    )
    steps: int | None = option(
        default=None,
        hint="maximum batches per epoch",
        help="At most this many batches of training, and of validation, per epoch, to try "
        "something out; the time of a whole epoch is then projected.",
        metavar="N",
        parse=whole_number_of("the number of steps"),
        limits=True,
        unset="all",
        is_of_workload=True,
        noun="step",
    )
    seconds: float | None = option(
        default=None,
        hint="minimum time of steady training",
        help="How many seconds to train at least once the speed is steady: more epochs follow "
        "until then. A result takes three; five narrow its uncertainty.",
        metavar="SECONDS",
        parse=seconds_of("the minimum time", "3"),
        check=within("the minimum time", 0, 86_400),
        unset="no minimum",
        default_words=f"0; in a sweep {LEAST_TIME_IN_SWEEP_S:g}",
    )
    threads: int | None = option(
        default=None,
        hint="CPU threads of the backend",
        help="How many threads of the processor the backend may compute with at once.",
        metavar="N",
        parse=whole_number_of("the number of threads"),
        limits=True,
        unset="automatic",
        default_words="auto",
    )
    cpus: int | None = option(
        default=None,
        label="CPUs",
        hint="CPUs that it may run on",
        help="CPUs that it may run on, to measure the effect of fewer.",
        metavar="N",
        parse=whole_number_of("the number of CPUs"),
        check=check_number_of_cpus,
        unset="all",
        noun="CPU",
    )
    data: str = option(
        default="auto",
        hint="real if downloaded, else random",
        hints={
            "synthetic": "random, learnable, of the real shapes",
            "real": "downloaded where not cached",
        },
        help="The samples: auto is the real ones if Keras has already downloaded them, else "
        "synthetic ones: random and learnable, of the same shapes, which train as fast.",
        choices=("auto", "synthetic", "real"),
    )
    mode: str = option(
        default="train",
        hint="which passes each step makes",
        help="Whether the network is trained, computes its gradients without updating its weights "
        "(gradients: forward and backward pass), or only computes its outputs (inference: forward "
        "pass).",
        choices=("train", "gradients", "inference"),
        says_itself=True,
    )
    precision: str = option(
        default="float32",
        hint="number format of the arithmetic",
        help="How many bits a number has in most of the arithmetic: 32, or 16 with sums in 32 "
        "(mixed), which hardware made for it does faster.",
        choices=("float32", "mixed_float16", "mixed_bfloat16"),
        says_itself=True,
    )
    jit: str = option(
        default="auto",
        label="JIT",
        hint="compile each step with XLA",
        help="Whether XLA compiles each step as a whole, which takes longer at first; auto leaves "
        "that to Keras.",
        choices=("auto", "on", "off"),
        brief="JIT",
    )
    backend: str = option(
        default="tensorflow",
        hint="what Keras runs on",
        help="What Keras 3 does its arithmetic with, where that is installed.",
        choices=("tensorflow", "jax", "torch"),
        says_itself=True,
    )
    python: str | None = option(
        default=None,
        hint="another interpreter's path",
        help="Another Python interpreter to train in, such as one with a TensorFlow that was "
        "compiled for this processor.",
        metavar="PATH",
        check=check_python,
        checks_unset=True,
        unset="dlmon's own",
        default_words="the Python of dlmon",
        path="file",
        says_itself=True,
    )
    interval: float = option(
        default=1.0,
        hint="seconds between hardware samples",
        help="Seconds between hardware samples, from 0.1 to 3,600.",
        metavar="SECONDS",
        parse=seconds_of("the interval", "0.5"),
        check=within("the interval", 0.1, 3_600),
    )
    pcie: bool = option(
        default=False,
        label="PCIe",
        hint="measures the GPUs' PCIe traffic",
        help="Measure what crosses each GPU's PCIe link, which takes 40 ms per GPU every 5 s.",
        scope=Scope.SETTING,
    )
    price: str | None = option(
        default=None,
        hint="USD per hour, or 0.00795/cpu",
        help="What this machine costs per hour in US dollars, or each of its CPUs (0.00795/cpu), "
        "for the cost of the run.",
        metavar="USD",
        check=check_price,
        scope=Scope.SHARED,
    )
    to: str | None = option(
        default=None,
        hint="a tracker: wandb, mlflow:URI, …",
        help="An experiment tracker that gets what is measured, while it runs: wandb, mlflow:URI, "
        "trackio or tensorboard:DIR.",
        metavar="TRACKER",
        check=check_tracker,
        scope=Scope.SHARED,
    )
    host: str | None = option(
        default=None,
        hint="another machine, by ssh",
        help="Another machine to train on, by the name that ssh knows it by: nothing has to be "
        "installed there but a Python with Keras (--python). What dlmon run starts there "
        "continues when you close dlmon.",
        metavar="HOST",
        check=check_host,
        unset="this machine",
        scope=Scope.LAUNCH,
        is_swept=True,
        says_itself=True,
    )
    detach: bool = option(
        default=False,
        hint="yes: it continues without dlmon",
        help="Start it and leave it running: it continues when you close dlmon.",
        yes="yes, leave it running",
        scope=Scope.LAUNCH,
    )
    name: str | None = option(
        default=None,
        hint="what to call this session",
        help="What to call it: a name of your own, by which every command finds it; several "
        "sessions may have the same one.",
        metavar="NAME",
        check=check_name,
        scope=Scope.LAUNCH,
    )
    alert: str | None = option(
        default=None,
        hint="an address to send messages to",
        help="Where to send a message when it ends, fails, stalls, gets slow or the like, while "
        "you don't look: an address such as https://ntfy.sh/my-topic, or off. dlmon alerts "
        "--test shows what comes.",
        metavar="ADDRESS",
        check=check_alert,
        unset="as in config.toml",
        scope=Scope.LAUNCH,
        is_secret=True,
    )
    log_dir: str | None = option(
        default=None,
        hint="where the session is recorded",
        help="Where sessions are kept, in place of the usual directory.",
        metavar="DIR",
        check=check_log_dir,
        unset="the usual one",
        path="dir",
        scope=Scope.LAUNCH,
    )

    def problem(
        self, workload: Workload | None, here: bool = True, names: Iterable[str] | None = None
    ) -> str | None:
        """Return a sentence that says why these options can't be run; None if they can."""
        return next(iter(self.problems(workload, here, names).values()), None)

    def problems(
        self, workload: Workload | None, here: bool = True, names: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Return a sentence for each wrong option, by its name.

        Args:
            workload: the workload; None to skip checks that depend on it.
            here: check what this host has, unless the options name another host.
            names: the options to check; None for all.
        """
        here = here and self.host is None
        problems = {
            name: OPTIONS[name].problem(getattr(self, name), workload, here)
            for name in (OPTIONS if names is None else names)
        }
        if "devices" in problems and self.wants_several and self.backend == "torch":
            problems["devices"] = ONE_DEVICE_WITH_TORCH
        return {name: problem for name, problem in problems.items() if problem is not None}

    @property
    def wants_several(self) -> bool:
        """True if a batch may be divided among devices, as far as known before a run."""
        return (self.devices or 1) > 1 or "+" in self.device or self.device == "gpu:all"

    def command_line(self, workload: Workload, configured: RunOptions | None = None) -> str:
        """Return the command for these options, without defaults and `configured` values."""
        chosen = {
            name: value
            for name, value in vars(self).items()
            if {OPTIONS[name].default, getattr(configured or self, name)} != {value}
        }
        return shlex.join(["dlmon", "run", workload.name, *as_typed(chosen)])


def _named(name: str, described: Option) -> Option:
    label = described.label or name.replace("_", " ").capitalize()
    return replace(described, name=name, label=label)


OPTIONS: Mapping[str, Option] = {
    spec.name: _named(spec.name, spec.metadata["option"]) for spec in fields(RunOptions)
}


def _of_scope(scope: Scope) -> tuple[str, ...]:
    return tuple(
        name
        for name, described in OPTIONS.items()
        if described.scope >= scope or (described.is_swept and scope >= Scope.SHARED)
    )


SETTINGS, SHARED, VARIED = map(_of_scope, (Scope.SETTING, Scope.SHARED, Scope.VARIED))
"""The options for config.toml, those that runs of a sweep share, and those that a sweep varies."""


def option_name(name: str) -> str:
    """Return the words for an option, which may be that of another version."""
    if name in OPTIONS:
        return OPTIONS[name].called
    # env:OMP_NUM_THREADS and set:num_workers are the names of others.
    return name if ":" in name else name.replace("_", " ")


def in_words(options: Mapping[str, object]) -> str:
    """Return the words for options and their values: `cpu, batch 64, all steps`."""
    return ", ".join(
        OPTIONS[name].words(value) if name in OPTIONS else f"{option_name(name)} {value}"
        for name, value in options.items()
    )


def as_typed(options: Mapping[str, object]) -> list[str]:
    """Return the command-line words that set options, also for `dlmon exec`."""
    words = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", as_text(value)]
    return words


_types = cache(partial(get_type_hints, RunOptions))


def known_options(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options from a log that this version knows and whose type is right."""
    types = _types()
    return {
        name: value
        for name, value in options.items()
        if name in types and isinstance(value, types[name])
    }


def differing(
    options: Mapping[str, object], base: Mapping[str, object], names: Iterable[str]
) -> dict[str, object]:
    """Return the options among `names` whose values differ from those in `base`."""
    defaults = {name: OPTIONS[name].default for name in names}
    values, base_values = defaults | known_options(options), defaults | known_options(base)
    return {name: values[name] for name in defaults if values[name] != base_values[name]}
