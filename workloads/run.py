"""One run of a workload, from its import to its last batch."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from dlmon.instrument.fit_report import FitPlan
from dlmon.instrument.reporter import Reporter
from dlmon.records import GRADIENTS_PHASE, Model, Notice, Phase
from workloads.backends import check_jit, choose_backend, spread
from workloads.catalog import Workload
from workloads.failure import RunRefused
from workloads.minimum_time import MinimumTime

if TYPE_CHECKING:
    # It imports NumPy, which sizes its thread pool on import.
    from workloads.data.feed import Feed


class Stopped(BaseException):
    """Raised by the stop signal if no batch is running."""


@dataclass(frozen=True)
class Feeds:
    """The passes of a run; `whole` is an epoch without a cap, None if samples are endless."""

    main: Feed
    whole: Feed | None
    validation: Feed | None
    evaluation: Feed | None
    origin: str
    vocabulary: int | None

    @property
    def capped(self) -> bool:
        return self.whole is None or self.main.samples < self.whole.samples

    def untuned(self, shuffle: bool) -> Feeds:
        """Return the feeds without tf.data's autotuning.

        Epochs that are cut short tear down the pipeline more often than real training does.
        """
        from workloads.data.batches import untuned

        return replace(
            self,
            main=untuned(self.main, shuffle),
            validation=untuned(self.validation) if self.validation else None,
            evaluation=untuned(self.evaluation) if self.evaluation else None,
        )


class WorkloadRun:
    """One run of a workload in its mode, reported phase by phase."""

    def __init__(self, workload: Workload, options: dict[str, Any], reporter: Reporter) -> None:
        self.workload = workload
        self.options = options
        self.reporter = reporter
        devices: int | None = options.get("devices")
        self._batch_size: int | None = options.get("batch_size")
        self.batch_size = int(self._batch_size or workload.batch_size * (devices or 1))
        self.epochs = int(options.get("epochs") or workload.epochs)
        self.steps_cap: int | None = options.get("steps") or workload.steps
        self.seconds = float(options.get("seconds") or 0.0)
        self.mode = str(options.get("mode") or workload.mode)
        self.precision = str(options.get("precision") or workload.precision)
        training = self.mode == "train"
        self.validation_samples = workload.validation_samples if training else None
        self.evaluation_samples = workload.evaluation_samples if training else None
        self.device: str | None = None
        self._in_batches = False

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle the stop signal: stop after the running batch, or at once if none runs."""
        self.reporter.reads.ask_to_stop()
        if not self._in_batches:
            raise Stopped

    def run(self) -> None:
        """Import, load, build, and then train, compute gradients or predict, by mode."""
        self._enter("importing")
        backend = choose_backend(self.options)
        self.device = backend.device
        if backend.notice is not None:
            self.reporter.send(Notice(time.monotonic_ns(), backend.notice))
        jit = str(self.options.get("jit") or "auto")
        if jit == "on":
            check_jit(backend.name, backend.device, backend.version)
        self._enter("loading")
        devices = backend.devices
        self.batch_size = int(self._batch_size or self.workload.batch_size * devices)
        if self.batch_size % devices:
            raise RunRefused(
                f"a batch of {self.batch_size:,} samples can't be divided among {devices} devices: "
                f"use --batch-size {self.batch_size - self.batch_size % devices + devices:,}"
            )
        feeds = self._load(devices)
        if feeds.capped and backend.name == "tensorflow":
            feeds = feeds.untuned(shuffle=self.mode != "inference")
        self._enter("building")
        keras = importlib.import_module("keras")
        # A user's keras.json may name another policy.
        keras.config.set_dtype_policy(self.precision)
        models = importlib.import_module("workloads.models")
        with spread(backend):
            model = models.build(self.workload, feeds.vocabulary)
            if self.mode == "gradients":
                importlib.import_module("workloads.gradients").leave_out_update(model)
        self._set_jit(model, jit)
        record = Model(
            parameters=model.count_params(),
            flops_per_sample=self.workload.flops_per_sample(self.mode),
            batch_size=self.batch_size,
            samples_per_epoch=feeds.whole.samples if feeds.whole else 0,
            steps_per_epoch=(feeds.whole or feeds.main).steps,
            epochs=self.epochs,
            validation_steps=self._steps(self.validation_samples),
            validation_samples=self.validation_samples,
            evaluation_steps=self._steps(self.evaluation_samples),
            steps_cap=self.steps_cap,
            data=feeds.origin,
            device=backend.device,
            devices=devices if devices > 1 else None,
            device_name=backend.device_name,
            backend=backend.name,
            backend_version=backend.version,
            keras_version=keras.__version__,
            mode=self.mode,
            precision=self.precision,
            jit=bool(model.jit_compile),
            sequence=self.workload.tokens_per_sample,
        )
        self.reporter.send(record)
        minimum_time = MinimumTime(self.reporter, record, self.seconds)
        if self.mode == "inference":
            self._predict(model, feeds, minimum_time)
            return
        self._fit(model, feeds, minimum_time)

    def _set_jit(self, model: Any, jit: str) -> None:
        """Turn compilation of the whole step on or off; `auto` leaves it to Keras."""
        if jit == "auto":
            return
        model.jit_compile = jit == "on"
        if jit == "on" and not model.jit_compile:
            raise RunRefused(
                f"Keras can't compile {self.workload.name} as a whole here: one of its layers "
                "doesn't support that; use --jit auto or off"
            )

    def _fit(self, model: Any, feeds: Feeds, minimum_time: MinimumTime) -> None:
        # These import Keras, so they can't be imported before the backend is set up.
        from workloads.callbacks import RequestedEpochs, reporting_callback

        feed, validation, evaluation = feeds.main, feeds.validation, feeds.evaluation
        callback = reporting_callback(self.reporter, self._plan(feeds))
        self._in_batches = True
        model.fit(
            feed.x,
            feed.y,
            batch_size=self.batch_size,
            epochs=minimum_time.max_epochs,
            shuffle=feed.shuffle,
            validation_data=(validation.x, validation.y) if validation else None,
            callbacks=[callback, RequestedEpochs(self.epochs, minimum_time)],
            verbose=2,
        )
        if evaluation and not self.reporter.reads.stop_requested:
            model.evaluate(
                evaluation.x,
                evaluation.y,
                batch_size=self.batch_size,
                callbacks=[callback],
                verbose=2,
            )

    def _predict(self, model: Any, feeds: Feeds, minimum_time: MinimumTime) -> None:
        """Go through the training samples once an epoch, forward only."""
        from workloads.callbacks import inference_callback

        callback = inference_callback(self.reporter, self._plan(feeds))
        self._in_batches = True
        passes = took_ns = 0
        while minimum_time.should_continue(passes, took_ns):
            begin_ns = time.monotonic_ns()
            model.predict(
                feeds.main.x,
                batch_size=self.batch_size,
                callbacks=[callback],
                verbose=2 if passes < self.epochs else 0,
            )
            passes, took_ns = passes + 1, time.monotonic_ns() - begin_ns
            if self.reporter.reads.stop_requested:
                return

    def _plan(self, feeds: Feeds) -> FitPlan:
        phases = {"train": "training", "gradients": GRADIENTS_PHASE, "inference": "predicting"}
        training = feeds.main.sizes
        if self.workload.tokens_per_sample is not None:
            training.tokens = (self.workload.tokens_per_sample, None)
        return FitPlan(
            training=training,
            validation=feeds.validation.sizes if feeds.validation else None,
            evaluation=feeds.evaluation.sizes if feeds.evaluation else None,
            phase=phases[self.mode],
            capped=feeds.capped,
            # `--steps` leaves out a part of the test set.
            evaluation_capped=feeds.evaluation is not None
            and self.steps_cap is not None
            and feeds.evaluation.samples < (self.evaluation_samples or 0),
        )

    def _load(self, devices: int) -> Feeds:
        """Load the data and cut them into batches, without a rest that devices can't share."""
        from workloads.data.dataset import DataError
        from workloads.data.load import load

        def testing(samples: int | None) -> Feed | None:
            if not samples:
                return None
            return data.testing(samples - samples % devices, self.batch_size, self.steps_cap)

        try:
            data = load(self.workload.dataset, str(self.options.get("data") or "auto"))
            data = data.dividing_into(devices)
            passes = data.inference if self.mode == "inference" else data.training
            main = passes(self.batch_size, self.steps_cap)
            return Feeds(
                main=main,
                whole=None if data.repeated else passes(self.batch_size),
                validation=testing(self.validation_samples),
                evaluation=testing(self.evaluation_samples),
                origin=data.origin,
                vocabulary=data.vocabulary,
            )
        except DataError as error:
            raise RunRefused(str(error)) from None

    def _enter(self, phase: str) -> None:
        self.reporter.send(Phase(t=time.monotonic_ns(), name=phase))

    def _steps(self, samples: int | None) -> int | None:
        return -(-samples // self.batch_size) if samples else None
