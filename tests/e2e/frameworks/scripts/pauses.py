"""A script that saves, compiles and collects garbage: each takes 0.2 s, and says when it did.

Argument: what trains. The times of each kind are printed on stderr, as JSON.
"""

import gc
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

# What is collected is collected where it says so, however busy the machine is.
gc.disable()
folder = Path(tempfile.mkdtemp())
seen = {"checkpoint": [], "compile": [], "garbage": [], "beside": []}


class Slow:
    """Takes its time to be saved."""

    def __reduce__(self):
        time.sleep(0.2)
        return Slow, ()


class Cycle:
    """Takes its time to be collected."""

    def __init__(self):
        self.own = self

    def __del__(self):
        time.sleep(0.2)


def timed(kind, function, *arguments, **named):
    begin = time.monotonic_ns()
    answer = function(*arguments, **named)
    seen[kind].append((begin, time.monotonic_ns()))
    return answer


def with_pytorch():
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    def slow_backend(graph, inputs):
        time.sleep(0.2)
        return graph.forward

    @torch.compile(backend=slow_backend, fullgraph=True)
    def clip_compiled():
        return nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def forward(x):
        y = model(x)
        torch._dynamo.graph_break()
        return y * 2

    model = nn.Linear(8, 1)
    compiled = torch.compile(forward, backend=slow_backend, dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(torch.randn(104, 8), torch.randn(104, 1)), batch_size=16)
    for is_first in (True, False):
        for number, (a, b) in enumerate(loader):
            is_new = is_first and number in (0, 6)
            predicted = timed("compile", compiled, a) if is_new else compiled(a)
            optimizer.zero_grad()
            nn.functional.mse_loss(predicted, b).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if number == 3:
                timed("checkpoint", torch.save, {"slow": Slow()}, folder / "step.pt")
                Cycle()
                timed("garbage", gc.collect)
                timed("compile", clip_compiled) if is_first else clip_compiled()
        with torch.no_grad():
            for a, _b in loader:
                model(a)
            timed("checkpoint", torch.save, Slow(), folder / "epoch.pt")
    save = threading.Thread(target=torch.save, args=(Slow(), folder / "beside.pt"))
    timed("beside", lambda: (save.start(), save.join()))


def with_lightning():
    import lightning.pytorch as lightning
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(8, 1)

        def training_step(self, batch, number):
            return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def on_save_checkpoint(self, checkpoint):
            checkpoint["slow"] = Slow()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)

    class Checkpoint(lightning.callbacks.ModelCheckpoint):
        def _save_checkpoint(self, trainer, filepath):
            timed("checkpoint", super()._save_checkpoint, trainer, filepath)

    monitor = lightning.callbacks.LearningRateMonitor()
    trainer = lightning.Trainer(
        max_epochs=2,
        gradient_clip_val=1.0,
        accelerator="cpu",
        callbacks=[Checkpoint(folder), monitor],
        logger=lightning.loggers.CSVLogger(folder),
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = TensorDataset(torch.randn(96, 8), torch.randn(96, 1))
    trainer.fit(Module(), DataLoader(data, batch_size=16))


def with_transformers():
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(8, 1)

        def forward(self, x, y):
            return {"loss": torch.nn.functional.mse_loss(self.net(x), y)}

        def state_dict(self, *arguments, **named):
            time.sleep(0.2)
            return super().state_dict(*arguments, **named)

    class Trainer(transformers.Trainer):
        def _save_checkpoint(self, *arguments, **named):
            timed("checkpoint", super()._save_checkpoint, *arguments, **named)

    arguments = transformers.TrainingArguments(
        folder,
        max_steps=12,
        save_strategy="steps",
        save_steps=6,
        learning_rate=0.05,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    data = [{"x": torch.randn(8), "y": torch.randn(1)} for _ in range(96)]
    Trainer(Model(), arguments, train_dataset=data).train()


def with_keras():
    import keras
    import numpy

    class Layer(keras.layers.Dense):
        def save_own_variables(self, store):
            time.sleep(0.2)
            super().save_own_variables(store)

    class Checkpoint(keras.callbacks.ModelCheckpoint):
        def _save_model(self, epoch, batch, logs):
            timed("checkpoint", super()._save_model, epoch, batch, logs)

    model = keras.Sequential([keras.Input((8,)), Layer(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    x, y = numpy.zeros((96, 8)), numpy.zeros((96, 1))
    checkpoint = Checkpoint(str(folder / "model.keras"))
    model.fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=[checkpoint])
    timed("checkpoint", model.save_weights, str(folder / "last.weights.h5"))


trained = {
    "pytorch": with_pytorch,
    "lightning": with_lightning,
    "transformers": with_transformers,
    "keras": with_keras,
}
trained[sys.argv[1]]()
print(json.dumps(seen), file=sys.stderr)
