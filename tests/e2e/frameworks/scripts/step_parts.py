"""Steps that sleep for known times forward, backward, in the optimiser and beside these."""

import functools
import json
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, BEFORE_MS, FORWARD_MS, BACKWARD_MS, STEP_MS, AFTER_MS = 60, 2, 6, 9, 4, 3


class Sleeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs):
        time.sleep(FORWARD_MS / 1000)
        return inputs.clone()

    @staticmethod
    def backward(ctx, gradients):
        time.sleep(BACKWARD_MS / 1000)
        return gradients


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, inputs):
        return sleep(self.layer(inputs))


@torch.compiler.disable
def sleep(inputs):
    return Sleeps.apply(inputs)


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        time.sleep(STEP_MS / 1000)
        return loss


torch.set_num_threads(1)
network = Network()
optimizer = Optimizer(network.parameters(), lr=0.1)
if sys.argv[1] == "compiled":
    network = torch.compile(network, backend="eager")


def backward(batch):
    optimizer.zero_grad()
    loss = network(batch[0]).square().mean()
    loss.backward()
    return loss


samples = TensorDataset(torch.zeros(4 * STEPS, 4))
batches = DataLoader(samples, batch_size=4)
if sys.argv[1] == "closure":
    batches = ([torch.zeros(4, 4)] for _ in range(STEPS))


def train(batch):
    time.sleep(BEFORE_MS / 1000)
    loss = backward(batch)
    time.sleep(AFTER_MS / 1000)
    return loss


for batch in batches:
    if sys.argv[1] == "closure":
        optimizer.step(functools.partial(train, batch))
    else:
        train(batch)
        # As Accelerate calls it.
        optimizer.step(None)
own = sys.argv[1] != "closure"
counted = {"steps": STEPS, "samples": 4 * STEPS if own else STEPS, "updates": STEPS}
print(json.dumps({**counted, "epochs": int(own)}))
