"""Set the injections of PyTorch.

The arguments of a DataLoader, an optimizer, an autocast or torch.compile are replaced as it is
made. The settings of the process are made with the first optimizer.
"""

from __future__ import annotations

import builtins
import inspect
import sys
import weakref
from collections.abc import Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Any

from dlmon.instrument.copy_injection import into_copies
from dlmon.instrument.injections import (
    SET_BY_SCRIPT,
    Arguments,
    Changed,
    Injections,
    injections_of,
    replace_arguments,
    set_up,
)
from dlmon.instrument.network_injections import NO_NETWORK, NetworkInjections
from dlmon.instrument.outermost import living
from dlmon.instrument.reporter import Reporter
from dlmon.records.injections import OFF, ON

_BATCH_SIZE, _WORKERS = "batch_size", "num_workers"
_LOADER = (_WORKERS, "prefetch_factor", "persistent_workers", "pin_memory", _BATCH_SIZE)
# A loader without workers refuses these.
_OF_WORKERS: Arguments = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "multiprocessing_context": None,
}
_OF_PROCESS = ("matmul_precision", "cudnn_benchmark", "threads")
_GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")
NO_GPU = "there is no GPU"


def into_torch(torch: Any, reporter: Reporter) -> None:
    """Set the injections of PyTorch; `torch` is its module, completely imported."""
    injections = injections_of(reporter)
    loaders = LoaderArguments(torch, injections)
    set_up(injections, _LOADER, "no DataLoader was made", loaders.install)
    of_optimizers = partial(_into_optimizers, torch, injections)
    set_up(injections, ("fused",), "no optimizer that can be fused was made", of_optimizers)
    of_process = partial(_into_process, torch, injections)
    set_up(injections, _OF_PROCESS, "no optimizer was made", of_process)
    into_copies(torch, injections)
    set_up(injections, ("prints",), "nothing was printed", partial(throw_prints_away, injections))
    networks = NetworkInjections(torch, injections)
    set_up(injections, ("compile",), NO_NETWORK, networks.install_compile)
    set_up(injections, ("autocast",), NO_NETWORK, networks.install_autocast)


def _has_gpu(torch: Any) -> bool:
    """Return whether PyTorch may find a GPU; asking it would keep forked ranks from using one."""
    is_built = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
    return is_built and any(Path(path).exists() for path in _GPU_FILES)


class LoaderArguments:
    """Replaces the arguments of each DataLoader.

    Whether a loader is for training shows only later. So the arguments about workers and memory
    are those of all loaders. The batch size is that of each loader that has one, except the loaders
    without shuffling that are made after one with shuffling: they are for validation.
    """

    def __init__(self, torch: Any, injections: Injections) -> None:
        self._torch, self._injections = torch, injections
        self._has_shuffled = False

    def install(self) -> None:
        kind = self._torch.utils.data.DataLoader
        replace_arguments(kind, "__init__", self._injections, _LOADER, self._change)

    def _change(self, given: Arguments) -> Changed:
        value, refused = self._injections.value, self._injections.refused
        others: Arguments = {}
        workers = given.get(_WORKERS, 0)
        if (count := value(_WORKERS)) is not None:
            reason = self._why_no_workers(given, count) if count > workers else None
            if reason is not None:
                refused((_WORKERS,), reason)
            else:
                others[_WORKERS] = workers = count
        if (ahead := value("prefetch_factor")) is not None:
            others["prefetch_factor"] = ahead
        if (persists := value("persistent_workers")) is not None:
            others["persistent_workers"] = persists == ON
        if not workers:
            refused(others.keys() & _OF_WORKERS.keys(), "a DataLoader has no workers")
            others = {n: v for n, v in others.items() if n not in _OF_WORKERS}
            if others:
                others |= {n: v for n, v in _OF_WORKERS.items() if n in given}
        if (pins := value("pin_memory")) is not None:
            if pins == ON and not _has_gpu(self._torch):
                refused(("pin_memory",), NO_GPU)
            elif pins == ON and self._is_on_gpu(given["dataset"]):
                refused(("pin_memory",), "the data set is on the GPU")
            else:
                others["pin_memory"] = pins == ON
        size = value(_BATCH_SIZE)
        if size is not None and self._is_for_training(given):
            reason = self._why_no_batch_size(given, size)
            if reason is None:
                others[_BATCH_SIZE] = size
            else:
                refused((_BATCH_SIZE,), reason)
        is_set = others.keys() if workers else others.keys() - _OF_WORKERS.keys()
        return others, dict.fromkeys(is_set)

    def _why_no_workers(self, given: Arguments, count: int) -> str | None:
        dataset, own = given["dataset"], given.get(_WORKERS, 0)
        if isinstance(dataset, self._torch.utils.data.IterableDataset) and own < 2 <= count:
            return "each worker would give all samples of a data set that is iterated"
        if self._is_on_gpu(dataset):
            return "the data set is on the GPU, which a worker can't use"
        context = given.get("multiprocessing_context")
        usual = sys.modules["multiprocessing.context"]._default_context
        method = (
            getattr(context, "_name", context)
            # To ask for the default would set it.
            or usual.get_start_method(allow_none=True)
            or usual.get_all_start_methods()[0]
        )
        if not own and method != "fork":
            return f"workers would be started by {method}, for which a script must be written"
        return None

    def _is_on_gpu(self, dataset: Any) -> bool:
        values = list(getattr(dataset, "__dict__", {}).values())
        parts = [part for value in values for part in (value if type(value) is tuple else [value])]
        return any(isinstance(part, self._torch.Tensor) and part.is_cuda for part in parts)

    def _is_for_training(self, given: Arguments) -> bool:
        data, sampler = self._torch.utils.data, given.get("sampler")
        shuffles = bool(given.get("shuffle")) or isinstance(given["dataset"], data.IterableDataset)
        if sampler is not None and not isinstance(sampler, data.SequentialSampler):
            # That of several ranks says whether it shuffles.
            shuffles = bool(getattr(sampler, "shuffle", True))
        is_for_training = shuffles or not self._has_shuffled
        self._has_shuffled |= shuffles
        return is_for_training

    @staticmethod
    def _why_no_batch_size(given: Arguments, size: int) -> str | None:
        if given.get("batch_sampler") is not None:
            return "a sampler of the script makes the batches"
        if given.get("batch_size", 1) is None:
            return "the data set makes the batches"
        if given.get("drop_last") and len(given["dataset"]) < size:
            return "the data set has fewer samples"
        return None


def _into_optimizers(torch: Any, injections: Injections) -> None:
    """Replace `fused` in each optimizer that takes it."""
    if injections.value("fused") == OFF:
        injections.expect(("fused",), "the script makes no fused optimizer", is_as_asked=True)
    for kind in list(vars(torch.optim).values()):
        # A class without the argument in its base calls no constructor that is replaced too.
        if isinstance(kind, type) and _takes_fused(kind) and not _takes_fused(kind.__base__):
            change = partial(_change_fused, torch, injections)
            replace_arguments(kind, "__init__", injections, ("fused",), change)


def _takes_fused(kind: Any) -> bool:
    return "fused" in inspect.signature(kind.__init__).parameters


def _change_fused(torch: Any, injections: Injections, given: Arguments) -> Changed:
    value, optimizer = injections.value("fused"), weakref.ref(given["self"])
    if value is None or (value == OFF and not given.get("fused")):
        return {}, {}

    def check() -> str | None:
        groups = getattr(optimizer(), "param_groups", ())
        return None if all(bool(g.get("fused")) == (value == ON) for g in groups) else SET_BY_SCRIPT

    if value == OFF:
        # By default PyTorch chooses between its other implementations.
        return {"fused": None}, {"fused": check}
    if not isinstance(given["params"], (torch.Tensor, dict)):
        given["params"] = list(given["params"])
    reason = _why_not_fused(torch, given)
    if reason is not None:
        injections.refused(("fused",), reason)
        return {}, {}
    others = {"foreach": None} if given.get("foreach") else {}
    return {**others, "fused": True}, {"fused": check}


def _why_not_fused(torch: Any, given: Arguments) -> str | None:
    if given.get("differentiable"):
        return "a differentiable optimizer can't be fused"
    devices = list(torch.utils._foreach_utils._get_fused_kernels_supported_devices())
    if "Adagrad" in type(given["self"]).__name__:
        devices = ["cpu"]
    for weight in _weights_in(given["params"]):
        if weight.device.type not in devices or not torch.is_floating_point(weight):
            return f"weights of {weight.dtype} on {weight.device.type} can't be changed fused"
    if any(getattr(module, "sparse", False) is True for module in living(torch.nn.Module)):
        return "an embedding has sparse gradients"
    return None


def _weights_in(params: list[Any]) -> Iterator[Any]:
    """Yield the weights among an optimizer's parameters, which may be groups or have names."""
    for item in params:
        if isinstance(item, dict):
            if not hasattr(item["params"], "device"):
                # The optimizer does the same.
                item["params"] = list(item["params"])
            yield from _weights_in(item["params"])
        else:
            yield item[1] if isinstance(item, tuple) else item


def _into_process(torch: Any, injections: Injections) -> None:
    """Make the settings of the process before its first optimizer."""
    cudnn = torch.backends.cudnn
    settings: dict[str, tuple[Any, Any]] = {
        "matmul_precision": (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        "cudnn_benchmark": (
            lambda: ON if cudnn.benchmark else OFF,
            lambda value: setattr(cudnn, "benchmark", value == ON),
        ),
        "threads": (torch.get_num_threads, torch.set_num_threads),
    }

    def before(given: Arguments) -> Changed:
        wanted = {name: injections.value(name) for name in settings}
        for name, value in wanted.items():
            read, write = settings.pop(name)
            if name == "cudnn_benchmark" and value is not None and not _has_gpu(torch):
                injections.refused((name,), NO_GPU)
            elif value is not None:
                write(value)
                injections.applied(name, partial(_check_setting, read, value))
        return {}, {}

    replace_arguments(torch.optim.Optimizer, "__init__", injections, _OF_PROCESS, before)


def _check_setting(read: Any, value: Any) -> str | None:
    return None if read() == value else SET_BY_SCRIPT


def throw_prints_away(injections: Injections) -> None:
    """Throw away what is printed to the terminal from the first loop on."""
    write = builtins.print

    @wraps(write)
    def print_before_loops(*values: Any, file: Any = None, **options: Any) -> None:
        is_shown = file in (None, sys.stdout, sys.stderr) and injections.reporter.loops
        if not is_shown or injections.value("prints") is None:
            write(*values, file=file, **options)
        else:
            injections.applied("prints")

    builtins.print = print_before_loops
