"""The records of every pipe and log; the standard library only.

They are imported when the first of them is asked for: what cleans text needs none.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dlmon.records.codec import (
        LARGEST,
        SCHEMA,
        Record,
        RecordError,
        decode,
        encode,
        finite,
        to_json,
    )
    from dlmon.records.machine import (
        ANY,
        MAX_BUSIEST,
        MAX_OF_RUN,
        MAX_ON_GPUS,
        Cost,
        Cpu,
        Disk,
        Gpu,
        GpuFacts,
        Machine,
        MachineFacts,
        Memory,
        Network,
        Pressure,
        Process,
        ProcessTree,
    )
    from dlmon.records.profile import Operation, Profile
    from dlmon.records.session import (
        Alert,
        Facts,
        Failure,
        LoopResult,
        MachineUse,
        Notice,
        Output,
        Result,
        RunSeconds,
        SamplesPerSecond,
        SecondsPerEpoch,
        SessionHeader,
        StepTime,
    )
    from dlmon.records.stacks import Answer, Frame, ProcessStack, SeenAt, Stack, ThreadStack
    from dlmon.records.sweep import (
        Began,
        Closed,
        Ended,
        Event,
        Outcome,
        Resumed,
        Slot,
        SweepHeader,
        SweptWorkload,
        Value,
        Variation,
    )
    from dlmon.records.training import (
        CHECKPOINT,
        COMPILE,
        GARBAGE,
        GRADIENTS_PHASE,
        PHASES,
        SCRIPT_PHASE,
        WITHOUT_EPOCHS,
        Batches,
        BatchSummary,
        Epoch,
        Evaluation,
        Metrics,
        Model,
        NamedPause,
        Phase,
        Trainer,
        Validation,
    )
    from dlmon.records.words import (
        TITLES,
        AccountPart,
        AlertEvent,
        Doubt,
        FailureKind,
        GpuState,
        Requirement,
        RunStatus,
        Status,
        StopCause,
        Word,
    )

_MODULES = ("codec", "machine", "profile", "session", "stacks", "sweep", "training", "words")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module in () if name.startswith("__") else _MODULES:
        names = vars(import_module(f"dlmon.records.{module}"))
        if name in names:
            globals()[name] = names[name]
            return names[name]
    raise AttributeError(f"dlmon.records has no {name}")
