"""Install the hooks in every Python that has this folder on its path, as the import hook does."""

import sys

WATCHED = {
    "torch.utils.data.dataloader": ("pytorch", "watch_loaders"),
    "torch.optim.optimizer": ("pytorch", "watch_optimizers"),
    "accelerate.data_loader": ("pytorch", "watch_accelerate"),
    "lightning.pytorch.trainer.call": ("lightning", "watch_lightning"),
    "pytorch_lightning.trainer.call": ("lightning", "watch_lightning"),
    "transformers.trainer_callback": ("transformers", "watch_transformers"),
}


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in WATCHED:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            import importlib

            from dlmon.instrument.reporter import REPORTER

            file, function = WATCHED[name]
            hooks = importlib.import_module(f"dlmon.instrument.{file}")
            getattr(hooks, function)(module, REPORTER)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
