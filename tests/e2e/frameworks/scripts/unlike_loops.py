"""Loops that train on other batches than they fetch, each of which counts for itself.

Arguments: the name of one.
"""

import itertools
import json
import queue
import sys
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def regression(samples, inputs=8):
    return TensorDataset(torch.randn(samples, inputs), torch.randn(samples, 1))


def loader(samples, batch_size=10):
    return DataLoader(regression(samples), batch_size, shuffle=True)


class Loop:
    """Trains a network, and counts."""

    def __init__(self, by_hand=False):
        self.network = nn.Linear(8, 1)
        if not by_hand:
            self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01)
        self.samples = self.steps = self.updates = 0

    def loss(self, x, y):
        return ((self.network(x) - y) ** 2).mean()

    def count(self, x):
        self.samples, self.steps = self.samples + len(x), self.steps + 1

    def train(self, x, y):
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        self.optimizer.step()
        self.updates += 1
        self.count(x)

    def say(self, epochs, **others):
        counts = {"samples": self.samples, "steps": self.steps, "updates": self.updates}
        print(json.dumps({**counts, "epochs": epochs, **others}))


def batched_again(size, steps):
    """Mixes the samples of batches of 10, and makes batches of another size of them."""
    loop = Loop()
    for _ in range(3):
        held = []
        taken = 0
        for x, y in loader(400):
            held += zip(x, y, strict=True)
            while len(held) >= int(size) + 40 and taken < int(steps):
                batch, held = held[: int(size)], held[int(size) :]
                loop.train(*map(torch.stack, zip(*batch, strict=True)))
                taken += 1
            if taken == int(steps):
                break
    loop.say(3)


def labelled_and_not(kept=""):
    """Reads two loaders with `next`, 25 times an epoch, and begins each again when it ends."""
    loop = Loop()
    loaders, tested = [loader(120), loader(300)], loader(40)
    iterators = [iter(each) for each in loaders]

    def take(which):
        try:
            return next(iterators[which])
        except StopIteration:
            iterators[which] = iter(loaders[which])
            return next(iterators[which])

    for epoch in range(3):
        if epoch and not kept:
            iterators = [iter(each) for each in loaders]
        for _ in range(25):
            (x, y), (more, _) = take(0), take(1)
            loop.optimizer.zero_grad()
            (loop.loss(x, y) + loop.network(more).square().mean()).backward()
            loop.optimizer.step()
            loop.updates += 1
            loop.count(x)
        with torch.no_grad():
            for x, _ in tested:
                loop.network(x)
    loop.say(3, validations=[4, 4, 4])


def skipped(every=""):
    """Goes on in the midst of an epoch, or only looks at every second batch."""
    loop, batches = Loop(), loader(195)
    for epoch in range(3):
        for number, (x, y) in enumerate(batches):
            if (number % 2) if every else (epoch == 0 and number < 12):
                with torch.no_grad():
                    loop.network(x)
                continue
            loop.train(x, y)
    loop.say(3)


def three_times():
    """Reads one batch ahead, and calls the network three times with each."""
    loop, batches = Loop(), loader(205)
    for _ in range(3):
        iterator = iter(batches)
        batch = next(iterator)
        while batch is not None:
            (x, y), batch = batch, next(iterator, None)
            loop.optimizer.zero_grad()
            sum(loop.loss(x * factor, y) for factor in (1, 2, 3)).backward()
            loop.optimizer.step()
            loop.updates += 1
            loop.count(x)
    loop.say(3)


def left_each_time():
    """Trains on the first 15 of 40 batches, and is at its last step within the fourth epoch."""
    loop, batches, checks = Loop(), loader(400), loader(40)
    for steps in (15, 15, 15, 9):
        for x, y in itertools.islice(batches, steps):
            loop.train(x, y)
        with torch.no_grad():
            for x, _ in checks:
                loop.network(x)
    loop.say(4, validations=[4] * 4)


class Background(threading.Thread):
    """Reads a loader in a thread of its own, as many repositories for images do."""

    def __init__(self, batches):
        super().__init__(daemon=True)
        self.queue, self.batches = queue.Queue(6), batches
        self.start()

    def run(self):
        for batch in self.batches:
            self.queue.put(batch)
        self.queue.put(None)

    def __iter__(self):
        return iter(self.queue.get, None)


def in_background():
    loop, batches, checks = Loop(), loader(205), loader(95)
    for _ in range(4):
        for x, y in Background(batches):
            loop.train(x, y)
        with torch.no_grad():
            for x, _ in Background(checks):
                loop.network(x)
    loop.say(4, validations=[10] * 4)


def adversaries_in_background():
    """Two optimizers step for each batch."""
    loop, batches = Loop(), loader(205)
    makes = nn.Linear(4, 8)
    other = torch.optim.SGD(makes.parameters(), lr=0.01)
    for _ in range(4):
        for x, y in Background(batches):
            loop.train(x, y)
            other.zero_grad()
            loop.network(makes(torch.randn(len(x), 4))).mean().backward()
            other.step()
            loop.updates += 1
    loop.say(4)


def cycled():
    """Goes through a loader once, and on with what it gave."""
    loop, batches = Loop(), itertools.cycle(loader(200))
    for _ in range(90):
        loop.train(*next(batches))
    # The first 20 are an epoch; for the others no loader says where one begins.
    loop.say(1, in_epochs=20)


def cycled_within_a_step():
    """Adds up the gradients of three batches, over the end of a loader of 20."""
    loop, batches = Loop(), itertools.cycle(loader(200))
    for _ in range(30):
        loop.optimizer.zero_grad()
        for x, y in itertools.islice(batches, 3):
            loop.loss(x, y).backward()
            loop.samples += len(x)
        loop.optimizer.step()
        loop.updates += 1
    # 21 batches in seven steps, and from then on no loader tells a batch from a step.
    loop.steps = 21 + 23
    loop.say(1, in_epochs=21)


def gradients_by_hand(functional=""):
    """Neither `backward` nor an optimizer."""
    loop, batches, checks = Loop(by_hand=True), loader(200), loader(40)
    network, weights = loop.network, list(loop.network.parameters())

    def loss_of(weight, bias, x, y):
        return ((x @ weight.T + bias - y) ** 2).mean()

    for _ in range(3):
        for x, y in batches:
            if functional:
                found = torch.func.grad(loss_of, argnums=(0, 1))(*weights, x, y)
            else:
                found = torch.autograd.grad(loop.loss(x, y), weights)
            with torch.no_grad():
                for weight, gradient in zip(weights, found, strict=True):
                    weight -= 0.01 * gradient
            loop.count(x)
        with torch.no_grad():
            for x, _ in checks:
                network(x)
    loop.say(3, updates=None, validations=[4, 4, 4])


def updates_statistics():
    """Goes through the loader in training mode, without training, at the end."""
    loop, batches, checks = Loop(), loader(200), loader(40)
    loop.network = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    loop.optimizer = torch.optim.SGD(loop.network.parameters(), lr=0.01)
    average = torch.optim.swa_utils.AveragedModel(loop.network)
    for _ in range(2):
        loop.network.train()
        for x, y in batches:
            loop.train(x, y)
        average.update_parameters(loop.network)
        loop.network.eval()
        with torch.no_grad():
            for x, _ in checks:
                loop.network(x)
        torch.optim.swa_utils.update_bn(batches, average)
    loop.say(2, validations=[4, 4])


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]](*sys.argv[2:])
