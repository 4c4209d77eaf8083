"""Forward and backward pass without the weight update, for `--mode gradients`.

Keras trains with an optimizer that doesn't change the weights. Dropout and batch normalization
run as in training, so moving averages change.
"""

from __future__ import annotations

from typing import Any

import keras

from dlmon.instrument.profiles import PROFILERS


class NoUpdate(keras.Optimizer):  # type: ignore[misc]
    """Keeps the gradients of the newest batch instead of applying them.

    A graph compiler would drop the unused backward pass. As optimizer state, the gradients are
    results of the step: they must be computed, but aren't read or copied. PyTorch computes them
    anyway, and keeps them with the weights.
    """

    def __init__(self) -> None:
        super().__init__(learning_rate=0.0)
        self._gradients: list[Any] = []

    def build(self, variables: list[Any]) -> None:
        super().build(variables)
        if keras.backend.backend() != "torch":
            self._gradients = self.add_optimizer_variables(variables, "gradient")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if self._gradients:
            self.assign(self._gradients[self._get_variable_index(variable)], gradient)


def leave_out_update(model: Any) -> None:
    """Make `model.fit` compute the gradients of each batch, wait for them, and update nothing.

    The loss isn't scaled in half precision: only the update needs that.
    """
    model.optimizer = NoUpdate()
    make_train_function = model.make_train_function

    def make_waiting_train_function(force: bool = False) -> None:
        make_train_function(force=True)
        compute = model.train_function

        def compute_and_wait(*arguments: Any) -> Any:
            results = compute(*arguments)
            _wait(results)
            return results

        model.train_function = compute_and_wait

    model.make_train_function = make_waiting_train_function


def _wait(results: Any) -> None:
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        jax.block_until_ready(results)
    else:
        PROFILERS[backend].wait()
