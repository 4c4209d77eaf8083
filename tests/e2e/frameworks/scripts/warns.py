"""Calls what PyTorch, and classes of the script's own, warn of: each names a line of this file."""

import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


class Own(DataLoader):
    def __iter__(self):
        warnings.warn("a loader of its own", stacklevel=2)
        return super().__iter__()


class Longer(IterableDataset):
    def __len__(self):
        return 2

    def __iter__(self):
        return iter(torch.zeros(5, 1))


class Optimizer(torch.optim.SGD):
    def step(self, *arguments):
        warnings.warn("it steps", stacklevel=2)
        return super().step(*arguments)

    def zero_grad(self, *arguments):
        warnings.warn("it zeroes", stacklevel=2)
        return super().zero_grad(*arguments)


def main():
    model = nn.Linear(2, 1)
    optimizer = Optimizer(model.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    schedule.step()
    torch.optim.SGD([{"params": [model.weight, model.weight]}], lr=1e-4)
    DataLoader(range(9), num_workers=1000)
    list(DataLoader(Longer(), batch_size=1))
    for a, b in Own(TensorDataset(torch.zeros(8, 2), torch.zeros(8, 1)), batch_size=4):
        optimizer.zero_grad()
        ((model(a) - b) ** 2).mean().backward()
        nn.utils.clip_grad_norm_((each for each in ()), 1.0)
        optimizer.step()
    schedule.step(1)
    ones = torch.ones(2, requires_grad=True)
    torch.autograd.backward(ones.sum(), grad_variables=torch.tensor(1.0))
    checkpoint(model, ones)
    torch.cuda.amp.GradScaler()
    warnings.simplefilter("error")
    nn.utils.clip_grad_norm_((each for each in ()), 1.0)


if __name__ == "__main__":
    main()
