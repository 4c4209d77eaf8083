"""The injections: what the hooks can set inside a script, without a change of the script."""

from __future__ import annotations

from dlmon.records.record import record

TORCH, KERAS = "torch", "keras"
ON, OFF = "on", "off"
_SWITCH = (ON, OFF)
_SAME = {"true": ON, "yes": ON, "1": ON, "false": OFF, "no": OFF, "0": OFF}
# A larger number is a typing error.
_LARGEST = 1 << 30


@record(frozen=True)
class InjectionKind:
    """A setting that the hooks can make.

    Attributes:
        name: its name, as in `set:NAME=VALUE`.
        framework: the framework whose objects it is set in: torch or keras.
        line: the line of a script that does the same, with `{value}` in it.
        words: the words that it takes.
        least: the least whole number that it takes; None if it takes no numbers.
        line_if_off: the line in place of `line` for the value off.
        alters_training: whether the losses may differ by more than rounding.
    """

    name: str
    framework: str
    line: str
    words: tuple[str, ...] = ()
    least: int | None = None
    line_if_off: str | None = None
    alters_training: bool = False

    @property
    def takes(self) -> str:
        """The values that it takes, in words."""
        number = [] if self.least is None else [f"a whole number from {self.least} on"]
        return " or ".join([*number, *([", ".join(self.words)] if self.words else [])])

    def advice(self, value: str | int | float) -> str:
        """Return the line that a person writes to set a value."""
        if value == OFF and self.line_if_off is not None:
            return self.line_if_off
        text = str(value == ON) if self.words == _SWITCH else str(value)
        return self.line.format(name=self.name, value=text)


_LOADER = "DataLoader(..., {name}={value})"
_KINDS = (
    InjectionKind("num_workers", TORCH, _LOADER, least=0),
    InjectionKind("prefetch_factor", TORCH, _LOADER, least=1),
    InjectionKind("persistent_workers", TORCH, _LOADER, _SWITCH),
    InjectionKind("pin_memory", TORCH, _LOADER, _SWITCH),
    InjectionKind("non_blocking", TORCH, "batch.to(device, non_blocking=True)", (ON,)),
    InjectionKind("batch_size", TORCH, _LOADER, least=1, alters_training=True),
    InjectionKind("fused", TORCH, "optimizer(..., fused={value})", _SWITCH),
    InjectionKind(
        *("matmul_precision", TORCH, 'torch.set_float32_matmul_precision("{value}")'),
        words=("highest", "high", "medium"),
        alters_training=True,
    ),
    InjectionKind("cudnn_benchmark", TORCH, "torch.backends.cudnn.benchmark = {value}", _SWITCH),
    InjectionKind(
        *("autocast", TORCH, "with torch.autocast(device_type, dtype=torch.{value}): ..."),
        words=(OFF, "bfloat16", "float16"),
        line_if_off="torch.autocast(..., enabled=False)",
        alters_training=True,
    ),
    InjectionKind(
        *("compile", TORCH, 'network = torch.compile(network, mode="{value}")'),
        words=(OFF, "default", "reduce-overhead", "max-autotune"),
        line_if_off="leave torch.compile out",
    ),
    InjectionKind("prints", TORCH, "if step % 100 == 0: print(...)", (OFF,)),
    InjectionKind("threads", TORCH, "torch.set_num_threads({value})", least=1),
    InjectionKind("jit_compile", KERAS, "model.compile(..., jit_compile={value})", _SWITCH),
    InjectionKind(
        "steps_per_execution", KERAS, "model.compile(..., steps_per_execution={value})", least=1
    ),
    InjectionKind("prefetch", KERAS, "model.fit(dataset.prefetch({value}), ...)", least=1),
    InjectionKind(
        *("precision", KERAS, 'keras.config.set_dtype_policy("{value}")'),
        words=("float32", "mixed_bfloat16", "mixed_float16"),
        alters_training=True,
    ),
)

INJECTIONS = {kind.name: kind for kind in _KINDS}
"""All injections, by name."""


def parse_injection(name: str, text: str) -> str | int:
    """Return the value of an injection from its text.

    Raises:
        ValueError: there is no such injection, or it doesn't take the value; the message is a
            sentence for a person.
    """
    kind = INJECTIONS.get(name)
    if kind is None:
        raise ValueError(f"there is no set:{name}; there are {', '.join(INJECTIONS)}")
    word = text.strip().lower()
    if kind.words == _SWITCH:
        word = _SAME.get(word, word)
    if word in kind.words:
        return word
    is_number = kind.least is not None and word.isascii() and word.isdecimal()
    if is_number and (kind.least or 0) <= int(word) <= _LARGEST:
        return int(word)
    raise ValueError(f"set:{name} takes {kind.takes}, not {text!r}")
