"""The matmul peak of this machine's devices: measured by a child process, kept in a file.

A run's operations per second mean something beside the most that the device can do.
`dlmon doctor --calibrate` measures that; the file is read for every result. Its content is
untrusted, like any log: it is checked and cleaned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

from dlmon.comparison.published import find_device
from dlmon.records import MachineFacts, Model
from dlmon.records.codec import read_object
from dlmon.records.record import record
from dlmon.records.sanitize import clean
from dlmon.system.files import read_regular
from dlmon.system.private_files import write_private

SCHEMA = 1
COMMAND = "dlmon doctor --calibrate"
_LARGEST_FILE = 1_000_000
_LONGEST_TEXT = 200
_LAST_WALL = 2**37  # the year 6325; calendars can't represent much later ones
FLOAT32, TF32 = "float32", "tf32"
WITH_TF32, WITHOUT_TF32 = "TF32 where the GPU has it", "without TF32"
"""The note of a peak: how products of float32 were computed on a GPU."""
MEASURED = "measured"
# Keras's dtype policies, with the precision of most of their products.
_PRECISION_OF_POLICY = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}


class CalibrationError(Exception):
    """No calibration can be read or made; the message is a sentence with the remedy."""


@record(frozen=True)
class Peak:
    """The most floating-point operations per second of one device in one precision.

    Attributes:
        device: "cpu" or "gpu".
        device_name: the CPU's model, or the GPU's name.
        precision: "float32", "bfloat16" or "float16".
        flop_s: 2 n³ operations over the median time of a product of n × n matrices.
        size: the n with the best result.
        wall: the time of the measurement, in Unix seconds.
        versions: of the software that measured it.
        note: a remark, such as that TF32 was used for float32.
    """

    device: str
    device_name: str
    precision: str
    flop_s: float
    size: int
    wall: float
    versions: dict[str, str] = field(default_factory=dict)
    note: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return _key(self.device, self.device_name, self.precision)

    def is_of(self, device: str, device_name: str) -> bool:
        """Return whether it was measured on this device ("cpu" or "gpu") of this name."""
        return self.key == _key(device, device_name, self.precision)


def calibration_path() -> Path:
    """Return the path of this user's calibration."""
    import platformdirs  # costs more than reading the file

    return Path(platformdirs.user_state_path("dlmon", appauthor=False)) / "calibration.json"


def read_peaks(path: Path) -> tuple[Peak, ...]:
    """Return the peaks in a file; none if there is no file.

    Raises:
        CalibrationError: it can't be read, or isn't a calibration.
    """
    try:
        text = read_regular(path, _LARGEST_FILE)
    except FileNotFoundError:
        return ()
    except OSError as error:
        reason = error.strerror or str(error)
        raise CalibrationError(f"{path} can't be read ({reason}); run `{COMMAND}` again") from None
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise ValueError("another schema")
        return tuple(read_peak(item) for item in content["peaks"])
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise CalibrationError(f"{path} holds no calibration; run `{COMMAND}` again") from None


def write_peaks(path: Path, peaks: Sequence[Peak]) -> None:
    """Write peaks atomically; of peaks with the same key the last one is kept.

    Raises:
        CalibrationError: it can't be written.
    """
    newest = {peak.key: peak for peak in peaks}
    content = {"schema": SCHEMA, "peaks": [asdict(peak) for peak in newest.values()]}
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    try:
        write_private(path, text.encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise CalibrationError(f"the calibration can't be kept in {path} ({reason})") from None


def find_peak(
    peaks: Sequence[Peak], device: str, device_name: str | None, precision: str
) -> Peak | None:
    """Return the peak that a run on a device compares with; None if there is none.

    Args:
        peaks: from `read_peaks`.
        device: cpu, gpu or gpu:N.
        device_name: the CPU's model, or the GPU's name.
        precision: float32, tf32, float16, bfloat16, or a dtype policy of Keras.
    """
    kind = device.partition(":")[0]
    name = device_name or ("CPU" if kind == "cpu" else "")
    precision = _PRECISION_OF_POLICY.get(precision, precision)
    key = _key(kind, name, FLOAT32 if precision == TF32 else precision)
    peak = next((peak for peak in peaks if peak.key == key), None)
    if peak is not None and kind == "gpu":
        # TF32 and float32 have the same key, but not the same peak.
        wrong_note = {TF32: WITHOUT_TF32, FLOAT32: WITH_TF32}.get(precision)
        if wrong_note is not None and wrong_note in (peak.note or ""):
            return None
    return peak


def precision_of(model: Model) -> str | None:
    """Return the precision of a run's products: TF32 if its framework uses it for float32."""
    if model.compute_precision is not None:
        return model.compute_precision
    precision = _PRECISION_OF_POLICY.get(model.precision or "", model.precision)
    # PyTorch doesn't use TF32 unless the script asks for it.
    is_tf32 = precision == FLOAT32 and model.backend in ("tensorflow", "jax")
    return TF32 if is_tf32 and model.device != "cpu" else precision


def with_peak(model: Model, machine: MachineFacts, some_cpus: bool = False) -> Model:
    """Return a model with the peak operations per second of one of its devices.

    The peak is the measured one, else the maker's figure for dense matrices; `why` holds the
    reason if there is none.

    Args:
        model: the model that runs.
        machine: the machine that it runs on.
        some_cpus: whether it may use only some of the machine's CPUs.
    """
    precision = precision_of(model)
    if model.peak_flop_s is not None:
        return model
    if model.device is None or precision is None:
        why = "what it computes in is not known"
        if model.device is None:
            why = model.why.get("device", "its device is not known")
        return replace(model, why={**model.why, "peak_flop_s": why})
    if model.device == "cpu":
        name, device = model.device_name or machine.cpu_model, None
    else:
        names = {gpu.index: gpu.name for gpu in machine.gpus or ()}
        name = model.device_name or next((names.get(number) for number in model.gpus), None)
        device = find_device(name or "")
    if precision == TF32 and device is not None and device.tflop_s_tf32 is None:
        # GPUs before Ampere have no TF32.
        precision = FLOAT32
    peak: float | None = None
    reason = "the peak was measured on all CPUs, and this run had only some of them"
    if model.device != "cpu" or not some_cpus:
        try:
            measured = find_peak(read_peaks(calibration_path()), model.device, name, precision)
            peak = None if measured is None else measured.flop_s
            reason = f"this device was not calibrated for {precision} ({COMMAND})"
        except CalibrationError as error:
            reason = str(error)
        except RuntimeError:
            reason = "there is no home directory, so no calibration is kept"
    peak_from, tflop_s = MEASURED, None if device is None else device.peak_tflop_s(precision)
    if peak is None and device is not None and tflop_s is not None:
        peak, peak_from = tflop_s * 1e12, "AMD" if device.name.startswith("AMD") else "NVIDIA"
    model = replace(model, compute_precision=precision, peak_flop_s=peak)
    if peak is None:
        return replace(model, why={**model.why, "peak_flop_s": reason})
    return replace(model, peak_from=peak_from)


def flop_s_text(flop_s: float) -> str:
    """Write operations per second: 186 GFLOP/s, 1.25 TFLOP/s."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9)):
        if flop_s >= size:
            return f"{flop_s / size:.3g} {unit}FLOP/s"
    return f"{flop_s / 1e6:.3g} MFLOP/s"


def _key(device: str, device_name: str, precision: str) -> tuple[str, str, str]:
    return device, " ".join(device_name.casefold().split()), precision


def read_peak(fields: Any) -> Peak:
    """Return a peak from a file or the child process, checked and cleaned.

    Raises:
        ValueError: a field is missing or invalid.
    """
    peak = read_object(Peak, fields)
    is_possible = 0 < peak.flop_s < math.inf and 0 < peak.size < 2**31
    if not is_possible or not 0 <= peak.wall < _LAST_WALL:
        raise ValueError("a positive number was expected")
    return peak


def checked_text(value: Any) -> str:
    """Return an untrusted text, cleaned; raise TypeError if it isn't a text."""
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return clean(value, _LONGEST_TEXT)


def checked_texts(value: Any) -> dict[str, str]:
    """Return untrusted named texts, cleaned; raise TypeError if they aren't texts."""
    if not isinstance(value, dict) or len(value) > 20:
        raise TypeError("names with texts were expected")
    return {checked_text(name): checked_text(text) for name, text in value.items()}
