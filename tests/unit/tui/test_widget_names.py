"""What Textual keeps private: no widget of ours uses it, but for one file, nor names it again."""

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
from pathlib import Path

import pytest
from textual.message_pump import MessagePump

import tui

INTERNALS = "textual_internals.py"


def all_classes():
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            ours = cls.__module__ == module.name and Path(inspect.getfile(cls)).name != INTERNALS
            if ours and issubclass(cls, MessagePump):
                yield cls


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(node, *kinds):
    """Return the private attributes that a piece of code uses: sets, reads or deletes."""
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, kinds or ast.expr_context)
        and is_private(inner.attr)
    }


def methods(tree):
    """Return the private functions that a piece of code defines."""
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_private(node.name)
    }


@functools.cache
def parsed(cls):
    return ast.parse(textwrap.dedent(inspect.getsource(cls)))


@functools.cache
def private_to(cls):
    """Return the private names that a class of Textual sets on itself, or defines."""
    return private_names(parsed(cls), ast.Store) | methods(parsed(cls))


@pytest.mark.slow
def test_no_widget_of_ours_takes_a_private_name_of_textual():
    for cls in all_classes():
        bases = [base for base in cls.__mro__ if base.__module__.startswith("textual.")]
        ours = private_names(parsed(cls)) | methods(parsed(cls))
        assert not ours & {name for base in bases for name in private_to(base)}, cls
