"""Count the rounds of XGBoost and LightGBM: each is a step of a loop without epochs.

`train` and `cv` get one more callback, the first; those of a script stay as they are.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import ModuleType
from typing import Any

from dlmon.instrument.around import hide_this_frame, where_a_monitor_listens
from dlmon.instrument.devices import device_of_boosting
from dlmon.instrument.queued import EpochStart, MeasuredBatch
from dlmon.instrument.reporter import Reporter, guarded

_NO_EPOCHS = "rounds of boosting are not epochs"
_WHY = {
    "batch_size": "each round trains on all rows",
    "samples_per_epoch": _NO_EPOCHS,
    "steps_per_epoch": _NO_EPOCHS,
    "epochs": _NO_EPOCHS,
    "parameters": "trees grow with each round",
}


class Rounds:
    """The rounds of one call of `train` or `cv`.

    Args:
        package: xgboost or lightgbm.
        rounds: how many it was asked for.
        parameters: what it was given as its parameters.
        reporter: the one of this process.
        clock: CLOCK_MONOTONIC in nanoseconds.
    """

    def __init__(
        self,
        package: str,
        rounds: Any,
        parameters: Any,
        reporter: Reporter,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._package, self._reporter, self._clock = package, reporter, clock
        self._rounds = rounds if isinstance(rounds, int) and rounds > 0 else None
        self._parameters = parameters if isinstance(parameters, Mapping) else {}
        self._is_on = False
        self._ended = 0

    def begin(self) -> None:
        """Begin the loop, unless something else reports."""
        version = getattr(sys.modules.get(self._package), "__version__", None)
        reporter = self._reporter
        if reporter.is_of(self._package) or not reporter.take(self._package):
            return
        self._is_on = reporter.start(self._package, version)
        device = dict(device_of_boosting(self._parameters))
        why = {**_WHY, **device.pop("why", {})}
        reporter.begin_loop(steps=self._rounds, has_epochs=False, why=why, **device)
        now = self._clock()
        reporter.enter("compiling", now)
        reporter.send(EpochStart(reporter.next_epoch(), now))

    def ended(self, metrics: Callable[[], Iterator[tuple[str, Any]]]) -> None:
        """Count a round that has ended; its metrics are looked at about once a second."""
        if not self._is_on:
            return
        now = self._clock()
        self._reporter.batch_ended(MeasuredBatch(self._ended, now))
        self._ended += 1
        if self._reporter.reads.is_due:
            self._reporter.send_metrics(now, dict(metrics()))

    def end(self) -> None:
        """End the loop, whether it was left by an exception or not."""
        if self._is_on:
            self._is_on = False
            self._reporter.end_loop()
            self._reporter.let_go(self._package)


@where_a_monitor_listens
def watch_xgboost(module: ModuleType, reporter: Reporter) -> None:
    """Watch `train` and `cv`; `module` is xgboost.training."""
    base: Any = sys.modules["xgboost.callback"].TrainingCallback

    def callback_of(rounds: Rounds) -> Any:
        ended = guarded(reporter)(rounds.ended)

        class CountsRounds(base):  # type: ignore[misc]
            """Reports to dlmon each round that has ended."""

            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                ended(lambda: _of_xgboost(evals_log))
                return False

        return CountsRounds()

    for name in ("train", "cv"):
        setattr(module, name, _counting(getattr(module, name), "xgboost", callback_of, reporter))


@where_a_monitor_listens
def watch_lightgbm(module: ModuleType, reporter: Reporter) -> None:
    """Watch `train` and `cv`; `module` is lightgbm.engine."""

    def callback_of(rounds: Rounds) -> Any:
        ended = guarded(reporter)(rounds.ended)

        def count(environment: Any) -> None:
            """Report to dlmon a round that has ended."""
            ended(lambda: _of_lightgbm(environment.evaluation_result_list))

        # Before what stops early, which raises.
        count.order = 0  # type: ignore[attr-defined]
        return count

    for name in ("train", "cv"):
        setattr(module, name, _counting(getattr(module, name), "lightgbm", callback_of, reporter))


def _counting(
    following: Callable[..., Any],
    package: str,
    callback_of: Callable[[Rounds], Any],
    reporter: Reporter,
) -> Callable[..., Any]:
    """Return `train` or `cv` with a callback more."""
    signature = inspect.signature(following)

    @guarded(reporter)
    def begin(arguments: tuple[Any, ...], named: dict[str, Any]) -> Rounds | None:
        """Begin to count, by one callback more in `named`; None where that cannot be."""
        # By the names alone: XGBoost also takes by place what its signature has by name only.
        given = {**dict(zip(signature.parameters, arguments, strict=False)), **named}
        callbacks = given.get("callbacks")
        by_place = "callbacks" in given and "callbacks" not in named
        if by_place or (callbacks is not None and not isinstance(callbacks, Iterable)):
            return None
        if not given.keys() <= signature.parameters.keys():
            # The package says itself what is wrong.
            return None
        default = signature.parameters["num_boost_round"].default
        asked = given.get("num_boost_round", default)
        rounds = Rounds(package, asked, given.get("params"), reporter)
        named["callbacks"] = [callback_of(rounds), *(callbacks or ())]
        rounds.begin()
        return rounds

    @wraps(following)
    def train(*arguments: Any, **named: Any) -> Any:
        rounds = begin(arguments, named) if reporter.is_on else None
        try:
            return following(*arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            if rounds is not None:
                guarded(reporter)(rounds.end)()

    return train


def _of_xgboost(evals_log: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield what was measured in the last round, by the names that XGBoost prints."""
    for data, metrics in evals_log.items():
        for name, values in metrics.items():
            last = values[-1]
            yield f"{data}-{name}", last[0] if isinstance(last, tuple) else last


def _of_lightgbm(results: Any) -> Iterator[tuple[str, Any]]:
    for data, name, value, *_ in results or ():
        yield f"{data} {name}", value
