"""Loaders that keep one iterator for all epochs; argument: as which package's they do so."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Repeat:
    """A sampler that has no end."""

    def __init__(self, sampler):
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from iter(self.sampler)


class YoloV5(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


class Ultralytics(YoloV5):
    def reset(self):
        self.iterator = self._get_iterator()


class Timm(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._DataLoader__initialized = False
        self.batch_sampler = Repeat(self.batch_sampler)
        self._DataLoader__initialized = True
        self.iterator = super().__iter__()

    def __len__(self):
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


def main(kind, workers):
    torch.manual_seed(0)
    x, y = torch.randn(203, 8), torch.randn(203, 1)
    options = {"batch_size": 16, "num_workers": workers}
    train = kind(TensorDataset(x, y), shuffle=True, **options)
    check = kind(TensorDataset(x[:50], y[:50]), **options)
    model, loss = nn.Linear(8, 1), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    samples = steps = 0
    losses = []
    for epoch in range(3):
        if epoch == 1 and kind is Ultralytics:
            train.reset()
        for a, b in train:
            optimizer.zero_grad()
            error = loss(model(a), b)
            error.backward()
            optimizer.step()
            samples, steps = samples + len(a), steps + 1
            losses.append(error.item())
        with torch.no_grad():
            losses.append(sum(loss(model(a), b).item() for a, b in check))
    print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 3}))
    print(losses)


if __name__ == "__main__":
    main(
        {"yolov5": YoloV5, "ultralytics": Ultralytics, "timm": Timm}[sys.argv[1]], int(sys.argv[2])
    )
