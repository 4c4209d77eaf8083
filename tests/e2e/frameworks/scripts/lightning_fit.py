"""A Lightning trainer; arguments: its package, and options of it as JSON."""

import importlib
import json
import logging
import sys
import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

warnings.filterwarnings("ignore")
lightning = importlib.import_module(sys.argv[1])
logging.getLogger(sys.argv[1]).setLevel(logging.ERROR)
options = json.loads(sys.argv[2])


class Stream(IterableDataset):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(self.data)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)
        self.samples = self.steps = 0
        self.losses = []

    def training_step(self, batch, number):
        error = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", error, on_epoch=True)
        self.samples, self.steps = self.samples + len(batch[0]), self.steps + 1
        return error

    def validation_step(self, batch, number):
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def test_step(self, batch, number):
        self.log("test_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def on_train_epoch_end(self):
        self.losses.append(float(self.trainer.callback_metrics["loss"]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


lightning.seed_everything(1)
x, y = torch.randn(203, 8), torch.randn(203, 1)
data = TensorDataset(x, y)
if options.pop("stream", False):
    train = DataLoader(Stream(data), batch_size=16)
else:
    train = DataLoader(data, batch_size=16, shuffle=True)
check = DataLoader(TensorDataset(x[:50], y[:50]), batch_size=16)
module = Module()
trainer = lightning.Trainer(
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    accelerator="cpu",
    **options,
)
trainer.fit(module, train, check)
[tested] = trainer.test(module, check, verbose=False)
counts = {"samples": module.samples, "steps": module.steps, "updates": trainer.global_step}
print(json.dumps({**counts, "epochs": trainer.current_epoch}))
print(module.losses, module.net.weight.tolist())
print(json.dumps(tested))
