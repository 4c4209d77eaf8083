"""The options of `run` as the home screen names and explains them."""

from __future__ import annotations

from typing import NamedTuple


class OptionField(NamedTuple):
    """An option of `run`, as the form shows it."""

    name: str
    label: str
    hint: str
    explanation: str


OPTIONS = (
    OptionField(
        "device",
        "Device",
        "auto: a GPU if there is one",
        "What to train on: the processor (cpu), a certain GPU, or what is best here (auto).",
    ),
    OptionField(
        "batch_size",
        "Batch size",
        "samples in a batch",
        "How many samples the network sees before its parameters are adjusted once.",
    ),
    OptionField(
        "epochs",
        "Epochs",
        "how often all samples are seen",
        "How many times training goes through all samples.",
    ),
    OptionField(
        "steps",
        "Steps",
        "most batches in an epoch",
        "Cuts each epoch short after so many batches, to try something out; the time of a whole "
        "epoch is then projected.",
    ),
    OptionField(
        "seconds",
        "Seconds",
        "least time of steady training",
        "How many seconds to train at least once the speed is steady: more epochs follow while it "
        "was less. A figure takes three, five narrow its uncertainty.",
    ),
    OptionField(
        "threads",
        "Threads",
        "CPU threads that may compute",
        "How many threads of the processor may compute at once.",
    ),
    OptionField(
        "cpus",
        "CPUs",
        "CPUs that it may run on",
        "On how many of the processor's CPUs it may run, to learn what fewer of them cost.",
    ),
    OptionField(
        "data",
        "Data",
        "auto: real where it is cached",
        "Real samples, or synthetic ones of the same size, which train as fast but teach nothing; "
        "auto takes real ones where they were downloaded before.",
    ),
    OptionField(
        "mode",
        "Mode",
        "what a batch goes through",
        "Whether the network is trained, computes its gradients without updating its weights "
        "(gradients: forward and backward pass), or is only asked for its answers (inference: "
        "forward pass).",
    ),
    OptionField(
        "precision",
        "Precision",
        "what it computes in",
        "How many bits a number has in most of the arithmetic: 32, or 16 with sums in 32 (mixed), "
        "which hardware made for it does faster.",
    ),
    OptionField(
        "jit",
        "JIT",
        "a step compiled as a whole",
        "Whether XLA compiles each step as a whole, which takes longer at first; auto leaves that "
        "to Keras.",
    ),
    OptionField(
        "backend",
        "Backend",
        "what Keras runs on",
        "Which library does the arithmetic; it has to be installed.",
    ),
    OptionField(
        "python",
        "Python",
        "another interpreter's path",
        "The path of another Python interpreter to train in, such as one with a TensorFlow that "
        "was compiled for this processor.",
    ),
    OptionField(
        "interval",
        "Interval",
        "seconds between hardware samples",
        "How many seconds pass between two readings of the hardware.",
    ),
    OptionField(
        "pcie",
        "PCIe",
        "measures the GPUs' PCIe traffic",
        "Whether what crosses each GPU's PCIe link is measured, every five seconds: that takes "
        "40 ms a GPU.",
    ),
    OptionField(
        "price",
        "Price",
        "USD an hour, or 0.00795/cpu",
        "What an hour of this machine costs in US dollars, or of each CPU (0.00795/cpu), for the "
        "cost of the run.",
    ),
    OptionField(
        "detach",
        "Detach",
        "yes: it continues without dlmon",
        "Whether training goes on when dlmon is closed.",
    ),
    OptionField(
        "log_dir",
        "Log dir",
        "where the session is recorded",
        "The directory in which this session is recorded, in place of the usual one.",
    ),
)
