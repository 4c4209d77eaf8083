"""Forward and backward pass without the weight update: what `--mode gradients` times.

Keras trains as always, with an optimizer that leaves the weights as they are. Dropout and
batch normalization do what they do in training, so the latter's moving averages move.
"""

from __future__ import annotations

from typing import Any

import keras

from dlmon.instrument.profiles import PROFILERS


class NoUpdate(keras.Optimizer):  # type: ignore[misc]
    """Keep the gradients of the newest batch in place of applying them.

    A graph compiler leaves out what nothing uses, and that would be the whole backward pass.
    As an optimizer's state the gradients are results of the step: they have to be computed,
    and are handed over without being read or copied. PyTorch computes them anyway, and keeps
    them beside the weights.
    """

    def __init__(self) -> None:
        super().__init__(learning_rate=0.0)
        self._kept: list[Any] = []

    def build(self, variables: list[Any]) -> None:
        """Make room for the gradient of each weight that is trained."""
        super().build(variables)
        if keras.backend.backend() != "torch":
            self._kept = self.add_optimizer_variables(variables, "gradient")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if self._kept:
            self.assign(self._kept[self._get_variable_index(variable)], gradient)


def leave_out_update(model: Any) -> None:
    """Have `model.fit` compute the gradients of each batch, wait for them, and update nothing.

    In half precision the loss is not scaled: that serves the update, which is what undoes it.
    """
    model.optimizer = NoUpdate()
    make = model.make_train_function

    def make_one_that_waits(force: bool = False) -> None:
        """Make the step where Keras does, which knows all that is in it by then."""
        make(force=True)
        compute = model.train_function

        def compute_and_wait(*arguments: Any) -> Any:
            results = compute(*arguments)
            _wait(results)
            return results

        model.train_function = compute_and_wait

    model.make_train_function = make_one_that_waits


def _wait(results: Any) -> None:
    """Wait until the device has computed a step's results."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        jax.block_until_ready(results)
    else:
        PROFILERS[backend].wait()
