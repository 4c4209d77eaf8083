"""Loops of PyTorch, each of which counts for itself; arguments: the name of one, and its own."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)


class Counted:
    """What a loop counted itself."""

    def __init__(self):
        self.samples = self.steps = 0
        self.losses = []

    def add(self, batch, error):
        self.samples, self.steps = self.samples + len(batch), self.steps + 1
        self.losses.append(error.item())

    def say(self, epochs, **others):
        counts = {"samples": self.samples, "steps": self.steps, "updates": self.steps}
        print(json.dumps({**counts, "epochs": epochs, **others}))
        print(self.losses)


def step(optimizer, error):
    optimizer.zero_grad()
    error.backward()
    optimizer.step()


def regression(samples, inputs=8):
    return TensorDataset(torch.randn(samples, inputs), torch.randn(samples, 1))


def part(data, samples):
    return TensorDataset(*(tensor[:samples] for tensor in data.tensors))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05)


def plain(workers, persistent=""):
    """With validation."""
    options = {"num_workers": int(workers), "persistent_workers": bool(persistent)}
    data, model, loss, counted = regression(203), nn.Linear(8, 1), nn.MSELoss(), Counted()
    train = DataLoader(data, batch_size=16, shuffle=True, **options)
    check = DataLoader(part(data, 50), batch_size=20, **options)
    optimizer = sgd(model)
    images, _ = next(iter(train))
    assert images.shape == (16, 8)
    for _ in range(3):
        model.train()
        for a, b in train:
            error = loss(model(a), b)
            step(optimizer, error)
            counted.add(a, error)
        model.eval()
        with torch.no_grad():
            counted.losses.append(sum(loss(model(a), b).item() for a, b in check))
    counted.say(3)


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, every = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, 77, every):
            yield {"x": torch.full((3,), number / 77), "y": torch.tensor([number % 2.0])}


def iterable(workers):
    """Over a data set that is iterated and has no length."""
    loader = DataLoader(Stream(), batch_size=8, num_workers=int(workers))
    model, loss, counted = nn.Linear(3, 1), nn.MSELoss(), Counted()
    optimizer = sgd(model)
    for _ in range(2):
        for batch in loader:
            error = loss(model(batch["x"]), batch["y"])
            step(optimizer, error)
            counted.add(batch["x"], error)
    counted.say(2)


def by_hand(with_loader):
    """In which none of PyTorch's optimizers steps."""
    data, model, counted = regression(203, 4), nn.Linear(4, 1), Counted()
    check = DataLoader(part(data, 50), batch_size=20)

    def train(a, b):
        error = ((model(a) - b) ** 2).mean()
        model.zero_grad()
        error.backward()
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.05)
        counted.add(a, error)

    if with_loader:
        for _ in range(3):
            for a, b in DataLoader(data, batch_size=16):
                train(a, b)
            with torch.no_grad():
                counted.losses.append(sum(((model(a) - b) ** 2).mean().item() for a, b in check))
        counted.say(3, updates=None)
    else:
        x, y = data.tensors
        for number in range(40):
            train(x[number : number + 32], y[number : number + 32])
        counted.say(0, samples=None, updates=None)


def gan():
    """With two optimisers, each with a step of its own for every batch."""
    data, judge, counted = TensorDataset(torch.randn(130, 4)), nn.BCEWithLogitsLoss(), Counted()
    loader = DataLoader(data, batch_size=20, shuffle=True, drop_last=True)
    generator, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    makes = torch.optim.Adam(generator.parameters(), lr=0.01)
    judges = torch.optim.Adam(critic.parameters(), lr=0.01)
    for _ in range(2):
        for (real,) in loader:
            ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
            made = generator(torch.randn(len(real), 2))
            error = judge(critic(real), ones) + judge(critic(made.detach()), zeros)
            step(judges, error)
            step(makes, judge(critic(made), ones))
            counted.add(real, error)
    counted.say(2, updates=2 * counted.steps)


def compiled():
    """Of a compiled model, with a step of an optimiser within a compiled function.

    What makes machine code of the traced graphs is left out: it takes a minute, and calls no hook.
    """
    loader, counted = DataLoader(regression(96), batch_size=16), Counted()
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    network = torch.compile(model, backend="aot_eager")
    optimizer = sgd(model)
    update = torch.compile(lambda: optimizer.step(), backend="eager")
    for _ in range(2):
        for a, b in loader:
            optimizer.zero_grad()
            error = nn.functional.mse_loss(network(a), b)
            error.backward()
            update()
            counted.add(a, error)
    counted.say(2)


def single_batches(workers, named=""):
    """That counts steps, and begins an iterator for each batch."""
    data, model, counted = TensorDataset(torch.randn(203, 4)), nn.Linear(4, 4), Counted()
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=int(workers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(8):
        if named:
            batches = iter(loader)
            (batch,) = next(batches)
        else:
            (batch,) = next(iter(loader))
        error = ((model(batch) - batch) ** 2).mean()
        step(optimizer, error)
        counted.add(batch, error)
    counted.say(0)


def without_loader():
    """Of batches that are drawn by hand, with a loader for validation in between."""
    data, model, counted = torch.randn(500, 4), nn.Linear(4, 4), Counted()
    check = DataLoader(TensorDataset(data[:60]), batch_size=20)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for number in range(40):
        batch = data[torch.randint(500, (32,))]
        error = ((model(batch) - batch) ** 2).mean()
        step(optimizer, error)
        counted.add(batch, error)
        if number % 15 == 14:
            with torch.no_grad():
                counted.losses.append(sum(((model(a) - a) ** 2).mean().item() for (a,) in check))
    counted.say(0, samples=None)


def zipped():
    """Two loaders in one; then one that is begun again whenever it ends; then loops left early."""
    known = DataLoader(regression(90, 4), batch_size=10)
    unknown = DataLoader(TensorDataset(torch.randn(55, 4)), batch_size=11)
    model, counted = nn.Linear(4, 1), Counted()
    optimizer = sgd(model)

    def train(a, b, other):
        error = ((model(a) - b) ** 2).mean() + (model(other) ** 2).mean()
        step(optimizer, error)
        counted.add(a, error)

    for (a, b), (other,) in zip(known, unknown, strict=False):
        train(a, b, other)
    others = iter(unknown)
    for _ in range(2):
        for a, b in known:
            try:
                (other,) = next(others)
            except StopIteration:
                others = iter(unknown)
                (other,) = next(others)
            train(a, b, other)
    for a, b in known:
        train(a, b, a)
        if counted.steps % 4 == 0:
            break
    for number, (a, b) in enumerate(known):
        if number == 3:
            break
        train(a, b, a)
    # The first loop ended with the shorter loader, which was asked after the longer one.
    counted.say(5)


def scaled():
    """In mixed precision, where the scaler leaves out a step whose gradients are not finite."""
    loader = DataLoader(regression(100, 4), batch_size=10)
    model, counted, updates = nn.Linear(4, 1), Counted(), 0
    optimizer, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=8.0)
    for epoch in range(2):
        for number, (a, b) in enumerate(loader):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                error = ((model(a).float() - b) ** 2).mean()
            enlarged = scaler.scale(error)
            if (epoch, number) in ((0, 0), (0, 9), (1, 4)):
                enlarged = enlarged * float("inf")
            enlarged.backward()
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            updates += scaler.get_scale() >= before
            counted.add(a, error)
    counted.say(2, updates=updates)


class Some(Dataset):
    def __init__(self, how):
        self.how = how

    def __len__(self):
        return 300

    def __getitem__(self, number):
        if self.how == "raises" and number == 70:
            raise ValueError("unreadable")
        broken = self.how == "dropped" and number % 5 == 3
        return None if broken else (torch.full((8,), number / 300), torch.ones(1))


def without_broken(samples):
    return default_collate([sample for sample in samples if sample is not None])


def time_first(samples):
    inputs, targets = default_collate(samples)
    return inputs.T.contiguous(), targets.T.contiguous()


def left_out(how, workers):
    """That loses samples: a collate function has `dropped` some, or the set `raises`.

    With `padded` nothing is lost: a collate function puts time before the batch.
    """
    collate = {"dropped": without_broken, "padded": time_first, "raises": None}[how]
    loader = DataLoader(Some(how), batch_size=32, num_workers=int(workers), collate_fn=collate)
    model, counted = nn.Linear(8, 1), Counted()
    optimizer = sgd(model)
    for _ in range(3):
        batches = iter(loader)
        while True:
            try:
                inputs, targets = next(batches)
            except StopIteration:
                break
            except ValueError:
                continue
            if how == "padded":
                inputs, targets = inputs.T, targets.T
            error = nn.functional.mse_loss(model(inputs), targets)
            step(optimizer, error)
            counted.add(inputs, error)
    counted.say(3)


def accelerated(dispatched=""):
    """By Accelerate, with gradients that are added up; one process may hand out the batches."""
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration

    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=4,
        dataloader_config=DataLoaderConfiguration(dispatch_batches=bool(dispatched)),
    )
    data, model, loss, counted, updates = (
        regression(203),
        nn.Linear(8, 1),
        nn.MSELoss(),
        Counted(),
        0,
    )
    train = DataLoader(data, batch_size=16, shuffle=True)
    check = DataLoader(part(data, 50), batch_size=16)
    model, optimizer, train, check = accelerator.prepare(model, sgd(model), train, check)
    for _ in range(3):
        model.train()
        for a, b in train:
            with accelerator.accumulate(model):
                error = loss(model(a), b)
                accelerator.backward(error)
                optimizer.step()
                updates += accelerator.sync_gradients
                optimizer.zero_grad()
            counted.add(a, error)
        model.eval()
        with torch.no_grad():
            counted.losses.append(sum(loss(model(a), b).item() for a, b in check))
    counted.say(3, updates=updates)


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]](*sys.argv[2:])
