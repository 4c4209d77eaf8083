"""The table of injections: what each takes, and the line that a person writes instead."""

import ast
import re

import pytest

from dlmon.records.injections import INJECTIONS, KERAS, TORCH, parse_injection


@pytest.mark.parametrize(
    ("name", "text", "value", "line"),
    [
        ("num_workers", "4", 4, "DataLoader(..., num_workers=4)"),
        ("num_workers", "0", 0, "DataLoader(..., num_workers=0)"),
        ("fused", "on", "on", "optimizer(..., fused=True)"),
        ("fused", "True", "on", "optimizer(..., fused=True)"),
        ("fused", "0", "off", "optimizer(..., fused=False)"),
        ("threads", " 2 ", 2, "torch.set_num_threads(2)"),
        ("matmul_precision", "high", "high", 'torch.set_float32_matmul_precision("high")'),
        (
            "autocast",
            "bfloat16",
            "bfloat16",
            "with torch.autocast(device_type, dtype=torch.bfloat16): ...",
        ),
        ("autocast", "off", "off", "torch.autocast(..., enabled=False)"),
        (
            "compile",
            "reduce-overhead",
            "reduce-overhead",
            'network = torch.compile(network, mode="reduce-overhead")',
        ),
        ("compile", "off", "off", "leave torch.compile out"),
        (
            "precision",
            "mixed_float16",
            "mixed_float16",
            'keras.config.set_dtype_policy("mixed_float16")',
        ),
    ],
)
def test_a_value_is_read_and_has_the_line_that_sets_it(name, text, value, line):
    assert parse_injection(name, text) == value
    assert INJECTIONS[name].advice(value) == line


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("num_workers", "-1", "set:num_workers takes a whole number from 0 on, not '-1'"),
        ("num_workers", "1.5", "set:num_workers takes a whole number from 0 on, not '1.5'"),
        ("num_workers", "٤", "set:num_workers takes a whole number from 0 on, not '٤'"),
        ("batch_size", "0", "set:batch_size takes a whole number from 1 on, not '0'"),
        (
            "batch_size",
            "9" * 20,
            f"set:batch_size takes a whole number from 1 on, not '{'9' * 20}'",
        ),
        ("fused", "maybe", "set:fused takes on, off, not 'maybe'"),
        ("compile", "", "set:compile takes off, default, reduce-overhead, max-autotune, not ''"),
        ("workers", "4", f"there is no set:workers; there are {', '.join(INJECTIONS)}"),
    ],
)
def test_another_value_is_refused_in_a_sentence(name, text, problem):
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        parse_injection(name, text)


@pytest.mark.parametrize("kind", INJECTIONS.values(), ids=list(INJECTIONS))
def test_every_value_of_an_injection_can_be_typed_and_advised(kind):
    assert kind.framework in (TORCH, KERAS)
    values = [*kind.words, *([] if kind.least is None else [kind.least])]
    assert values
    for value in values:
        assert parse_injection(kind.name, str(value)) == value
        line = kind.advice(value)
        assert "{" not in line
        if value != "off" or kind.line_if_off is None:
            ast.parse(line)


def test_what_alters_the_training_is_marked():
    altering = {name for name, kind in INJECTIONS.items() if kind.alters_training}
    assert altering == {"batch_size", "autocast", "matmul_precision", "precision"}
