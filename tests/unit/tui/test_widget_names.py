"""No widget of ours keeps its own value under a name that Textual keeps one under."""

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap

import pytest
from textual.message_pump import MessagePump

import tui

# Set on purpose: the screens' own compositor, and titles that repaint no more than they change.
ON_PURPOSE = {"_compositor", "_border_title", "_border_subtitle"}


def all_classes():
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name and issubclass(cls, MessagePump):
                yield cls


@functools.cache
def attributes_set_by(cls):
    """Return the names that the class's own code assigns on `self`."""
    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(cls))))
    return {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


@pytest.mark.parametrize("cls", sorted(all_classes(), key=lambda cls: cls.__qualname__))
def test_no_widget_of_ours_takes_a_private_name_of_textual(cls):
    theirs = {
        name
        for base in cls.__mro__
        if base.__module__.startswith("textual.")
        for name in attributes_set_by(base)
    }
    private = {name for name in attributes_set_by(cls) if name.startswith("_")}
    assert private & theirs <= ON_PURPOSE
