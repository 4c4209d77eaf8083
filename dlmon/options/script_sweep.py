"""Turn the arguments of `sweep` or `ab` for a person's script into a plan, and a plan into jobs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from dlmon.alerts.alert_settings import AlertSettings
from dlmon.alerts.dispatch import settings_of_runs
from dlmon.log.folder import id_of, log_directory_of
from dlmon.log.label import read_label
from dlmon.options.jobs import make_script_job
from dlmon.options.run_options import RunOptions, known_options
from dlmon.options.script import SCRIPT_OPTIONS
from dlmon.protocol.job import Job
from dlmon.records import PairRule, Status, SweptScript, Value, Variation
from dlmon.records.injections import parse_injection
from dlmon.records.sanitize import SHOWN_LENGTH, clean, quoted
from dlmon.remote.host_names import HostError, hosts_from
from dlmon.script_name import missing_command, script_name
from dlmon.sweep.batch_search import AUTO, FIRST_SIZE
from dlmon.sweep.commit_trees import (
    commit_of,
    has_uncommitted_changes,
    leftover_trees,
    linked_paths,
    make_trees,
    remove_trees,
    repository_of,
)
from dlmon.sweep.log import list_sweeps
from dlmon.sweep.pairs import MOST_PAIRS, least_seconds
from dlmon.sweep.plan import (
    HOST,
    Combination,
    Plan,
    SweepError,
    check_number_of_runs,
    combinations_of,
    fair_order,
)
from dlmon.sweep.variants import AS_IT_IS, AS_IT_LIES, COMMIT, PYTHON, check_keys, varied_job

_KEY = re.compile(r"(?:env:|set:)?[A-Za-z_]\w*")
_BATCH_KEYS = ("set:batch_size", "batch_size")
_METRIC = "ms_per_sample"
_ENDED = (Status.COMPLETED, Status.STOPPED, Status.INTERRUPTED)


def make_script_plan(
    command: Sequence[str],
    directory: str | None,
    options: RunOptions,
    vary: Sequence[str],
    repeats: int,
    seed: int,
    groups: Mapping[str, Sequence[str]] | None = None,
    pairs: PairRule | None = None,
    links: Sequence[str] = (),
    search_window_s: float = 0.0,
    expected: Mapping[str, int | None] | None = None,
) -> Plan:
    """Return the plan of a sweep of a script, or of an experiment of pairs.

    Args:
        command: its words, with a {name} for each value that varies there.
        directory: its working directory; None for the current one.
        options: the options of all runs, of which `SCRIPT_OPTIONS` matter.
        vary: the values of `--vary`, each KEY=A,B,...
        repeats: the number of runs of each combination, without `pairs`.
        seed: the seed for the order of runs.
        groups: the groups of hosts in the settings.
        pairs: the rule that ends an experiment of pairs.
        links: what git ignores and each copy of a commit needs.
        search_window_s: the steady training after which each run of a search is ended.
        expected: the user's data on the training, as for `make_script_job`.

    Raises:
        SweepError: the arguments are wrong.
    """
    variations = tuple(_variation(text, groups or {}) for text in vary)
    check_keys_differ(variations)
    keys = [variation.key for variation in variations]
    is_here = options.host is None and HOST not in keys
    if is_here:
        try:
            folder = Path(directory or ".").absolute()
        except FileNotFoundError:
            raise SweepError("the working directory is gone: change to another one") from None
        missing = None if PYTHON in keys else missing_command(command[0], folder)
        if missing is not None:
            raise SweepError(missing)
        directory = str(folder)
    check_keys(command, keys)
    repository, hashes = None, dict[str, str]()
    commits = next((variation.values for variation in variations if variation.key == COMMIT), ())
    if commits:
        if not is_here:
            raise SweepError("commits are compared on this machine: leave out --host")
        repository = repository_of(Path(directory or "."))
        hashes = {f"{n}": commit_of(repository, f"{n}") for n in commits if n != AS_IT_LIES}
        links = linked_paths(repository, links)
    elif links:
        raise SweepError("--link is for copies of commits, and no commits are compared")
    if pairs is not None:
        _check_pairs(pairs, variations)
        repeats = MOST_PAIRS + 1
    elif not variations and repeats == 1:
        raise SweepError(
            "there is nothing to sweep: say what to vary, such as --vary workers=0,4 for a "
            "{workers} in the command, or use dlmon exec"
        )
    is_search = any(v.values == (AUTO,) and v.key in _BATCH_KEYS for v in variations)
    if is_search:
        if len(variations) > 1 or repeats > 1:
            raise SweepError(f"--vary {keys[0]}={AUTO} searches alone, with one run of each size")
        variations = (Variation(keys[0], (FIRST_SIZE,)),)
    name = script_name(tuple(command))
    check_number_of_runs((name,), variations, repeats)
    return Plan(
        workloads=(name,),
        variations=variations,
        options={key: getattr(options, key) for key in SCRIPT_OPTIONS},
        metrics={name: _METRIC},
        repeats=repeats,
        order=fair_order(combinations_of((name,), variations), repeats, seed),
        script=SweptScript(
            command=tuple(command),
            directory=directory,
            commit_folder=None if repository is None else str(repository),
            commits=hashes,
            links=tuple(links),
            expected={key: value for key, value in (expected or {}).items() if value is not None},
        ),
        pairs=pairs,
        search_window_s=search_window_s if is_search else None,
    )


def _check_pairs(pairs: PairRule, variations: Sequence[Variation]) -> None:
    """Check the two sides of an experiment of pairs, and its time.

    Raises:
        SweepError: they are wrong.
    """
    if len(variations) != 1 or len(variations[0].values) != 2:
        raise SweepError(
            "two sides are compared in pairs: name two commits, or one --vary KEY=A,B; "
            "dlmon sweep takes more"
        )
    if variations[0].key == HOST:
        raise SweepError("both runs of a pair are made on one machine: vary host in a sweep")
    least_s = least_seconds(pairs)
    if pairs.for_s < least_s:
        raise SweepError(
            f"--for is too short for a pair: the first run of each side and a pair take more "
            f"than {least_s:.0f}s, four times --window"
        )


def _variation(text: str, groups: Mapping[str, Sequence[str]]) -> Variation:
    """Read a value of `--vary`, such as workers=0,4.

    Raises:
        SweepError: the form or a value is wrong.
    """
    key, equals, typed = text.partition("=")
    key = key.strip()
    if not equals or not _KEY.fullmatch(key):
        raise SweepError(f"--vary takes KEY=A,B,... such as workers=0,4, not {quoted(text)}")
    return read_variation(key, typed, groups, partial(_value, key))


def read_variation(
    key: str, typed: str, groups: Mapping[str, Sequence[str]], read: Callable[[str], Value]
) -> Variation:
    """Return the values that are typed after a key, each as it is read; of a group, its hosts.

    Raises:
        SweepError: a value is empty or there twice, or a group or a host is wrong.
    """
    texts = typed.split(",")
    if not all(map(str.strip, texts)):
        shown = f"--vary {key}={clean(typed, SHOWN_LENGTH)}"
        raise SweepError(f"{shown} has an empty value: write {key}=A,B")
    try:
        texts = hosts_from(texts, groups) if key == HOST else texts
    except HostError as error:
        raise SweepError(str(error)) from None
    values = tuple(map(read, texts))
    for value, times in Counter(map(str, values)).items():
        if times > 1:
            raise SweepError(f"--vary {key} names {clean(value, SHOWN_LENGTH)} twice")
    return Variation(key, values)


def check_keys_differ(variations: Iterable[Variation]) -> None:
    """Raise a SweepError if two variations have the same key."""
    for key, times in Counter(variation.key for variation in variations).items():
        if times > 1:
            raise SweepError(f"--vary names {key} twice: write all its values after one {key}=")


def _value(key: str, text: str) -> Value:
    """Return a value of `--vary`: a number only if it is written again as it was typed.

    Raises:
        SweepError: an injection is unknown or can't have this value.
    """
    if key.startswith("set:"):
        if text == AS_IT_IS or (text == AUTO and key in _BATCH_KEYS):
            return text
        try:
            return parse_injection(key.removeprefix("set:"), text)
        except ValueError as error:
            raise SweepError(str(error)) from None
    for kind in (int, float):
        try:
            value: Value = kind(text)
        except ValueError:
            continue
        if f"{value}" == text:
            return value
    return text


def check_script_plan(plan: Plan) -> bool:
    """Return whether this version knows the options of a plan from a file."""
    return all(
        name in SCRIPT_OPTIONS and known_options({name: value})
        for name, value in plan.options.items()
        if value is not None
    )


class ScriptJobs:
    """Makes the jobs of a script's combinations, and the copies of the commits that they need.

    Args:
        plan: the plan, which has a script.
        sweep: the path of the sweep's log; the copies lie beside it.
        alerts: the settings for alerts.
    """

    def __init__(self, plan: Plan, sweep: Path, alerts: AlertSettings | None) -> None:
        assert plan.script is not None
        self._plan, self._script, self._sweep = plan, plan.script, sweep
        self._alerts = None if alerts is None else settings_of_runs(alerts)
        self._trees: dict[str, Path] = {}

    def __call__(self, combination: Combination) -> Job:
        """Return the job of a combination's runs, which have the name of the sweep."""
        values = {**self._plan.options, HOST: self._plan.options.get(HOST)}
        if HOST in combination.varied:
            values[HOST] = combination.varied[HOST]
        known: dict[str, Any] = known_options(values)
        options = replace(RunOptions(**known), name=read_label(self._sweep).name)
        directory, script = log_directory_of(self._sweep), self._script
        job = make_script_job(
            script.command, script.directory, directory, options, script.expected, self._alerts
        )
        job = replace(job, sweep=id_of(self._sweep))
        return varied_job(job, combination.varied, script.commit_folder, self._trees)

    @property
    def copies(self) -> tuple[Callable[[], str | None], Callable[[], None]] | None:
        """What makes the copies of commits and what removes them; None if there are no commits."""
        if self._script.commit_folder is None:
            return None
        return self._make_copies, partial(self._remove_copies, Path(self._script.commit_folder))

    def _make_copies(self) -> str | None:
        """Make the copies; return a note if changes that are not committed are in none."""
        repository = Path(self._script.commit_folder or "")
        # Processes that were killed left their copies. Those of another host may be in use.
        ended = (e for e in list_sweeps(log_directory_of(self._sweep)) if e.status in _ENDED)
        for folder in (self._sweep.parent, *(entry.path.parent for entry in ended)):
            remove_trees(repository, leftover_trees(folder))
        script = self._script
        self._trees = make_trees(repository, self._sweep.parent, script.commits, script.links)
        has_both = len(self._plan.combinations) == len(script.commits)
        if has_both and "HEAD" in script.commits and has_uncommitted_changes(repository):
            return "HEAD is without your changes that are not committed: . stands for your files"
        return None

    def _remove_copies(self, repository: Path) -> None:
        remove_trees(repository, self._trees)
