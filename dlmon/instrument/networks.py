"""Read what a network of PyTorch's consists of: the operations that a token takes in training.

Once, as a loop begins: no step costs anything. PyTorch is there then, and never imported from here.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from dlmon.instrument.graphs import Recomputed
from dlmon.instrument.outermost import living, networks_of
from dlmon.statistics.operations import WHOLE, Weight, operations_of

NOT_A_MODULE = "no torch.nn.Module holds what its optimiser changes"
SEVERAL = "its optimisers change several networks"
TWO_SEQUENCES = "it reads a sequence and writes another one, and only one of them is counted"
OTHER_INPUT = "it reads more than tokens"
SHARED_LAYERS = "its layers share their weights"
CONVOLUTIONS = "convolutions take more operations than they have weights"
NO_EXPERTS = "its configuration does not say how many of its experts a token takes"
FLOAT32, TF32 = "float32", "tf32"

# What configurations call one thing: those of transformers, of nanoGPT, and like them.
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token")
# No configuration of a network that computes has more of them.
_MOST = 1 << 24
_MATRIX = 2


class Autocast:
    """Notes the type that autocast has products computed in, until somebody asks for it."""

    def __init__(self) -> None:
        self._kind: Any = None
        self._own: Any = None
        self._ours: Any = None
        self._seen: str | None = None

    def watch(self, kind: Any) -> None:
        own = kind.__enter__

        @wraps(own)
        def __enter__(context: Any) -> Any:
            entered = own(context)
            if getattr(context, "_enabled", False) and sys.modules["torch"].is_grad_enabled():
                self._seen = _named(getattr(context, "fast_dtype", None))
            return entered

        self._kind, self._own, self._ours = kind, own, __enter__
        kind.__enter__ = __enter__

    def seen(self) -> str | None:
        """Return it, and watch no more: no later step costs anything."""
        if self._kind is not None and self._kind.__enter__ is self._ours:
            self._kind.__enter__ = self._own
        return self._seen


@dataclass
class _Parameter:
    """A parameter, with what holds it: one that is tied is held by several modules."""

    shape: tuple[int, ...]
    trains: bool
    dtype: Any
    own: int | None = None
    """The id of what a loss was computed with; None of a part of it."""
    again: bool = False
    """Whether its product is computed again for the way back."""
    holders: list[tuple[str, Any, str]] = field(default_factory=list)

    @property
    def multiplies(self) -> bool:
        """Whether it is a matrix that every token is multiplied with."""
        return len(self.shape) >= _MATRIX and any(_multiplies(self, *one) for one in self.holders)


def _multiplies(parameter: _Parameter, path: str, module: Any, name: str) -> bool:
    kinds = " ".join(kind.__name__ for kind in type(module).__mro__)
    own = f"{path.rpartition('.')[2]}.{name}".lower()
    # What is looked up, or added to every token; a pooler takes one token of a sequence.
    is_added = parameter.shape[0] == 1 or "embed" in own or "pos" in own.split("_")
    return not ("Embedding" in kinds or is_added or "pooler" in path)


def network_of(optimizer: Any) -> Any:
    """Return the outermost module that holds what an optimiser changes; None where there is none.

    Raises:
        LookupError: why several networks train.
    """
    torch = sys.modules["torch"]
    every = living(torch.nn.Module, torch.optim.Optimizer)
    modules = [one for one in every if isinstance(one, torch.nn.Module)]
    changed = {id(one) for one in _changed_by(optimizer)}
    outermost = [
        ({id(one) for one in network.parameters()}, network)
        for network in networks_of(changed, modules)
    ]
    held, found = max(outermost, key=lambda one: len(one[0] & changed), default=(set(), None))
    if found is not None and not held >= changed:
        raise LookupError(SEVERAL)
    for other in every:
        its = [one for one in _changed_by(other) if getattr(one, "grad", None) is not None]
        if its and not any(id(one) in held for one in its):
            raise LookupError(SEVERAL)
    return found


def will_step() -> Any:
    """Return the first optimiser whose parameters have gradients; None where none has."""
    known = living(sys.modules["torch"].optim.Optimizer)
    having = (one for one in known if any(each.grad is not None for each in _changed_by(one)))
    return next(having, None)


def _changed_by(optimizer: Any) -> Iterator[Any]:
    for group in vars(optimizer).get("param_groups") or ():
        yield from group["params"]


def part_that_is_called(network: Any, called: Iterable[Any]) -> Any:
    """Return the smallest part of a network that holds all its modules which a script called.

    A holder of a network and of a frozen copy is not called itself. Where no module was seen to be
    called, it is all of it.
    """
    inside = {id(module) for module in network.modules()}
    left = {id(module) for module in called} & inside
    while left and id(network) not in left:
        parts = [
            part for part in network.children() if left <= {id(module) for module in part.modules()}
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
    """Return fields of `Model` of the network that an optimiser changes; `why` has the reasons.

    Args:
        optimizer: the one that steps.
        autocast: the type that autocast has products computed in, where it does.
        recomputed: what a loss of it says is computed again for the way back.
        called: the modules that the script called itself for the first loss.
    """
    try:
        network = network_of(optimizer)
        if network is None:
            raise LookupError(NOT_A_MODULE)
        network = part_that_is_called(network, called)
    except LookupError as error:
        return {"why": {"flops_per_token": error.args[0]}}
    every = list(_parameters(network))
    _mark_recomputed(network, every, recomputed)
    known: dict[str, Any] = {
        "network": _name_of(_unwrapped(network)),
        "parameters": sum(math.prod(one.shape) for one in every),
        "compute_precision": _precision(network, every, autocast),
        "computes_again": bool(_recomputing(network)) or any(one.again for one in every),
    }
    try:
        operations = operations_of(*_weights_and_attention(network, every))
        known |= {
            "flops_per_token": operations.per_token,
            "attention_flops": dict(operations.attention),
            "recomputed_flops_per_token": operations.recomputed,
            "flops_from": operations.source,
        }
    except LookupError as error:
        known["why"] = {"flops_per_token": error.args[0]}
    return {name: value for name, value in known.items() if value}


def _unwrapped(network: Any) -> Any:
    """Return the script's own module, without what compiles it or shares it among ranks."""
    wrappers = ("_orig_mod", "_fsdp_wrapped_module", "module")
    while True:
        own = vars(network).get("_modules") or {}
        within = next((own[name] for name in wrappers if own.get(name) is not None), None)
        if within is None or len(own) > 1:
            return network
        network = within


def _name_of(network: Any) -> str:
    kind = type(network)
    # FSDP makes a class of its own of each.
    is_made = kind.__bases__[0].__name__ == "FSDPModule" and len(kind.__bases__) > 1
    return str((kind.__bases__[1] if is_made else kind).__name__)


def _parameters(network: Any) -> Iterator[_Parameter]:
    """Yield every parameter once, as large as it is where ranks hold a part of it each."""
    found: dict[Any, _Parameter] = {}
    shared: set[tuple[int, str]] = set()
    modules = list(network.named_modules())
    for path, module in modules:
        flat = getattr(vars(module).get("_handle"), "flat_param", None)
        if flat is None:
            continue
        # Of FSDP, which keeps those of several modules as one.
        paths = {id(one): name for name, one in modules}
        places = {}
        for number, info in enumerate(flat._param_infos):
            shape = tuple(map(int, flat._shapes[number]))
            one = _Parameter(shape, bool(flat.requires_grad), flat.dtype)
            found[id(flat), number] = places[id(info.module), info.param_name] = one
            one.holders.append((paths.get(id(info.module), path), info.module, info.param_name))
        for info in flat._shared_param_infos:
            one = places[id(info.prim_module), info.prim_param_name]
            place = paths.get(id(info.module), path)
            one.holders.append((place, info.module, info.param_name))
            shared.add((id(info.module), info.param_name))
        shared |= places.keys()
    for path, module in modules:
        for name, parameter in module._parameters.items():
            is_flat = hasattr(parameter, "_param_infos")
            if parameter is None or is_flat or (id(module), name) in shared:
                continue
            key = id(parameter)
            if key not in found:
                trains = bool(parameter.requires_grad)
                found[key] = _Parameter(_shape(parameter), trains, parameter.dtype, key)
            found[key].holders.append((path, module, name))
    yield from found.values()


def _shape(parameter: Any) -> tuple[int, ...]:
    """Return a parameter's whole shape: what shares it, or packs it, keeps that beside it."""
    packed = getattr(parameter, "quant_state", None)
    for shape in (getattr(parameter, "ds_shape", None), getattr(packed, "shape", None)):
        if shape is not None:
            return tuple(map(int, shape))
    return tuple(map(int, parameter.shape))


def _weights_and_attention(
    network: Any, every: Iterable[_Parameter]
) -> tuple[list[Weight], dict[str, int]]:
    config = _config_of(network, every)
    if config.get("is_encoder_decoder") is True:
        raise LookupError(TWO_SEQUENCES)
    if any(config.get(name) is not None for name in ("vision_config", "audio_config")):
        raise LookupError(OTHER_INPUT)
    layers = _number(config, _LAYERS)
    groups = _number(config, ("num_hidden_groups",))
    if groups is not None and layers is not None and groups < layers:
        raise LookupError(SHARED_LAYERS)
    experts, taken = _number(config, _EXPERTS), _number(config, _PER_TOKEN)
    weights: list[Weight] = []
    last: list[Weight] = []
    trained = {_layer_of(one) for one in every if one.trains}
    for one in every:
        layer = _layer_of(one)
        # What tokens are looked up in first, a head may multiply with at the end.
        is_looked_up = not one.multiplies or not _multiplies(one, *one.holders[0])
        # In a layer, the order of its parts is not that of their computation.
        if is_looked_up or layer is not None:
            weights.append(Weight(0, one.trains if layer is None else layer in trained))
        if not one.multiplies:
            continue
        path, holder, _ = one.holders[0]
        if len(one.shape) > _MATRIX and "Conv" in type(holder).__name__:
            raise LookupError(CONVOLUTIONS)
        active = 1.0
        if "experts" in path.split("."):
            if not experts or not taken:
                raise LookupError(NO_EXPERTS)
            active = min(1.0, taken / experts)
        weight = Weight(math.prod(one.shape), one.trains, active, one.again)
        (last if is_looked_up else weights).append(weight)
    return weights + last, _attention(config, layers)


def _mark_recomputed(network: Any, every: list[_Parameter], seen: Recomputed | None) -> None:
    """Note whose products are computed again for the way back.

    A loss says it of what trains; what is frozen is as the others of its layer. Where no loss says
    it, as of what is compiled or shared among ranks, the network's own switches do.
    """
    known = {one.own for one in every if one.trains}
    if seen is None or not seen.reached & known:
        switched = _recomputing(network)
        for one in every:
            path = f"{one.holders[0][0]}."
            one.again = _layer_of(one) is not None and path.startswith(switched)
        return
    again = seen.again | (known - seen.reached if seen.hides_others else set())
    layers = {_layer_of(one) for one in every if one.own in again} - {None}
    for one in every:
        is_beside = not one.trains and _layer_of(one) in layers
        one.again = one.own not in seen.last and (one.own in again or is_beside)


def _layer_of(parameter: _Parameter) -> str | None:
    """Return the path of the numbered layer that holds a parameter, if one does."""
    words = parameter.holders[0][0].split(".")
    ends = [number for number, word in enumerate(words, 1) if word.isdecimal()]
    return ".".join(words[: ends[0]]) if ends else None


def _recomputing(network: Any) -> tuple[str, ...]:
    """Return where those modules are whose activations are computed again for the way back."""
    return tuple(
        f"{path}." if path else ""
        for path, module in network.named_modules()
        if vars(module).get("gradient_checkpointing") is True
        or type(module).__name__ == "CheckpointWrapper"
    )


def _config_of(network: Any, every: Iterable[_Parameter]) -> Mapping[str, Any]:
    """Return the configuration of the outermost module that has one of the network itself.

    A script may call anything a configuration: its number of layers must be one of the network's,
    and its width a side of a weight.
    """
    sides = {side for one in every for side in one.shape}
    lists = {len(vars(module).get("_modules") or ()) for module in network.modules()}
    for module in network.modules():
        config = vars(module).get("config")
        known = config if isinstance(config, Mapping) else getattr(config, "__dict__", None)
        if not isinstance(known, Mapping):
            continue
        # What transformers nests within, and what it calls by another name, is asked for.
        text = getattr(known.get("text_config"), "__dict__", None)
        known = {**known, **(text or {}), **_renamed(config)}
        if _number(known, _HIDDEN) in sides and _number(known, _LAYERS) in lists:
            return known
    return {}


def _renamed(config: Any) -> dict[str, Any]:
    names = getattr(type(config), "attribute_map", None)
    if not isinstance(names, Mapping):
        return {}
    own = vars(config)
    return {name: own[its] for name, its in names.items() if its in own}


def _number(config: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        value = config.get(name)
        if type(value) is int and 0 < value < _MOST:
            return value
    return None


def _attention(config: Mapping[str, Any], layers: int | None) -> dict[str, int]:
    """Return layers · width of attention, by how many tokens back they look."""
    hidden, heads = _number(config, _HIDDEN), _number(config, _HEADS)
    if layers is None or hidden is None or heads is None:
        return {}
    each = _number(config, ("head_dim",))
    width = heads * each if each else hidden
    # Where keys and values differ in size, as DeepSeek's.
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
    found: dict[str, int] = {}
    for kind in kinds:
        if kind in ("full_attention", "sliding_attention"):
            looks = WHOLE if kind == "full_attention" else span
            found[looks] = found.get(looks, 0) + width
    return found


def _precision(network: Any, every: Iterable[_Parameter], autocast: str | None) -> str | None:
    """Return what products are computed in: what autocast or FSDP say, else the weights' type."""
    for module in network.modules():
        # FSDP's, of the first generation and of the second.
        policy = vars(module).get("mixed_precision")
        if hasattr(type(module), "_get_fsdp_state"):
            policy = getattr(module._get_fsdp_state(), "_mp_policy", None)
        if (kind := getattr(policy, "param_dtype", None)) is not None:
            return _named(kind)
    if autocast is not None:
        return autocast
    sizes: dict[str, int] = {}
    for one in every:
        if one.multiplies and getattr(one.dtype, "is_floating_point", False):
            name = _named(one.dtype)
            sizes[name] = sizes.get(name, 0) + math.prod(one.shape)
    if not sizes:
        return None
    found = max(sizes, key=lambda name: sizes[name])
    cuda = any(getattr(one, "is_cuda", False) for one in network.parameters())
    if found == FLOAT32 and cuda and sys.modules["torch"].backends.cuda.matmul.allow_tf32:
        return TF32
    return found


def _named(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
