"""What a PyTorch loader says of itself, and how many samples each of its batches holds.

PyTorch is never imported: a loader is read by the names of its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

# Lengths that these packages compute have no side effects, unlike those of a script's own samplers.
TRUSTED = {
    "torch", "torchdata", "accelerate", "transformers", "lightning", "pytorch_lightning", "builtins"
}  # fmt: skip
_ACCELERATE = "accelerate.data_loader"
_SAMPLERS = ("torch.utils.data.sampler", "torchdata.stateful_dataloader.sampler")
# How deep in a batch, and how far in each part of it, the first array is looked for.
DEPTH = 5
BREADTH = 16

# A sampler that draws so many times more than its data set holds goes through no set of samples.
BY_FAR = 10

LEADING = "the first size of each batch's first array"
"""How samples are inferred where the loader does not say them."""

_OF_A_DATASET = 1
"""PyTorch's number for a data set that is iterated, not indexed."""

_LEFT_OUT = "the script's collate function leaves samples out"


@dataclass(frozen=True)
class Loader:
    """What a loader says of a pass over it.

    Attributes:
        batch_size: samples of a whole batch; None where the loader does not say it.
        samples: of a whole pass.
        steps: batches of a whole pass.
        may_vary: any batch may be short, not only the last one.
        is_collated: a function of the script's own makes the batches, and may leave samples out.
        workers: processes that load its data, beside the script's own.
        inferred: how the samples of a batch are found, where the loader does not say them.
        skipped: batches that the next pass leaves out, as a run does that goes on from within an
            epoch.
        pin_memory: whether it puts batches where a GPU copies them from directly.
        why: reasons of what is None, by the names of `Model`.
    """

    batch_size: int | None = None
    samples: int | None = None
    steps: int | None = None
    may_vary: bool = False
    is_collated: bool = False
    workers: int | None = None
    inferred: str | None = None
    has_passes: bool = True
    skipped: int = field(default=0, compare=False)
    pin_memory: bool | None = field(default=None, compare=False)
    why: dict[str, str] = field(default_factory=dict, compare=False)

    def limited(self, steps: int) -> Loader:
        """Return what a pass of so many batches is; a whole one if there are no more."""
        if self.steps is not None and self.steps <= steps:
            return self
        samples = self.samples
        if samples is not None and self.batch_size is not None:
            samples = min(samples, steps * self.batch_size)
        why = {name: reason for name, reason in self.why.items() if name != "steps_per_epoch"}
        return replace(self, samples=samples, steps=steps, why=why)

    def leaving_out(self) -> Loader:
        """Return what it says once a batch was seen from which samples were left out."""
        if self.samples is None:
            return replace(self, inferred=_LEFT_OUT)
        why = {**self.why, "samples_per_epoch": _LEFT_OUT}
        return replace(self, samples=None, inferred=_LEFT_OUT, why=why)

    def without_passes(
        self, reason: str = "a loop that takes single batches has no epochs"
    ) -> Loader:
        """Return what it says to a loop that never goes through all of its samples."""
        why = {name: text for name, text in self.why.items() if name == "batch_size"}
        why |= dict.fromkeys(("samples_per_epoch", "steps_per_epoch", "epochs"), reason)
        return replace(self, samples=None, steps=None, has_passes=False, why=why)


def describe(loader: Any) -> Loader:
    """Return what a `DataLoader` says of a pass over it, without a look at its data."""
    batches, skipped = _unskipped(_repeated(getattr(loader, "batch_sampler", None)))
    if type(loader).__module__ == _ACCELERATE:
        skipped += getattr(loader, "skip_batches", 0)
    batch_size = getattr(loader, "batch_size", None)
    drop_last = bool(getattr(loader, "drop_last", False))
    is_plain, is_shard = _is_plain(batches), _is_shard(batches)
    if batch_size is None and (is_plain or is_shard):
        batch_size, drop_last = batches.batch_size, bool(batches.drop_last)
    workers = getattr(loader, "num_workers", None)
    pinned = getattr(loader, "pin_memory", None)
    is_iterated = getattr(loader, "_dataset_kind", 0) == _OF_A_DATASET
    steps: int | None
    samples: int | None = None
    if is_iterated:
        samples, steps = _length(loader.dataset, trusted=True), None
    elif is_plain:
        samples, steps = _length(batches.sampler), None
    else:
        steps = _length(_repeated(getattr(loader, "sampler", None)) if batches is None else batches)
    if is_shard and batch_size is not None:
        batch_size //= batches.num_processes if batches.split_batches else 1
        if steps is not None and (batches.even_batches or drop_last):
            samples = steps * batch_size
    no_size = "the loader does not say its batch size"
    no_length = "the data set has no length" if is_iterated else "the sampler is the script's own"
    if batch_size is None:
        steps, samples = samples if is_iterated else steps, None
    elif samples is not None:
        steps = samples // batch_size if drop_last else -(-samples // batch_size)
        samples = min(samples, steps * batch_size)
    is_counted = samples is not None and not is_iterated
    is_collated = is_counted and not _is_trusted(getattr(loader, "collate_fn", None))
    reasons = {
        "batch_size": no_size if batch_size is None else None,
        "samples_per_epoch": (no_length if steps is None else no_size) if samples is None else None,
        "steps_per_epoch": no_length if steps is None else None,
    }
    described = Loader(
        batch_size=batch_size,
        samples=samples,
        steps=steps,
        may_vary=is_iterated or is_collated,
        is_collated=is_collated,
        workers=workers if isinstance(workers, int) else None,
        skipped=skipped,
        pin_memory=pinned if isinstance(pinned, bool) else None,
        inferred=None if batch_size is not None else LEADING,
        why={name: reason for name, reason in reasons.items() if reason is not None},
    )
    if is_plain and _draws_for_long(batches.sampler, loader):
        return described.without_passes(
            "its sampler draws samples for longer than a pass over them"
        )
    return described


def _is_plain(sampler: Any) -> bool:
    return type(sampler).__module__ in _SAMPLERS


def _repeated(sampler: Any) -> Any:
    """Return what a sampler that has no end, and so no length, begins again and again."""
    repeated = getattr(sampler, "sampler", None)
    is_endless = not _is_plain(sampler) and not hasattr(type(sampler), "__len__")
    return repeated if is_endless and _is_plain(repeated) else sampler


def _unskipped(batches: Any) -> tuple[Any, int]:
    """Return the sampler of whole epochs, and how many batches accelerate skips of the next one."""
    of = type(batches)
    if (of.__module__, of.__name__) != (_ACCELERATE, "SkipBatchSampler"):
        return batches, 0
    return batches.batch_sampler, batches.skip_batches


def _draws_for_long(sampler: Any, loader: Any) -> bool:
    """Return whether a sampler draws samples again and again, and not each of a set once.

    With replacement, one that draws as many as there are may well be an epoch.
    """
    drawn, held = _length(sampler), _length(getattr(loader, "dataset", None), trusted=True)
    if drawn is None or held is None:
        return False
    return drawn > (held if getattr(sampler, "replacement", False) is True else BY_FAR * held)


def _is_shard(batches: Any) -> bool:
    """Return whether accelerate takes one process's part of the batches of a plain sampler."""
    of = type(batches)
    is_its = (of.__module__, of.__name__) == (_ACCELERATE, "BatchSamplerShard")
    return is_its and _is_plain(batches.batch_sampler)


def _is_trusted(function: Any) -> bool:
    """Return whether a function is of a package that leaves no sample out."""
    function = getattr(function, "func", function)
    module = getattr(function, "__module__", None) or type(function).__module__
    return module.partition(".")[0] in TRUSTED


def _length(sized: Any, trusted: bool = False) -> int | None:
    """Return a length, unless it would take code of the script's own that nobody else calls."""
    method = getattr(type(sized), "__len__", None)
    if method is None:
        return None
    module = getattr(method, "__module__", None) or type(sized).__module__
    if not trusted and module.partition(".")[0] not in TRUSTED:
        return None
    try:
        return len(sized)
    except Exception:  # noqa: BLE001 - a length that raises is none
        return None


class Sizes:
    """How many samples the batches of one pass hold.

    The first size of a batch's first array is held against what the loader says: where a batch
    is built otherwise, as a longer one of tokens or of several crops, the loader is right.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._is_leading = True
        self.lost = loader.skipped
        """How many batches never came: they were skipped, or raised as they were fetched."""
        self.are_fewer = False
        """Whether a function of the script's own was seen to leave samples out."""

    @property
    def certain(self) -> int:
        """How many batches are whole for certain: they need no look."""
        loader = self._loader
        is_counted = None not in (loader.batch_size, loader.samples, loader.steps)
        return (loader.steps or 0) - 1 - self.lost if is_counted and not loader.may_vary else 0

    def of(self, number: int, batch: Any) -> int | None:
        """Return the samples of a batch; `number` counts from 0."""
        loader, rest = self._loader, self._rest(number)
        whole = loader.batch_size
        if loader.is_collated:
            due = rest or whole or 0
            size = collated_size(batch, due)
            self.are_fewer |= size is not None and size < due
            return size
        leading = _said_size(batch) or leading_size(batch)
        if whole is None or leading == whole:
            return leading
        if not loader.may_vary:
            if rest is not None:
                return rest
            if loader.steps is not None and number + self.lost + 1 < loader.steps:
                self._is_leading = False
                return whole
        if leading is not None and leading < whole and self._is_leading:
            return leading
        return whole if rest is None else rest

    def _rest(self, number: int) -> int | None:
        """Return what is left for the last batch; None of any other, and where it isn't known."""
        loader, place = self._loader, number + self.lost
        if loader.samples is None or loader.batch_size is None or loader.steps != place + 1:
            return None
        return loader.samples - place * loader.batch_size


def collated_size(batch: Any, due: int) -> int | None:
    """Return how many samples a batch holds that a script's own function made, of those due.

    It has left some out where each array, and each list, in the batch is shorter than that. What
    has another size for another reason (time before batch, samples one after the other in one
    row, several crops of each) has as many as are due. An object may say its size; what holds no
    array that can be seen is not known.
    """
    said = _said_size(batch)
    if said is not None:
        return said
    try:
        found_sizes = list(_sizes_in(batch, 3, within_lists=False))
    except Exception:  # noqa: BLE001 - what can't be looked at says nothing
        return None
    shapes = [size for size in found_sizes if isinstance(size, tuple)]
    lengths = [size for size in found_sizes if isinstance(size, int)]
    if not shapes and not lengths:
        return None
    found = max([*(shape[0] for shape in shapes), *lengths])
    if due in lengths or found >= due:
        return due
    are_rows = not any(len(shape) == 1 for shape in shapes) and found not in lengths
    if are_rows and (found <= 1 or any(shape[1] == due for shape in shapes)):
        return due
    return found


def _said_size(batch: Any) -> int | None:
    """Return how many samples an object says that it holds, as the batches of graphs do."""
    if isinstance(batch, (list, tuple, dict)) or _is_array(batch):
        return None
    for name in ("num_graphs", "batch_size"):
        try:
            size = getattr(batch, name, None)
        except Exception:  # noqa: BLE001, S112 - what can't be asked says nothing
            continue
        if type(size) is int and size > 0:
            return size
    return None


def _is_array(value: Any) -> bool:
    # Some arrays, as sparse ones, are not made into NumPy's.
    return hasattr(type(value), "__array__") or hasattr(type(value), "dtype")


def _sizes_in(value: Any, depth: int, within_lists: bool = True) -> Iterator[tuple[int, ...] | int]:
    """Yield the shape of each array in a batch, whatever it is nested in, and each list's length.

    What is in a list within a list may be of one sample: it is left out where that is asked for.
    The lists that an object keeps for itself have any length.
    """
    if _is_array(value):
        if len(value.shape):
            yield tuple(map(int, value.shape))
        return
    is_list = isinstance(value, (tuple, list))
    is_object = False
    if is_list:
        yield len(value)
        members: Iterable[Any] = value
    elif isinstance(value, dict):
        members = dict.values(value)
    else:
        is_object = True
        members = getattr(value, "__dict__", {}).values()
    for member in islice(members, BREADTH) if depth else ():
        if within_lists or not is_list or not isinstance(member, (tuple, list)):
            sizes = _sizes_in(member, depth - 1, within_lists)
            yield from (size for size in sizes if not (is_object and isinstance(size, int)))
        else:
            yield len(member)


def leading_size(batch: Any) -> int | None:
    """Return the first size of the first array in a batch, whatever it is nested in."""
    shape = leading_shape(batch)
    return shape[0] if shape else None


def leading_shape(batch: Any) -> tuple[int, ...]:
    """Return the shape of the first array in a batch; empty where there is none."""
    try:
        kind = type(batch)
        first = batch[0] if (kind is list or kind is tuple) and batch else batch
        if hasattr(type(first), "__array__") and first.shape:
            # As nearly always.
            return tuple(first.shape)
        sizes = _sizes_in(batch, DEPTH)
        return next((size for size in sizes if isinstance(size, tuple)), ())
    except Exception:  # noqa: BLE001 - what can't be looked at has no size
        return ()
