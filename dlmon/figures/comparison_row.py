"""All that is known of one row of a comparison, in words. Pure."""

from __future__ import annotations

from dlmon.comparison.compare import ComparisonRow
from dlmon.comparison.published import MORE_OPERATIONS_PCT, Published, PublishedDevice, find_device
from dlmon.figures import units
from dlmon.figures.comparison import timed_unit
from dlmon.figures.results import effective_text
from dlmon.records import Result
from workloads.catalog import WORKLOADS, Workload

Detail = tuple[str, str]
"""A name and its text."""


def row_details(row: ComparisonRow, result: Result | None = None) -> list[Detail]:
    """Return names and texts for a row; `result` is that of a run of ours that is over."""
    uncertain = units.is_very_uncertain(row)
    band = units.VERY_UNCERTAIN if uncertain else units.ends_of_band(row)
    band = f" ({band})" if band else ""
    batch = f", batch {row.published.batch_size}" if row.published else ""
    details = [
        (
            "throughput" if row.is_rate else "time",
            f"{units.duration_with_band(row)} {timed_unit(row.metric)}".rstrip() + batch + band,
        ),
        ("to know" if row.comparable else "differs", "; ".join(row.badges)),
        ("measured", ", ".join(str(part) for part in (row.framework, row.year) if part)),
    ]
    if row.published:
        details.extend(_published_details(row.published))
    elif result is not None:
        details.append(("speed", effective_text(result)))
    if row.cost_usd is not None:
        details.append(("cost", f"{units.dollars(row.cost_usd)} {timed_unit(row.metric)}"))
    return [(name, text) for name, text in details if text]


def _published_details(row: Published) -> list[Detail]:
    device = find_device(row.device)
    share, why = peak_share(row)
    details = [("of its peak", f"– ({why})" if share is None else units.share(share))]
    if device is not None:
        details += [("device", _device_text(device)), ("about it", device.note or "")]
    details += [("note", row.note), ("source", row.source)]
    if device is not None and device.source != row.source:
        details.append(("device by", device.source))
    return details


def peak_share(row: Published) -> tuple[float | None, str | None]:
    """Return the operations of a published time as a share of its device's peak, or why not."""
    device = find_device(row.device)
    workload = WORKLOADS.get(row.workload)
    if device is None or workload is None:
        return None, "this device or this workload is not known"
    seconds = row.value / 1000 if row.metric.endswith("_ms") else row.value
    return device.peak_share(operations(row, workload) / seconds, row.precision)


def operations(row: Published, workload: Workload) -> float:
    """Count the floating-point operations that a published time stands for."""
    more = 1.0
    if row.remarks:
        more += MORE_OPERATIONS_PCT[row.workload] / 100
    if row.metric.endswith("_ms"):
        forward = row.metric == "forward_ms"
        of_sample = workload.forward_flops if forward else workload.train_flops
        return more * of_sample * row.batch_size
    epochs = workload.epochs if row.metric == "run_seconds" else 1
    training = epochs * workload.samples * workload.train_flops
    validated = (workload.validation_samples or 0) + (workload.evaluation_samples or 0)
    return training + validated * workload.forward_flops


def _device_text(device: PublishedDevice) -> str:
    """Name what is known of a device: cores, clocks, memory, peak, price."""
    clocks = [mhz for mhz in (device.base_mhz, device.boost_mhz) if mhz is not None]
    size = "" if device.memory_gb is None else f"{device.memory_gb:g} GB"
    memory = " ".join(part for part in (size, device.memory) if part)
    bandwidth = device.bandwidth_gb_s
    printed = device.printed_tflop_s
    as_printed = printed is not None and printed != device.tflop_s
    parts = [
        "" if device.cores is None else f"{device.cores:,} cores",
        f"{' to '.join(f'{mhz:,}' for mhz in clocks)} MHz" if clocks else "",
        memory,
        "" if bandwidth is None else f"{bandwidth:g} GB/s",
        "" if device.tflop_s is None else f"{device.tflop_s:g} TFLOP/s float32",
        f"the article prints {printed:g}" if as_printed else "",
        "" if device.price_usd is None else f"{device.price_usd:,.0f} USD then",
    ]
    return ", ".join(part for part in parts if part)
