"""The keys of all screens: a letter means the same wherever it is pressed."""

import importlib
import inspect
import pkgutil
import string
from collections import defaultdict

from fakes.states import on_stage
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

import tui
from tui.app import DlmonApp
from tui.palette import commands_of
from tui.screens.key_groups import GROUPS

# What an action means to whoever presses its key. An action without a meaning of its own here
# means what its name says: two of those on one key are two meanings.
MEANINGS = {
    "leave": "back",
    "back": "back",
    "close": "back",
    "cancel": "back",
    "answer('stay')": "back",
    "quit": "back",
    "app.quit": "back",
    "answer('leave')": "detach",
    "answer('stop')": "stop",
    "answer('again')": "again",
    "keep": "rename",
    "stop_and_again": "again",
    "close_log": "log",
    "app.watch": "nodes",
    "edit_script": "script",
    "copy_command": "copy",
    "sessions": "app.sessions",
    "scroll(1)": "down",
    "scroll(-1)": "up",
    "move(1)": "down",
    "move(-1)": "up",
}
# These close what they open.
TOGGLES = {
    ("GpusScreen", "g"): "gpus",
    ("ProcessesScreen", "p"): "processes",
    ("HelpScreen", "question_mark"): "app.help",
    ("HelpScreen", "f1"): "app.help",
    ("ComparisonScreen", "c"): "compare",
    ("MetricsScreen", "m"): "metrics",
}
# A recording is gone through with n and N: the next mark and the previous one. Nothing is asked
# there that n could answer.
REPLAYED = {
    ("ReplayScreen", "n"): "back",
    ("HostReplayScreen", "n"): "back",
    ("HostReplayScreen", "N"): "next_match(-1)",
    # In a log that is searched, it is the next match.
    ("LiveScreen", "n"): "back",
    ("ReplayScreen", "N"): "next_match(-1)",
}
# In a question that has letters for its answers, those are of the answers.
EXPORTED = {
    ("ExportScreen", "p"): "processes",
    ("ExportScreen", "h"): "app.hosts",
    ("ExportScreen", "m"): "metrics",
    ("SweepStopScreen", "m"): "metrics",
    ("SweepGoOnScreen", "m"): "metrics",
    ("ExportScreen", "e"): "export",
    ("SweepStopScreen", "e"): "export",
    ("PairStopScreen", "e"): "export",
}
# Where there is no table to sort, it is the output that o stands for.
WITHOUT_TABLES = {("LiveScreen", "o"): "sort(1)", ("ReplayScreen", "o"): "sort(1)"}
# Nor is the process that gets a signal what its letters are of elsewhere.
SIGNALLED = {
    ("SignalScreen", "t"): "app.change_theme",
    ("SignalScreen", "i"): "reverse_order",
    ("SignalScreen", "k"): "up",
    ("SignalScreen", "K"): "signal",
    ("SignalScreen", "s"): "stop",
    ("SignalScreen", "c"): "compare",
}
# A list of processes has the keys that people know from top, htop and btop.
AS_IN_TOP = {
    ("ProcessesScreen", "t"): "app.change_theme",
    ("ProcessesScreen", "k"): "up",
    ("ProcessesScreen", "M"): "nodes",
    ("ProcessesScreen", "N"): "next_match(-1)",
    ("ProcessesScreen", "P"): "profile",
}
# Where nothing is deleted or typed, and no GPU is opened, x, y, b and g are of the charts.
CHARTED = {
    ("MetricsScreen", "x"): "delete",
    ("MetricsScreen", "y"): "fit_axis",
    ("MetricsScreen", "b"): "type",
    ("MetricsScreen", "g"): "gpus",
}
YES = {("DeleteScreen", "y"), ("ResumeScreen", "y")}
# In a question about a run, whoever presses these once more wants out all the same.
LEAVING = ("ctrl+c", "ctrl+q")


def nodes():
    """Return every class of the screens and widgets, and the app, that binds keys."""
    found = {DlmonApp}
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        members = vars(importlib.import_module(module.name))
        found |= {
            value
            for value in members.values()
            if inspect.isclass(value)
            and issubclass(value, DOMNode)
            and value.__module__.startswith("tui.")
            and "BINDINGS" in vars(value)
        }
    return found


def bound():
    """Yield (class, key, binding) of every binding of ours, inherited ones too."""
    for node in nodes():
        for base in node.__mro__:
            if base.__module__.startswith("tui."):
                for binding in Binding.make_bindings(vars(base).get("BINDINGS", ())):
                    yield node.__name__, binding.key, binding


def is_letter(key):
    """Return whether a key is a letter, alone or with Ctrl, or F1 to F12."""
    last = key.removeprefix("ctrl+")
    return last in string.ascii_letters or (key[0] == "f" and key[1:].isdigit())


def test_every_screen_is_looked_at():
    screens = {node.__name__ for node in nodes() if issubclass(node, Screen)}
    expected = {"LiveScreen", "HomeScreen", "ExperimentScreen", "ProcessesScreen", "StopScreen"}
    assert expected <= screens
    assert len(screens) >= 15


def test_a_letter_means_the_same_on_every_screen_and_in_every_question():
    meanings = defaultdict(lambda: defaultdict(set))
    for node, key, binding in bound():
        # y is yes in a question, whatever it is about.
        if is_letter(key) and key not in LEAVING and (node, key) not in YES:
            exceptions = TOGGLES | REPLAYED | EXPORTED | SIGNALLED | WITHOUT_TABLES | CHARTED
            meaning = (exceptions | AS_IN_TOP).get((node, key)) or MEANINGS.get(
                binding.action, binding.action
            )
            meanings[key][meaning].add(node)
    several = {key: dict(meaning) for key, meaning in meanings.items() if len(meaning) > 1}
    assert several == {}


def test_no_letter_stops_a_run_without_a_question():
    stopping = {
        node
        for node, key, binding in bound()
        if is_letter(key) and binding.action in ("answer('stop')", "answer('again')")
    }
    assert stopping == {
        *("QuitScreen", "StopScreen", "AgainScreen", "OutOfQueueScreen"),
        "SweepStopScreen",
        "PairStopScreen",
        "SweepGoOnScreen",
        "TryStopScreen",
        # Its jobs go on either way.
        "SweepLeaveScreen",
    }


def test_what_is_grouped_in_the_help_or_explained_is_bound():
    actions = {binding.action.partition("(")[0] for _, _, binding in bound()}
    assert {action for names in GROUPS.values() for action in names.split()} <= actions
    explained = {action for node in nodes() for action in getattr(node, "WHY_NOT", ())}
    assert explained <= actions


async def test_the_palette_begins_with_nothing_that_stops_or_leaves():
    for view in ("live", "home", "watch", "sessions"):
        async with on_stage("training", view) as stage:
            first = next(iter(commands_of(stage.app, stage.app.screen)))
            assert first.name not in ("Stop", "Detach", "Again", "Quit", "Back", "Run", "Delete")


async def test_the_palette_has_the_common_first_and_panels_behind_and_no_sentence_is_cut():
    async with on_stage("training", "palette", (80, 24)) as stage:
        commands = [*commands_of(stage.app, stage.app.screen_stack[-2])]
        names = [command.name for command in commands]
        assert names[:3] == ["Log", "Metrics", "Compare"]
        assert names.index("Zoom out") < names.index("Hide throughput") < names.index("Stop")
        assert not {"f4", "f5"} & {key for each in commands for key in each.keys.split()}
        rows = [row for row in stage.text.splitlines() if row.startswith("  ")]
        assert len(rows) > 10
        assert not any("…" in row for row in rows if "Search" not in row)
