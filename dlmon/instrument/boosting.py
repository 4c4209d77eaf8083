"""Count the boosting rounds of XGBoost and LightGBM as steps of a loop without epochs.

`train` and `cv` get a callback of ours before the script's.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import ModuleType
from typing import Any

from dlmon.instrument.facts import device_of_boosting
from dlmon.instrument.loops import Steps
from dlmon.instrument.reporter import Reporter, guarded, hide_this_frame

_NO_EPOCHS = "rounds of boosting are not epochs"
_WHY = {
    "batch_size": "each round trains on all rows",
    "samples_per_epoch": _NO_EPOCHS,
    "steps_per_epoch": _NO_EPOCHS,
    "epochs": _NO_EPOCHS,
    "parameters": "trees grow with each round",
}


def watch_xgboost(module: ModuleType, reporter: Reporter) -> None:
    """Watch `train` and `cv`; `module` is xgboost.training."""
    base: Any = sys.modules["xgboost.callback"].TrainingCallback

    def callback_of(step_ended: Callable[..., None]) -> Any:
        class CountsRounds(base):  # type: ignore[misc]
            """Reports each round to dlmon."""

            def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
                step_ended(None, lambda: dict(_xgboost_metrics(evals_log)))
                return False

        return CountsRounds()

    for name in ("train", "cv"):
        setattr(module, name, _counting(getattr(module, name), "xgboost", callback_of, reporter))


def watch_lightgbm(module: ModuleType, reporter: Reporter) -> None:
    """Watch `train` and `cv`; `module` is lightgbm.engine."""

    def callback_of(step_ended: Callable[..., None]) -> Any:
        def count(environment: Any) -> None:
            """Report a round to dlmon."""
            step_ended(None, lambda: dict(_lightgbm_metrics(environment.evaluation_result_list)))

        # Before the callback for early stopping, which raises.
        count.order = 0  # type: ignore[attr-defined]
        return count

    for name in ("train", "cv"):
        setattr(module, name, _counting(getattr(module, name), "lightgbm", callback_of, reporter))


def _counting(
    function: Callable[..., Any],
    package: str,
    callback_of: Callable[[Callable[..., None]], Any],
    reporter: Reporter,
) -> Callable[..., Any]:
    """Return `train` or `cv` with one more callback."""
    signature = inspect.signature(function)

    @guarded(reporter)
    def begin(arguments: tuple[Any, ...], named: dict[str, Any]) -> Steps | None:
        """Add our callback to `named`, and return the loop; None if that is impossible."""
        # XGBoost accepts its keyword-only parameters by position too, so `bind` can't be used.
        values = {**dict(zip(signature.parameters, arguments, strict=False)), **named}
        callbacks = values.get("callbacks")
        by_position = "callbacks" in values and "callbacks" not in named
        if by_position or (callbacks is not None and not isinstance(callbacks, Iterable)):
            return None
        if not values.keys() <= signature.parameters.keys():
            # The package raises the error itself.
            return None
        if reporter.owner == package or not reporter.take(package):
            return None
        default = signature.parameters["num_boost_round"].default
        steps, parameters = values.get("num_boost_round", default), values.get("params")
        device = dict(device_of_boosting(parameters if isinstance(parameters, Mapping) else {}))
        rounds = Steps(reporter)
        is_on = rounds.begin(
            package,
            getattr(sys.modules.get(package), "__version__", None),
            steps=steps if isinstance(steps, int) and steps > 0 else None,
            has_epochs=False,
            why={**_WHY, **device.pop("why", {})},
            **device,
        )
        if not is_on:
            return None
        rounds.begin_epoch()

        def step_ended(samples: int | None, metrics: Callable[[], Mapping[str, Any]]) -> None:
            rounds.last_metrics = metrics
            rounds.step(samples, metrics)

        named["callbacks"] = [callback_of(guarded(reporter)(step_ended)), *(callbacks or ())]
        return rounds

    @wraps(function)
    def train(*arguments: Any, **named: Any) -> Any:
        rounds = begin(arguments, named) if reporter.is_on else None
        try:
            return function(*arguments, **named)
        except BaseException as error:
            hide_this_frame(error)
            raise
        finally:
            if rounds is not None:
                guarded(reporter)(rounds.end)()

    return train


def _xgboost_metrics(evals_log: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the metrics of the last round, by the names that XGBoost prints."""
    for data, metrics in evals_log.items():
        for name, values in metrics.items():
            last = values[-1]
            yield f"{data}-{name}", last[0] if isinstance(last, tuple) else last


def _lightgbm_metrics(results: Any) -> Iterator[tuple[str, Any]]:
    for data, name, value, *_ in results or ():
        yield f"{data} {name}", value
