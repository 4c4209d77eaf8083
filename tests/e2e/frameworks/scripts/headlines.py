"""Train with one fault, or with none: the argument names it."""

import importlib
import os
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

SAMPLES, BATCH = 640, 32
CASE = sys.argv[1]
WIDE = ("healthy", "validates", "saves", "item", "one-thread", "workers", "reads-a-pipe")
"""The cases of which forward and backward take most of a step."""
RANK = int(os.environ.get("RANK", "0"))


class Slow(Dataset):
    """Takes a time for each sample, in seconds."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        time.sleep(self.seconds)
        return torch.randn(64), 0


def network(width):
    """Return a network of which forward and backward take most of a step, if it is wide."""
    return torch.nn.Sequential(
        torch.nn.Linear(64, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width),
        torch.nn.ReLU(),
        torch.nn.Linear(width, 10),
    )


def wait_for_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def validate(model, loader, seconds):
    model.eval()
    with torch.no_grad():
        for x, _ in loader:
            model(x)
            time.sleep(seconds / len(loader))
    model.train()


class SlowDisk:
    """A file that takes long for what is written."""

    def __init__(self, seconds):
        self.seconds = seconds

    def write(self, data):
        return len(data)

    def flush(self):
        time.sleep(self.seconds)


def at_step_200():
    """Hang or fail, if the case does."""
    if CASE == "lock" or (CASE == "a-rank-stays-away" and RANK == 1):
        wait_for_lock()
    elif CASE == "input":
        input("go on? ")
    elif CASE == "debugger":
        breakpoint()
    elif CASE == "exception":
        raise ValueError("the labels are shuffled")
    elif CASE == "out-of-memory":
        torch.empty(1 << 50)


def make_loader():
    slow_s = {"slow-dataset": 0.001, "slow-rank-data": 0.001 * RANK, "hangs-at-first": 3600.0}
    dataset = TensorDataset(torch.randn(SAMPLES, 64), torch.zeros(SAMPLES, dtype=torch.long))
    workers = {"hangs-at-first": 1, "workers": 1}.get(CASE, 0)
    return DataLoader(Slow(slow_s[CASE]) if CASE in slow_s else dataset, BATCH, num_workers=workers)


def main():
    several = "RANK" in os.environ
    loader = make_loader()
    if CASE == "one-thread":
        torch.set_num_threads(1)
    model = network(1024 if CASE in WIDE else 128)
    if several:
        torch.distributed.init_process_group("gloo")
    if CASE == "recompiles":
        model = torch.compile(model, dynamic=False, backend="aot_eager")
        torch._dynamo.config.recompile_limit = 100_000
    else:
        importlib.import_module("uncompiled")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e30 if CASE == "nan" else 0.01)
    step = 0
    while True:
        for x, y in loader:
            if CASE == "recompiles":
                size = 1 + step % BATCH
                x, y = x[:size], y[:size]
            if CASE == "reads-a-pipe":
                x = x * float(sys.stdin.readline())
            loss = torch.nn.functional.cross_entropy(model(x), y)
            if CASE == "slow-backward" and RANK == 1:
                loss.register_hook(lambda gradient: time.sleep(0.03))
            loss.backward()
            if several:
                for parameter in model.parameters():
                    torch.distributed.all_reduce(parameter.grad)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if CASE == "item":
                loss.item()
            elif CASE == "sleeps" or (CASE == "slow-rank" and RANK == 1):
                time.sleep(0.03)
            elif CASE == "checkpoints" and step % 20 == 0:
                torch.save(model.state_dict(), SlowDisk(0.5), _use_new_zipfile_serialization=False)
            elif step == 200:
                at_step_200()
        if CASE == "slow-validation":
            validate(model, loader, 1.0)
        elif CASE == "validates":
            validate(model, loader, 0.0)
        elif CASE == "saves":
            torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
