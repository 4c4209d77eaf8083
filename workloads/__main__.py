"""Build, train and report one workload: `python -P -m workloads`.

The options come as one line of JSON on stdin; records go to the pipe named by
DLMON_RECORDS_FD. Exit code 0: done; 1: failed; 75: ended early because it was asked to.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
from types import FrameType
from typing import Any

from dlmon.emit import Emitter
from dlmon.records import Failure, Model, Notice, Phase
from workloads.catalog import Workload, find

STOPPED = 75


class Stopped(BaseException):
    """Raised by the stop signal where there is no batch to wait for."""


class Refused(Exception):
    """The run can't go on; the message is a sentence for a person."""


class Run:
    """One training run, told to an emitter phase by phase."""

    def __init__(self, workload: Workload, options: dict[str, Any], emitter: Emitter) -> None:
        self.workload = workload
        self.options = options
        self.emitter = emitter
        self.batch_size = int(options.get("batch_size") or workload.batch_size)
        self.epochs = int(options.get("epochs") or workload.epochs)
        self.steps_cap: int | None = options.get("steps")
        self._fitting = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle the stop signal: after this batch while training, at once otherwise."""
        self.emitter.stop_requested = True
        if not self._fitting:
            raise Stopped

    def train(self) -> None:
        """Import, load, build, train, evaluate."""
        self._enter("importing")
        tensorflow, device, device_name = self._backend()
        self._enter("loading")
        data = self._load()
        samples = len(data.x_train)
        if self.batch_size > samples:
            raise Refused(
                f"the batch size {self.batch_size:,} is larger than the {samples:,} samples "
                "of the data; choose a smaller one with --batch-size"
            )
        self._enter("building")
        keras = importlib.import_module("keras")
        # A user's keras.json may name another.
        keras.config.set_dtype_policy(self.workload.precision)
        module = importlib.import_module(self.workload.module)
        model = module.build(self.workload)
        validation = self._head(data, self.workload.validation_samples)
        evaluation = self._head(data, self.workload.evaluation_samples)
        self.emitter.send(
            Model(
                parameters=model.count_params(),
                flops_per_sample=self.workload.train_flops,
                batch_size=self.batch_size,
                samples_per_epoch=samples,
                steps_per_epoch=self._steps(samples),
                epochs=self.epochs,
                validation_steps=self._steps(len(validation[0])) if validation else None,
                validation_samples=len(validation[0]) if validation else None,
                evaluation_steps=self._steps(len(evaluation[0])) if evaluation else None,
                steps_cap=self.steps_cap,
                data=data.origin,
                device=device,
                device_name=device_name,
                backend="tensorflow",
                backend_version=tensorflow.__version__,
                keras_version=keras.__version__,
            )
        )
        self._fit(model, data, validation, evaluation)

    def _fit(self, model: Any, data: Any, validation: Any, evaluation: Any) -> None:
        # The callback imports Keras, so it can't be imported before the backend is set up.
        from dlmon.keras import TrainingCallback

        x, y = self._capped(data.x_train, data.y_train)
        validation = self._capped(*validation) if validation else None
        evaluation = self._capped(*evaluation) if evaluation else None
        callback = TrainingCallback(
            self.emitter,
            batch_size=self.batch_size,
            samples_per_epoch=len(x),
            capped=len(x) < len(data.x_train),
            validation_steps=self._steps(len(validation[0])) if validation else None,
            evaluation_samples=len(evaluation[0]) if evaluation else None,
        )
        self._fitting = True
        model.fit(
            x,
            y,
            batch_size=self.batch_size,
            epochs=self.epochs,
            validation_data=validation,
            callbacks=[callback],
            verbose=2,
        )
        if evaluation and not self.emitter.stop_requested:
            model.evaluate(*evaluation, batch_size=self.batch_size, callbacks=[callback], verbose=2)

    def _enter(self, phase: str) -> None:
        self.emitter.send(Phase(t=time.monotonic_ns(), name=phase))

    def _steps(self, samples: int) -> int:
        return -(-samples // self.batch_size)

    def _capped(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the samples that `--steps` batches hold; all of them without a cap."""
        if self.steps_cap is None:
            return x, y
        most = self.steps_cap * self.batch_size
        return x[:most], y[:most]

    def _head(self, data: Any, count: int | None) -> tuple[Any, Any] | None:
        return (data.x_test[:count], data.y_test[:count]) if count else None

    def _load(self) -> Any:
        from workloads.data import DataError, load

        try:
            return load(self.workload.dataset, str(self.options.get("data") or "auto"))
        except DataError as error:
            raise Refused(str(error)) from None

    def _backend(self) -> tuple[Any, str, str | None]:
        """Import TensorFlow and choose the device; return it, `cpu` or `gpu:N`, and its name."""
        try:
            tensorflow = importlib.import_module("tensorflow")
            importlib.import_module("keras")
        except ModuleNotFoundError as error:
            if error.name in ("tensorflow", "keras"):
                raise Refused(
                    f"{error.name} is not installed in {sys.executable}; "
                    f"install it there with: pip install {error.name}"
                ) from None
            raise Refused(f"TensorFlow can't be imported: {_one_line(error)}") from error
        except Exception as error:
            raise Refused(f"TensorFlow can't be imported: {_one_line(error)}") from error
        threads = self.options.get("threads")
        if threads:
            tensorflow.config.threading.set_intra_op_parallelism_threads(int(threads))
            tensorflow.config.threading.set_inter_op_parallelism_threads(int(threads))
        wanted = self.options.get("device", "auto")
        gpus = [] if wanted == "cpu" else tensorflow.config.list_physical_devices("GPU")
        index = self.options.get("gpu_index")
        if gpus:
            details = tensorflow.config.experimental.get_device_details(gpus[0])
            # Without a number, a CUDA_VISIBLE_DEVICES of the user's own chose the GPU.
            device = "gpu" if index is None else f"gpu:{index}"
            return tensorflow, device, details.get("device_name")
        if wanted == "cpu" or (wanted == "auto" and index is None):
            return tensorflow, "cpu", None
        reason = _why_no_gpu(tensorflow, index)
        if wanted == "gpu":
            raise Refused(reason)
        self.emitter.send(Notice(time.monotonic_ns(), f"{reason}; training on the CPU instead"))
        return tensorflow, "cpu", None


def _why_no_gpu(tensorflow: Any, index: int | None) -> str:
    """Say why TensorFlow sees none of the GPUs that NVML sees."""
    name = "a GPU" if index is None else f"GPU {index}"
    reason = f"NVML sees {name}, but TensorFlow {tensorflow.__version__} sees none"
    if not tensorflow.test.is_built_with_cuda():
        return f"{reason}: it was built without CUDA (pip install 'dlmon[cuda]')"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if index is None and visible is not None:
        return f"{reason}: CUDA_VISIBLE_DEVICES={visible} may hide it"
    return f"{reason}: its CUDA libraries are missing or the driver is too old for them"


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__


def _in_words(error: Exception, batch_size: int) -> str:
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
        return f"memory ran out with batch size {batch_size:,} ({_one_line(error)})"
    return _one_line(error)


def main() -> int:
    """Run the workload that stdin describes; return the exit code."""
    emitter = Emitter(int(os.environ.pop("DLMON_RECORDS_FD")))
    options: dict[str, Any] = json.loads(sys.stdin.readline())
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Otherwise TensorFlow takes all of a GPU's memory, and the figure shown says nothing.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    run = Run(find(options["workload"]), options, emitter)
    signal.signal(signal.SIGUSR1, run.stop)
    try:
        run.train()
    except Stopped:
        return STOPPED
    except Exception as error:  # noqa: BLE001 - whatever it is, the log must say it
        if not isinstance(error, Refused):
            traceback.print_exc()
        words = _in_words(error, run.batch_size)
        emitter.send(Failure(time.monotonic_ns(), words))
        return 1
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        emitter.close()
    return STOPPED if emitter.stop_requested else 0


if __name__ == "__main__":
    sys.exit(main())
