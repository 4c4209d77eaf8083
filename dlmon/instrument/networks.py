"""Describe a PyTorch network, and count the operations of training on one token.

This runs once, as a loop begins, so no step costs anything. PyTorch is never imported here.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from dlmon.instrument.graphs import Recomputed
from dlmon.instrument.outermost import has_gradients_of, living, networks_of, shapes_of
from dlmon.statistics.operations import WHOLE, Weight, operations_of

NOT_A_MODULE = "no torch.nn.Module holds what its optimiser changes"
SEVERAL = "its optimisers change several networks"
TWO_SEQUENCES = "it reads a sequence and writes another one, and only one of them is counted"
OTHER_INPUT = "it reads more than tokens"
SHARED_LAYERS = "its layers share their weights"
CONVOLUTIONS = "convolutions take more operations than they have weights"
NO_EXPERTS = "its configuration does not say how many of its experts a token takes"
FLOAT32, TF32 = "float32", "tf32"

# Names in the configurations of transformers, nanoGPT and others.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token")
# A larger number in a configuration is not believed.
_MOST = 1 << 24
_MATRIX = 2


class Autocast:
    """Notes the precision of products under autocast, until it is asked for."""

    def __init__(self) -> None:
        self._kind: Any = None
        self._original: Any = None
        self._wrapper: Any = None
        self._precision: str | None = None

    def watch(self, kind: Any) -> None:
        original = kind.__enter__

        @wraps(original)
        def __enter__(context: Any) -> Any:
            result = original(context)
            if getattr(context, "_enabled", False) and sys.modules["torch"].is_grad_enabled():
                self._precision = _name_of_dtype(getattr(context, "fast_dtype", None))
            return result

        self._kind, self._original, self._wrapper = kind, original, __enter__
        kind.__enter__ = __enter__

    def seen(self) -> str | None:
        """Return the precision, and stop watching, so that no later step costs anything."""
        if self._kind is not None and self._kind.__enter__ is self._wrapper:
            self._kind.__enter__ = self._original
        return self._precision


@dataclass
class _Parameter:
    """A parameter and its holders, which are several modules if it is tied."""

    shape: tuple[int, ...]
    trains: bool
    dtype: Any
    graph_id: int | None = None
    """Its id in the graph of a loss; None for a part of a flat parameter."""
    recomputed: bool = False
    """Its product is computed again in the backward pass."""
    holders: list[tuple[str, Any, str]] = field(default_factory=list)
    """The path of each module, the module, and the parameter's name in it."""

    @property
    def multiplies(self) -> bool:
        """It is a matrix that every token is multiplied with."""
        is_matrix = len(self.shape) >= _MATRIX
        return is_matrix and any(_multiplies(self, *holder) for holder in self.holders)

    @property
    def layer(self) -> str | None:
        """The path of the numbered layer that holds it; None outside of layers."""
        words = self.holders[0][0].split(".")
        ends = [number for number, word in enumerate(words, 1) if word.isdecimal()]
        return ".".join(words[: ends[0]]) if ends else None


def _multiplies(parameter: _Parameter, path: str, module: Any, name: str) -> bool:
    kinds = " ".join(kind.__name__ for kind in type(module).__mro__)
    own_path = f"{path.rpartition('.')[2]}.{name}".lower()
    # Embeddings are looked up or added to every token; a pooler takes one token of a sequence.
    is_added = parameter.shape[0] == 1 or "embed" in own_path or "pos" in own_path.split("_")
    return not ("Embedding" in kinds or is_added or "pooler" in path)


def network_of(optimizer: Any, called: Iterable[Any] = ()) -> Any:
    """Return the outermost module that holds an optimizer's parameters; None if there is none.

    If several hold them all, the one that the script called is it.

    Raises:
        LookupError: several networks train; the message says so.
    """
    torch = sys.modules["torch"]
    objects = living(torch.nn.Module, torch.optim.Optimizer)
    modules = [module for module in objects if isinstance(module, torch.nn.Module)]
    trained = {id(parameter) for parameter in _parameters_of(optimizer)}
    called_ids = {id(module) for module in called}
    held, network = max(
        (
            ({id(parameter) for parameter in network.parameters()}, network)
            for network in networks_of(trained, modules)
        ),
        key=lambda pair: (len(pair[0] & trained), id(pair[1]) in called_ids),
        default=(set(), None),
    )
    if network is not None and not held >= trained:
        raise LookupError(SEVERAL)
    for other in objects:
        parameters = [p for p in _parameters_of(other) if getattr(p, "grad", None) is not None]
        if parameters and not any(id(parameter) in held for parameter in parameters):
            raise LookupError(SEVERAL)
    return network


def will_step() -> Any:
    """Return the first optimizer whose parameters have gradients; None if there is none."""
    for optimizer in living(sys.modules["torch"].optim.Optimizer):
        if any(parameter.grad is not None for parameter in _parameters_of(optimizer)):
            return optimizer
    return None


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in vars(optimizer).get("param_groups") or ():
        yield from group["params"]


def part_that_is_called(network: Any, called: Iterable[Any]) -> Any:
    """Return the smallest part of a network that holds all modules that the script called.

    A module that holds a network and its frozen copy isn't called itself. If no module was called,
    the part is the whole network.
    """
    called_ids = {id(module) for module in called} & {id(module) for module in network.modules()}
    while called_ids and id(network) not in called_ids:
        parts = [
            part for part in network.children() if called_ids <= {id(m) for m in part.modules()}
        ]
        if len(parts) != 1:
            break
        network = parts[0]
    return network


def describe_network(
    optimizer: Any,
    autocast: str | None = None,
    recomputed: Recomputed | None = None,
    called: Iterable[Any] = (),
) -> dict[str, Any]:
    """Return the fields of `Model` for the network that an optimizer trains.

    Args:
        optimizer: the optimizer that steps.
        autocast: the precision of products under autocast, if it is used.
        recomputed: the recomputed weights in the graph of a loss, if known.
        called: the modules that the script called for the first loss.
    """
    try:
        called = list(called)
        network = network_of(optimizer, called)
        if network is None:
            raise LookupError(NOT_A_MODULE)
        network = part_that_is_called(network, called)
    except LookupError as error:
        return {"why": {"flops_per_token": error.args[0]}}
    parameters = list(_parameters(network))
    _mark_recomputed(network, parameters, recomputed)
    fields: dict[str, Any] = {
        "network": _name_of(_unwrapped(network)),
        "parameters": sum(math.prod(parameter.shape) for parameter in parameters),
        "compute_precision": _precision(network, parameters, autocast),
        "computes_again": bool(_checkpointed_paths(network))
        or any(parameter.recomputed for parameter in parameters),
    }
    try:
        operations = operations_of(*_weights_and_attention(network, parameters))
        fields |= {
            "flops_per_token": operations.per_token,
            "attention_flops": dict(operations.attention),
            "recomputed_flops_per_token": operations.recomputed,
            "flops_from": operations.source,
        }
    except LookupError as error:
        fields["why"] = {"flops_per_token": error.args[0]}
    return {name: value for name, value in fields.items() if value}


def _unwrapped(network: Any) -> Any:
    """Return the script's own module, without wrappers for compilation or ranks."""
    wrappers = ("_orig_mod", "_fsdp_wrapped_module", "module")
    while True:
        children = vars(network).get("_modules") or {}
        inner = next((children[n] for n in wrappers if children.get(n) is not None), None)
        if inner is None or len(children) > 1:
            return network
        network = inner


def _name_of(network: Any) -> str:
    kind = type(network)
    # FSDP derives a class from each module's.
    is_derived = kind.__bases__[0].__name__ == "FSDPModule" and len(kind.__bases__) > 1
    return str((kind.__bases__[1] if is_derived else kind).__name__)


def _parameters(network: Any) -> Iterator[_Parameter]:
    """Yield every parameter once, in full size even if ranks hold parts of it."""
    parameters: dict[Any, _Parameter] = {}
    flat_names: set[tuple[int, str]] = set()
    copies = {id(part) for copy in _frozen_copies(network) for part in copy.modules()}
    modules = [pair for pair in network.named_modules() if id(pair[1]) not in copies]
    paths = {id(module): path for path, module in modules}
    for path, module in modules:
        # FSDP flattens the parameters of several modules into one.
        flat = getattr(vars(module).get("_handle"), "flat_param", None)
        if flat is None:
            continue
        parts = {}
        for number, info in enumerate(flat._param_infos):
            shape = tuple(map(int, flat._shapes[number]))
            part = _Parameter(shape, bool(flat.requires_grad), flat.dtype)
            parameters[id(flat), number] = parts[id(info.module), info.param_name] = part
            part.holders.append((paths.get(id(info.module), path), info.module, info.param_name))
        for info in flat._shared_param_infos:
            part = parts[id(info.prim_module), info.prim_param_name]
            part.holders.append((paths.get(id(info.module), path), info.module, info.param_name))
            flat_names.add((id(info.module), info.param_name))
        flat_names |= parts.keys()
    for path, module in modules:
        for name, tensor in module._parameters.items():
            is_flat = hasattr(tensor, "_param_infos")
            if tensor is None or is_flat or (id(module), name) in flat_names:
                continue
            key = id(tensor)
            if key not in parameters:
                trains = bool(tensor.requires_grad)
                parameters[key] = _Parameter(_shape(tensor), trains, tensor.dtype, key)
            parameters[key].holders.append((path, module, name))
    yield from parameters.values()


def _frozen_copies(network: Any) -> Iterator[Any]:
    """Yield the parts of a network that are frozen copies of another, such as a moving average.

    The layers of a list are none: a script may freeze some of them.
    """
    children = vars(_unwrapped(network)).get("_modules") or {}
    parts = [part for name, part in children.items() if part is not None and not name.isdecimal()]
    trained = [shapes_of(part) for part in parts if has_gradients_of(part)]
    for part in parts:
        if not has_gradients_of(part) and (shapes := shapes_of(part)) and shapes in trained:
            yield part


def _shape(parameter: Any) -> tuple[int, ...]:
    """Return a parameter's whole shape, also if it is sharded by DeepSpeed or quantised."""
    packed = getattr(parameter, "quant_state", None)
    for shape in (getattr(parameter, "ds_shape", None), getattr(packed, "shape", None)):
        if shape is not None:
            return tuple(map(int, shape))
    return tuple(map(int, parameter.shape))


def _weights_and_attention(
    network: Any, parameters: list[_Parameter]
) -> tuple[list[Weight], dict[str, int]]:
    config = _config_of(network, parameters)
    if config.get("is_encoder_decoder") is True:
        raise LookupError(TWO_SEQUENCES)
    if any(config.get(name) is not None for name in ("vision_config", "audio_config")):
        raise LookupError(OTHER_INPUT)
    layers = _number(config, _LAYERS)
    groups = _number(config, ("num_hidden_groups",))
    if groups is not None and layers is not None and groups < layers:
        raise LookupError(SHARED_LAYERS)
    experts, experts_per_token = _number(config, _EXPERTS), _number(config, _PER_TOKEN)
    weights: list[Weight] = []
    last_weights: list[Weight] = []
    trained_layers = {parameter.layer for parameter in parameters if parameter.trains}
    for parameter in parameters:
        layer = parameter.layer
        # A tied embedding is looked up first, and multiplies in the head at the end.
        is_looked_up = not (parameter.multiplies and _multiplies(parameter, *parameter.holders[0]))
        # In a layer, parameters are not in the order of their computation.
        if is_looked_up or layer is not None:
            trains = parameter.trains if layer is None else layer in trained_layers
            weights.append(Weight(0, trains))
        if not parameter.multiplies:
            continue
        path, holder, _ = parameter.holders[0]
        if len(parameter.shape) > _MATRIX and "Conv" in type(holder).__name__:
            raise LookupError(CONVOLUTIONS)
        active = 1.0
        if "experts" in path.split("."):
            if not experts or not experts_per_token:
                raise LookupError(NO_EXPERTS)
            active = min(1.0, experts_per_token / experts)
        size = math.prod(parameter.shape)
        weight = Weight(size, parameter.trains, active, parameter.recomputed)
        (last_weights if is_looked_up else weights).append(weight)
    return weights + last_weights, _attention(config, layers)


def _mark_recomputed(
    network: Any, parameters: list[_Parameter], in_graph: Recomputed | None
) -> None:
    """Mark the parameters whose products are computed again in the backward pass.

    The graph of a loss shows the trained ones; frozen ones follow the others of their layer.
    Without a graph of them (compiled, or sharded among ranks), the network's own switches tell.
    """
    trained = {parameter.graph_id for parameter in parameters if parameter.trains}
    if in_graph is None or not in_graph.reached & trained:
        paths = _checkpointed_paths(network)
        for parameter in parameters:
            is_checkpointed = f"{parameter.holders[0][0]}.".startswith(paths)
            parameter.recomputed = parameter.layer is not None and is_checkpointed
        return
    again = in_graph.again | (trained - in_graph.reached if in_graph.hides_others else set())
    layers = {parameter.layer for parameter in parameters if parameter.graph_id in again} - {None}
    for parameter in parameters:
        is_frozen_beside = not parameter.trains and parameter.layer in layers
        parameter.recomputed = parameter.graph_id not in in_graph.last and (
            parameter.graph_id in again or is_frozen_beside
        )


def _checkpointed_paths(network: Any) -> tuple[str, ...]:
    """Return the paths of modules with activation checkpointing."""
    return tuple(
        f"{path}." if path else ""
        for path, module in network.named_modules()
        if vars(module).get("gradient_checkpointing") is True
        or type(module).__name__ == "CheckpointWrapper"
    )


def _config_of(network: Any, parameters: list[_Parameter]) -> Mapping[str, Any]:
    """Return the outermost configuration that fits the network; empty if there is none.

    A `config` may be anything: its number of layers must be that of a list of modules, and its
    width a side of a weight.
    """
    sides = {side for parameter in parameters for side in parameter.shape}
    lengths = {len(vars(module).get("_modules") or ()) for module in network.modules()}
    for module in network.modules():
        config = vars(module).get("config")
        values = config if isinstance(config, Mapping) else getattr(config, "__dict__", None)
        if not isinstance(values, Mapping):
            continue
        # In transformers, values may be nested, or have other names.
        text = getattr(values.get("text_config"), "__dict__", None)
        values = {**values, **(text or {}), **_by_other_names(config)}
        if _number(values, _HIDDEN) in sides and _number(values, _LAYERS) in lengths:
            return values
    return {}


def _by_other_names(config: Any) -> dict[str, Any]:
    names = getattr(type(config), "attribute_map", None)
    if not isinstance(names, Mapping):
        return {}
    values = vars(config)
    return {name: values[attribute] for name, attribute in names.items() if attribute in values}


def _number(config: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = config.get(name)
        if type(value) is int and 0 < value < _MOST:
            return value
    return None


def _attention(config: Mapping[str, Any], layers: int | None) -> dict[str, int]:
    """Return layers · width of attention, by the number of tokens that it looks back."""
    hidden, heads = _number(config, _HIDDEN), _number(config, _HEADS)
    if layers is None or hidden is None or heads is None:
        return {}
    head_width = _number(config, ("head_dim",))
    width = heads * head_width if head_width else hidden
    # In DeepSeek, keys and values differ in size.
    parts = [
        _number(config, (name,)) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    ]
    if all(parts):
        width = heads * sum(part or 0 for part in parts) // 2
    window = _number(config, ("sliding_window",))
    span = WHOLE if window is None or config.get("use_sliding_window") is False else str(window)
    kinds = config.get("layer_types")
    if not isinstance(kinds, (list, tuple)) or len(kinds) != layers:
        return {span: layers * width}
    widths: Counter[str] = Counter()
    for kind in kinds:
        if kind in ("full_attention", "sliding_attention"):
            widths[WHOLE if kind == "full_attention" else span] += width
    return widths


def _precision(network: Any, parameters: list[_Parameter], autocast: str | None) -> str | None:
    """Return the precision of products: that of FSDP or autocast, else that of most weights."""
    for module in network.modules():
        # The policy of FSDP 1, or of FSDP 2.
        policy = vars(module).get("mixed_precision")
        if hasattr(type(module), "_get_fsdp_state"):
            policy = getattr(module._get_fsdp_state(), "_mp_policy", None)
        if (dtype := getattr(policy, "param_dtype", None)) is not None:
            return _name_of_dtype(dtype)
    if autocast is not None:
        return autocast
    sizes: Counter[str] = Counter()
    for parameter in parameters:
        if parameter.multiplies and getattr(parameter.dtype, "is_floating_point", False):
            sizes[_name_of_dtype(parameter.dtype)] += math.prod(parameter.shape)
    if not sizes:
        return None
    [(precision, _)] = sizes.most_common(1)
    on_gpu = any(getattr(parameter, "is_cuda", False) for parameter in network.parameters())
    if precision == FLOAT32 and on_gpu and sys.modules["torch"].backends.cuda.matmul.allow_tf32:
        return TF32
    return precision


def _name_of_dtype(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
