"""Describe a PyTorch loader, and count the samples of its batches.

PyTorch is never imported: a loader is read by the names of its attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

# The `__len__` of these packages have no side effects, unlike a script's own.
TRUSTED = {
    "torch", "torchdata", "accelerate", "transformers", "lightning", "pytorch_lightning", "builtins"
}  # fmt: skip
_ACCELERATE = "accelerate.data_loader"
_SAMPLERS = ("torch.utils.data.sampler", "torchdata.stateful_dataloader.sampler")
# The depth in a batch, and the members of each level, in which the first array is searched.
DEPTH = 5
BREADTH = 16
# Batches of these types say no size themselves.
_PLAIN = (list, tuple)

# A sampler that draws more than this many times the samples of its data set has no epochs.
MOST_REPEATS = 10

LEADING = "the first size of each batch's first array"
"""The inference of samples if the loader does not say them."""

_ITERATED = 1
"""PyTorch's number for a data set that is iterated, not indexed."""

_LEFT_OUT = "the script's collate function leaves samples out"


@dataclass(frozen=True)
class Loader:
    """The description of a loader.

    Attributes:
        batch_size: samples of a whole batch; None if the loader does not say it.
        samples: samples of a whole pass.
        steps: batches of a whole pass.
        may_vary: any batch may be short, not only the last one.
        is_collated: the script's own function collates batches, and may leave samples out.
        workers: processes that load data.
        inferred: how the samples of a batch are inferred, if the loader does not say them.
        skipped: batches that the next pass skips, in a run that resumes within an epoch.
        pin_memory: batches are put into pinned memory.
        why: reasons of fields that are None, by their names in `Model`.
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
        """Return the description of passes of at most `steps` batches."""
        if self.steps is not None and self.steps <= steps:
            return self
        samples = self.samples
        if samples is not None and self.batch_size is not None:
            samples = min(samples, steps * self.batch_size)
        why = {name: reason for name, reason in self.why.items() if name != "steps_per_epoch"}
        return replace(self, samples=samples, steps=steps, why=why)

    def leaving_out(self) -> Loader:
        """Return the description after a batch in which samples were left out."""
        if self.samples is None:
            return replace(self, inferred=_LEFT_OUT)
        why = {**self.why, "samples_per_epoch": _LEFT_OUT}
        return replace(self, samples=None, inferred=_LEFT_OUT, why=why)

    def without_passes(
        self, reason: str = "a loop that takes single batches has no epochs"
    ) -> Loader:
        """Return the description for a loop that never passes over all samples."""
        why = {name: text for name, text in self.why.items() if name == "batch_size"}
        why |= dict.fromkeys(("samples_per_epoch", "steps_per_epoch", "epochs"), reason)
        return replace(self, samples=None, steps=None, has_passes=False, why=why)


def describe(loader: Any) -> Loader:
    """Return the description of a `DataLoader`, without reading its data."""
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
    is_iterated = getattr(loader, "_dataset_kind", 0) == _ITERATED
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
    if is_plain and _has_no_epochs(batches.sampler, loader):
        return described.without_passes(
            "its sampler draws samples for longer than a pass over them"
        )
    return described


def _is_plain(sampler: Any) -> bool:
    return type(sampler).__module__ in _SAMPLERS


def _repeated(sampler: Any) -> Any:
    """Return the sampler that an endless one, which has no length, repeats."""
    repeated = getattr(sampler, "sampler", None)
    is_endless = not _is_plain(sampler) and not hasattr(type(sampler), "__len__")
    return repeated if is_endless and _is_plain(repeated) else sampler


def _unskipped(batches: Any) -> tuple[Any, int]:
    """Return the sampler of whole epochs, and the batches that accelerate skips in the next one."""
    if not _is_of_accelerate(batches, "SkipBatchSampler"):
        return batches, 0
    return batches.batch_sampler, batches.skip_batches


def _has_no_epochs(sampler: Any, loader: Any) -> bool:
    """Return whether a sampler draws far more samples than the data set has.

    One that draws with replacement, as many samples as the data set has, counts as an epoch.
    """
    drawn, samples = _length(sampler), _length(getattr(loader, "dataset", None), trusted=True)
    if drawn is None or samples is None:
        return False
    replaces = getattr(sampler, "replacement", False) is True
    return drawn > (samples if replaces else MOST_REPEATS * samples)


def _is_shard(batches: Any) -> bool:
    """Return whether accelerate takes one rank's share of the batches of a plain sampler."""
    return _is_of_accelerate(batches, "BatchSamplerShard") and _is_plain(batches.batch_sampler)


def _is_of_accelerate(batches: Any, name: str) -> bool:
    kind = type(batches)
    return (kind.__module__, kind.__name__) == (_ACCELERATE, name)


def _is_trusted(function: Any) -> bool:
    """Return whether a collate function is of a package that leaves no sample out."""
    function = getattr(function, "func", function)
    module = getattr(function, "__module__", None) or type(function).__module__
    return module.partition(".")[0] in TRUSTED


def _length(sized: Any, trusted: bool = False) -> int | None:
    """Return the length of an object, unless that would run the script's own code."""
    method = getattr(type(sized), "__len__", None)
    if method is None:
        return None
    module = getattr(method, "__module__", None) or type(sized).__module__
    if not trusted and module.partition(".")[0] not in TRUSTED:
        return None
    try:
        return len(sized)
    except Exception:  # noqa: BLE001 - a length that raises is unknown
        return None


class Sizes:
    """The samples of the batches of one pass.

    The first size of a batch's first array is compared with the loader's batch size. If a batch
    is laid out otherwise (time first, several crops), the loader is right.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._is_leading = True
        self.lost = loader.skipped
        """Batches that never came: they were skipped, or fetching them raised."""
        self.are_fewer = False
        """The script's own collate function has left samples out."""

    @property
    def certain(self) -> int:
        """The number of batches that are certainly whole, and needn't be inspected."""
        loader = self._loader
        has_length = None not in (loader.batch_size, loader.samples, loader.steps)
        return (loader.steps or 0) - 1 - self.lost if has_length and not loader.may_vary else 0

    def of(self, number: int, batch: Any) -> int | None:
        """Return the samples of a batch; `number` counts from 0."""
        loader = self._loader
        whole, rest = loader.batch_size, None if loader.steps is None else self._rest(number)
        if loader.is_collated:
            expected = rest or whole or 0
            size = collated_size(batch, expected)
            self.are_fewer |= size is not None and size < expected
            return size
        leading = leading_size(batch)
        if type(batch) not in _PLAIN:
            leading = _size_attribute(batch) or leading
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
        """Return the samples left for the last batch; None for others, or if unknown."""
        loader, index = self._loader, number + self.lost
        if loader.samples is None or loader.batch_size is None or loader.steps != index + 1:
            return None
        return loader.samples - index * loader.batch_size


def collated_size(batch: Any, expected: int) -> int | None:
    """Return the samples of a batch that the script's own function collated; None if unknown.

    The function has left samples out if all arrays and lists in the batch are shorter than
    expected. A batch of another layout (time first, samples concatenated in one row, several crops)
    has the expected size. An object may have an attribute with its size.
    """
    size = _size_attribute(batch)
    if size is not None:
        return size
    try:
        sizes = list(_sizes_in(batch, 3, within_lists=False))
    except Exception:  # noqa: BLE001 - an unreadable batch has an unknown size
        return None
    shapes = [size for size in sizes if isinstance(size, tuple)]
    lengths = [size for size in sizes if isinstance(size, int)]
    if not shapes and not lengths:
        return None
    largest = max([*(shape[0] for shape in shapes), *lengths])
    if expected in lengths or largest >= expected:
        return expected
    are_rows = not any(len(shape) == 1 for shape in shapes) and largest not in lengths
    if are_rows and (largest <= 1 or any(shape[1] == expected for shape in shapes)):
        return expected
    return largest


def _size_attribute(batch: Any) -> int | None:
    """Return the number of samples in an attribute of an object, such as a batch of graphs."""
    if isinstance(batch, (list, tuple, dict)) or _is_array(batch):
        return None
    for name in ("num_graphs", "batch_size"):
        try:
            size = getattr(batch, name, None)
        except Exception:  # noqa: BLE001, S112 - a property that raises is skipped
            continue
        if type(size) is int and size > 0:
            return size
    return None


def _is_array(value: Any) -> bool:
    # Some arrays, such as sparse ones, can't be converted to NumPy's.
    return hasattr(type(value), "__array__") or hasattr(type(value), "dtype")


def _sizes_in(value: Any, depth: int, within_lists: bool = True) -> Iterator[tuple[int, ...] | int]:
    """Yield the shapes of all arrays and the lengths of all lists in a nested batch.

    Without `within_lists`, the items of a list in a list, which may be of one sample, are skipped.
    The lengths of lists in an object's attributes mean nothing, and are skipped too.
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
    """Return the first size of the first array in a nested batch."""
    shape = leading_shape(batch)
    return shape[0] if shape else None


def leading_shape(batch: Any) -> tuple[int, ...]:
    """Return the shape of the first array in a nested batch; empty if there is none."""
    try:
        kind = type(batch)
        first = batch[0] if (kind is list or kind is tuple) and batch else batch
        if hasattr(type(first), "__array__") and first.shape:
            # The usual case.
            return tuple(first.shape)
        sizes = _sizes_in(batch, DEPTH)
        return next((size for size in sizes if isinstance(size, tuple)), ())
    except Exception:  # noqa: BLE001 - an unreadable batch has no shape
        return ()
