"""Set autocast and compilation around the networks of PyTorch that train.

They begin with the second step: the first one shows which networks the script calls.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from typing import Any

from dlmon.instrument.injections import Arguments, Changed, Injections, replace_arguments
from dlmon.instrument.outermost import networks_of, trains, weights_of
from dlmon.instrument.pytorch import steps_of
from dlmon.instrument.reporter import hide_this_frame, uncompiled
from dlmon.records.injections import OFF

AUTOCAST, COMPILE = "autocast", "compile"
NO_NETWORK = "no network was called in training"
NO_SCALER = "float16 takes a GradScaler, and the script has none"
NOT_COMPILED = "PyTorch could not compile the network"
# The call after the step that showed the network is compiled; a step may have two optimizers.
_STEPS_TO_COMPILE = 3


class NetworkInjections:
    """Sets autocast and compilation."""

    def __init__(self, torch: Any, injections: Injections) -> None:
        self._torch, self._injections = torch, injections
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._scalers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._add: list[Callable[[Any], None]] = []
        self._script_compiles = self._compiles_now = False
        self._steps = self._compiled_at = 0
        self._networks: dict[int, tuple[Callable[[], Any], str]] = {}
        self._proven: set[int] = set()
        self._kinds: set[type] = set()

    def __reduce__(self) -> Any:
        # A copy of a network's class in another process gets None in its place.
        return type(None), ()

    # Which networks train.

    def _add_networks_by(self, add: Callable[[Any], None]) -> None:
        """Call a function with each network after its optimizer's first step."""
        if not self._add:
            optimizers: Any = sys.modules["torch.optim.optimizer"]
            optimizers.register_optimizer_step_post_hook(self._optimizer_stepped)
        self._add.append(add)

    @uncompiled
    def _optimizer_stepped(self, optimizer: Any, arguments: Any, named: Any) -> None:
        self._steps += 1
        if self._steps == self._compiled_at + _STEPS_TO_COMPILE:
            self._injections.report()
        if optimizer in self._stepped:
            return
        self._stepped.add(optimizer)
        try:
            weights = weights_of(optimizer)
            first = steps_of(self._injections.reporter).outermost.first
            called = [module for module in first.training() if trains(module, weights)]
            for network in called or networks_of(weights):
                for add in self._add:
                    add(network)
        except Exception as error:  # noqa: BLE001 - whatever it is, the script goes on
            self._injections.refused((AUTOCAST, COMPILE), error)

    # Compilation.

    def install_compile(self) -> None:
        """Replace the mode of torch.compile, or compile the networks if the script does not."""
        if self._injections.value(COMPILE) == OFF:
            nothing = "the script compiles nothing"
            self._injections.expect((COMPILE,), nothing, is_as_asked=True)
        else:
            self._add_networks_by(self._compile)
        change = self._change_compile
        replace_arguments(self._torch, "compile", self._injections, (COMPILE,), change)

    def _change_compile(self, given: Arguments) -> Changed:
        value = self._injections.value(COMPILE)
        if self._compiles_now or value is None:
            return {}, {}
        self._script_compiles = True
        if value == OFF:
            stances: Any = getattr(self._torch.compiler, "set_stance", None)
            if stances is None:
                return {"disable": True}, {COMPILE: None}
            # A compiled network keeps its attributes and the names of its weights.
            stances("force_eager")
            self._injections.applied(COMPILE)
            return {}, {}
        if given.get("backend") not in (None, "inductor"):
            self._injections.refused((COMPILE,), "the script compiles by a backend without modes")
            return {}, {}
        others = {"options": None} if given.get("options") else {}
        return {**others, "mode": value}, {COMPILE: None}

    def _compile(self, network: Any) -> None:
        value = self._injections.value(COMPILE)
        if value is None or self._script_compiles:
            return
        weight = next(network.parameters())
        if weight.device.type == "cpu":
            # It raises an error if there is none.
            import_module("torch._inductor.cpp_builder").get_cpp_compiler()
        elif not import_module("torch.utils._triton").has_triton():
            self._injections.refused((COMPILE,), "Triton, which compiles for a GPU, is missing")
            return
        self._compiles_now = True
        try:
            following = network._call_impl

            # `network.compile` compiles nothing of a network of PyTorch's own modules alone.
            def call(*arguments: Any, **named: Any) -> Any:
                return following(*arguments, **named)

            network._compiled_call_impl = self._torch.compile(call, mode=value)
            # What PyTorch can't compile of the forward pass runs uncompiled.
            sys.modules["torch._dynamo"].config.suppress_errors = True
            self._compiled_at = self._steps
            self._injections.applied(COMPILE, self._check_compiled)
        finally:
            self._compiles_now = False

    def _check_compiled(self) -> str | None:
        frames = sys.modules["torch._dynamo.utils"].counters["frames"]
        is_late = self._steps >= self._compiled_at + _STEPS_TO_COMPILE
        return NOT_COMPILED if is_late and not frames.get("ok") else None

    # Autocast.

    def install_autocast(self) -> None:
        """Replace the type of each autocast, and put one around the networks without."""
        amp = self._torch.amp
        if self._injections.value(AUTOCAST) == OFF:
            nothing = "the script uses no autocast"
            self._injections.expect((AUTOCAST,), nothing, is_as_asked=True)
        else:
            self._add_networks_by(self._add_autocast)
        replace_arguments(
            amp.GradScaler, "__init__", self._injections, (AUTOCAST,), self._scaler_made
        )
        following = amp.autocast.__init__

        # A script makes one for each step.
        @wraps(following)
        def __init__(
            context: Any,
            device_type: Any,
            dtype: Any = None,
            enabled: bool = True,
            cache_enabled: bool | None = None,
        ) -> None:
            if enabled and self._may_autocast():
                value = self._injections.value(AUTOCAST)
                enabled = value != OFF
                dtype = getattr(self._torch, value) if enabled else dtype
                self._injections.applied(AUTOCAST)
            following(context, device_type, dtype, enabled, cache_enabled)

        amp.autocast.__init__ = __init__

    def _scaler_made(self, given: Arguments) -> Changed:
        self._scalers.add(given["self"])
        return {}, {}

    def _may_autocast(self) -> bool:
        value = self._injections.value(AUTOCAST)
        if value == "float16" and not any(scaler.is_enabled() for scaler in self._scalers):
            self._injections.refused((AUTOCAST,), NO_SCALER)
            return False
        return value is not None

    def _add_autocast(self, network: Any) -> None:
        if not self._may_autocast():
            return
        weights = [weight for weight in network.parameters() if weight.is_floating_point()]
        if not weights or weights[0].dtype != self._torch.float32:
            self._injections.refused((AUTOCAST,), "the weights of the network are not in float32")
            return
        number = id(network)
        forget = partial(self._networks.pop, number, None)
        self._networks[number] = weakref.ref(network, lambda _: forget()), weights[0].device.type
        if type(network) not in self._kinds:
            self._kinds.add(type(network))
            _wrap_call(type(network), self, self._torch.compiler.is_compiling)

    def call(self, network: Any, following: Any, arguments: Any, named: Any) -> Any:
        """Call a network of a wrapped class, with autocast if it trains."""
        reference, device_type = self._networks.get(id(network), (None, ""))
        is_training = network.training and self._torch.is_grad_enabled()
        if reference is None or reference() is not network or not is_training:
            return following(network, *arguments, **named)
        if self._torch.is_autocast_enabled(device_type):
            return following(network, *arguments, **named)
        try:
            with self._torch.autocast(device_type):
                output = following(network, *arguments, **named)
        except Exception as error:
            if id(network) in self._proven:
                raise
            del self._networks[id(network)]
            self._injections.refused((AUTOCAST,), error)
            return following(network, *arguments, **named)
        self._proven.add(id(network))
        return _in_float32(self._torch, output)


def _wrap_call(kind: Any, injections: NetworkInjections | None, is_compiling: Any) -> None:
    """Let instances of a class be called by `NetworkInjections.call`."""
    following = kind.__call__

    # cloudpickle pickles this function with a class of the script.
    @wraps(following)
    def __call__(network: Any, *arguments: Any, **named: Any) -> Any:
        if injections is None or is_compiling():
            return following(network, *arguments, **named)
        try:
            return injections.call(network, following, arguments, named)
        except BaseException as error:
            # And that of `call`.
            hide_this_frame(error)
            hide_this_frame(error)
            raise

    kind.__call__ = __call__


def _in_float32(torch: Any, output: Any) -> Any:
    """Return a network's output with its tensors in float32, as without autocast."""
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    if isinstance(output, dict):
        for name, value in list(output.items()):
            output[name] = _in_float32(torch, value)
    elif isinstance(output, (list, tuple)):
        parts = [_in_float32(torch, part) for part in output]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    return output
