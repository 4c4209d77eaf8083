"""Let `dlmon exec` watch a script: every Python that it starts imports this first.

Any Python 3 can parse this, and none of its errors reaches the script: they are sent to the monitor
as notices. It removes its folder from the path, watches for imports of frameworks, and then
executes the `sitecustomize` that this Python has otherwise.
"""

import os
import sys


def _dlmon_enter():
    entry = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != entry]
    monitor = os.environ.get("DLMON_SOCKET")
    if monitor:
        try:
            _dlmon_watch(monitor, os.path.join(os.path.dirname(entry), "packages"))
        except Exception as error:
            _dlmon_notice(monitor, "it could not be entered: %s" % error)
    spec = None
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find("sitecustomize", None) if find else None
        if spec is not None:
            break
    if spec is None or spec.loader is None:
        return
    # It replaces this module, which is still being imported.
    module = sys.modules["sitecustomize"]
    module.__file__ = spec.origin
    module.__loader__ = spec.loader
    module.__spec__ = spec
    module.__cached__ = spec.cached
    spec.loader.exec_module(module)


def _dlmon_notice(monitor, why):
    """Send the monitor a notice that this process is not watched."""
    try:
        import json
        import socket
        import time

        text = "Python %d.%d, process %d, is not watched: %s" % (
            sys.version_info[0],
            sys.version_info[1],
            os.getpid(),
            why,
        )
        line = json.dumps({"type": "notice", "t": int(time.monotonic() * 1e9), "text": text})
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(1.0)
        connection.connect(monitor)
        connection.sendall(line.encode() + b"\n")
        connection.close()
    except Exception:
        # The monitor is gone, or memory is short.
        return


def _dlmon_watch(monitor, packages):
    # The names of this module are deleted or replaced after its import.
    import _thread
    import os
    import sys

    notice = _dlmon_notice
    # Installers and test runners start Python too, and don't train.
    tools = ("pip", "pip3", "uv", "pytest", "py.test", "poetry", "hatch", "virtualenv", "venv")
    words = getattr(sys, "orig_argv", [])[1:]
    for number, word in enumerate(words):
        if word == "-m" and number + 1 < len(words):
            if words[number + 1] in tools:
                return None
            break
        if not word.startswith("-"):
            if os.path.basename(word) in tools:
                return None
            break
    with open(os.path.join(os.path.dirname(monitor), "entered"), "w"):
        pass
    if sys.version_info < (3, 10):
        notice(monitor, "that takes Python 3.10 or newer")
        return None

    # Modules of frameworks, and the functions of `dlmon.instrument` that watch them, each followed
    # by the names of the watched functions if it takes them.
    watched = {
        "argparse": None,
        "torch.utils.data.dataloader": "pytorch.watch_loaders",
        "torch.optim.optimizer": "pytorch.watch_optimizers",
        "torch.nn.modules.module": "outermost.watch_networks",
        "torch.autograd": "pytorch.watch_backward",
        "torch._functorch.eager_transforms": "pytorch.watch_functional",
        "torch.distributed.distributed_c10d": "pytorch.watch_collectives",
        "torch.amp.grad_scaler": "pytorch.watch_scalers",
        "torch.amp.autocast_mode": "pytorch.watch_autocast",
        "accelerate.data_loader": "pytorch.watch_accelerate",
        "lightning.pytorch.trainer.call": "trainers.watch_lightning",
        "pytorch_lightning.trainer.call": "trainers.watch_lightning",
        "transformers.trainer_callback": "trainers.watch_transformers",
        "keras.src.callbacks.callback_list": "fits.watch_fits",
        "keras.src.trainers.epoch_iterator": "keras_iterators.watch_data",
        "keras.src.backend.tensorflow.trainer": "fit_watch.watch_single_batches",
        "keras.src.backend.jax.trainer": "fit_watch.watch_single_batches",
        "keras.src.backend.torch.trainer": "fit_watch.watch_single_batches",
        "tf_keras.src.callbacks": "fits.watch_fits",
        "tf_keras.src.engine.data_adapter": "keras_iterators.watch_data",
        "tf_keras.src.engine.training": "fit_watch.watch_single_batches",
        "tensorflow.python.data.ops.dataset_ops": "tapes.watch_datasets",
        "tensorflow.python.eager.polymorphic_function.concrete_function": "tapes.watch_functions",
        "keras.src.optimizers.base_optimizer": "tapes.watch_optimizers",
        "torch.serialization": "pauses.watch_saves save",
        "torch.distributed.checkpoint.state_dict_saver": "pauses.watch_saves save async_save",
        "safetensors.torch": "pauses.watch_saves save_file",
        "safetensors.numpy": "pauses.watch_saves save_file",
        "keras.src.saving.saving_api": "pauses.watch_saves save_model save_weights",
        "tf_keras.src.saving.saving_api": "pauses.watch_saves save_model save_weights",
        "lightning.pytorch.trainer.trainer": "pauses.watch_saves Trainer.save_checkpoint",
        "pytorch_lightning.trainer.trainer": "pauses.watch_saves Trainer.save_checkpoint",
        "lightning.fabric.fabric": "pauses.watch_saves Fabric.save",
        "lightning_fabric.fabric": "pauses.watch_saves Fabric.save",
        "transformers.trainer": "pauses.watch_saves Trainer._save_checkpoint",
        "accelerate.accelerator": "pauses.watch_saves Accelerator.save_state",
        "orbax.checkpoint._src.checkpointers.checkpointer": "pauses.watch_saves Checkpointer.save",
        "orbax.checkpoint._src.checkpointers.async_checkpointer": (
            "pauses.watch_saves AsyncCheckpointer.save"
        ),
        "torch._dynamo.callback": "pauses.watch_compiler",
        "torch._dynamo.eval_frame": "step_parts.watch_compiled",
        "torch._dynamo.guards": "pauses.watch_guards",
        "torch.nn.utils.clip_grad": "pytorch.watch_clipping",
        "torch.cuda.memory": "pytorch.watch_memory",
        "jax._src.monitoring": "pauses.watch_jax",
        "xgboost.training": "boosting.watch_xgboost",
        "lightgbm.engine": "boosting.watch_lightgbm",
        "wandb": "tracker_runs.watch_runs",
        "mlflow": "tracker_runs.watch_runs",
        "trackio": "tracker_runs.watch_runs",
        "tensorboard.summary.writer.event_file_writer": (
            "tracker_runs.watch_event_files EventFileWriter"
        ),
        "tensorboardX.event_file_writer": "tracker_runs.watch_event_files EventFileWriter",
        "tensorflow.python.ops.summary_ops_v2": (
            "tracker_runs.watch_event_files create_file_writer_v2"
        ),
        "tensorflow": None,
        "jax": None,
    }

    # The functions that set what the job asks for, by the modules in which they set it.
    injected = {
        "torch": "torch_injections.into_torch",
        "keras.src.trainers.trainer": "keras_injections.into_models",
        "keras.src.backend.tensorflow.trainer": "keras_injections.into_fits",
        "keras.src.backend.jax.trainer": "keras_injections.into_fits",
        "keras.src.backend.torch.trainer": "keras_injections.into_fits",
        "keras.src.dtype_policies.dtype_policy": "keras_injections.into_policies",
    }
    if not os.environ.get("DLMON_INJECTED"):
        injected.clear()

    loading = _thread.RLock()

    def load(function=None, module=None):
        """Call a function of `dlmon.instrument`, imported from our folder; return the reporter."""
        # Another thread would take our `sys.path` for the script's.
        with loading:
            return load_with_own_path(function, module)

    def load_with_own_path(function, module):
        import importlib
        import importlib.util

        path, standard = list(sys.path), os.path.dirname(os.__file__)
        standard_folders = (standard, os.path.join(standard, "lib-dynload"))
        # The script's folder may have modules with names of the standard library.
        sys.path[:] = [folder for folder in path if folder in standard_folders]
        try:
            if "_dlmon_monitor" not in sys.modules:
                ours = os.path.join(packages, "_dlmon_monitor")
                spec = importlib.util.spec_from_file_location(
                    "_dlmon_monitor",
                    os.path.join(ours, "__init__.py"),
                    submodule_search_locations=[ours],
                )
                package = importlib.util.module_from_spec(spec)
                sys.modules["_dlmon_monitor"] = package
                spec.loader.exec_module(package)
                places = importlib.import_module("_dlmon_monitor.instrument.warning_places")
                places.leave_out(os.path.dirname(packages) + os.sep, load.__code__.co_filename)
            reporter = importlib.import_module("_dlmon_monitor.instrument.reporter").REPORTER
            if function is not None:
                function, *names = function.split()
                instrument, _, watch = function.partition(".")
                instrument = importlib.import_module("_dlmon_monitor.instrument." + instrument)
                try:
                    getattr(instrument, watch)(module, reporter, *names)
                except Exception as error:
                    # An unexpected version of the framework: figures might be wrong.
                    reporter.turn_off(error)
            return reporter
        finally:
            sys.path[:] = path

    def saw(event):
        """Tell the monitor of an event, as `Reporter.saw` does."""
        try:
            with open(os.path.join(os.path.dirname(monitor), "seen " + event), "w"):
                pass
        except (OSError, MemoryError):
            return

    def fail(error):
        """Tell the monitor why a framework is not watched."""
        # If memory is short, the notice can't be sent.
        saw("unwatched " + type(error).__name__)
        notice(monitor, "%s: %s" % (type(error).__name__, error))

    def keep_arguments(module):
        """Keep the numbers and texts that argparse parses: one may be the length of the loop."""
        import functools

        kind = module.ArgumentParser
        function = kind.parse_known_args

        @functools.wraps(function)
        def parse_known_args(self, *arguments, **named):
            try:
                parsed = function(self, *arguments, **named)
            except BaseException as error:
                if error.__traceback__ is not None:
                    error.__traceback__ = error.__traceback__.tb_next
                raise
            try:
                watcher.arguments_of_script = {
                    name: value
                    for name, value in vars(parsed[0]).items()
                    if isinstance(value, (int, float, str))
                }
            except Exception:
                watcher.arguments_of_script = None
            return parsed

        kind.parse_known_args = parse_known_args

    def attach(name, module):
        functions = [table.pop(name) for table in (watched, injected) if name in table]
        if name == "argparse":
            if functions:
                keep_arguments(module)
            return
        if functions:
            saw(name.partition(".")[0])
        for function in functions:
            if function is not None:
                try:
                    load(function, module)
                except Exception as error:
                    fail(error)

    class Watcher:
        """Finds watched modules by the other finders, and attaches hooks after their import."""

        def __init__(self):
            self.searched = set()
            self.arguments_of_script = None

        def load_of_dlmon(self, name):
            """Return a module of dlmon, for a script that reports its own loop."""
            import importlib

            try:
                load()
                return importlib.import_module("_dlmon_monitor." + name)
            except Exception as error:
                fail(error)
                raise

        def find_spec(self, name, path=None, target=None):
            if (name not in watched and name not in injected) or name in self.searched:
                return None
            self.searched.add(name)
            try:
                for finder in list(sys.meta_path):
                    find = getattr(finder, "find_spec", None)
                    spec = find(name, path, target) if find and finder is not self else None
                    if spec is not None:
                        break
                else:
                    return None
            finally:
                self.searched.discard(name)
            loader = spec.loader
            run = getattr(loader, "exec_module", None)
            if run is None:
                return spec

            def exec_module(module):
                del loader.exec_module
                run(module)
                attach(name, module)

            # For this loader only, and until it has run once.
            loader.exec_module = exec_module
            return spec

    watcher = Watcher()
    sys.meta_path.insert(0, watcher)
    # In a notebook, modules are imported before this.
    for name in [*watched, *injected]:
        if name in sys.modules:
            attach(name, sys.modules[name])
    return watcher


if __name__ == "sitecustomize":
    _dlmon_enter()
    for _dlmon_name in [name for name in globals() if name.startswith("_dlmon_")]:
        del globals()[_dlmon_name]
else:
    watch = _dlmon_watch
