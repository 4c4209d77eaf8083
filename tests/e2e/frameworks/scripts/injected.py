"""Train a small network, and print what the hooks have made of its objects."""

import importlib
import json
import multiprocessing
import sys

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, IterableDataset

torch.manual_seed(0)


class Samples(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, index):
        # A worker can't start workers of its own.
        if torch.utils.data.get_worker_info() is not None:
            assert list(DataLoader([index])) == [index]
        return torch.full((8,), index / 96), index % 2


class Iterated(IterableDataset):
    def __iter__(self):
        return iter([(torch.ones(8), 1)] * 48)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Linear(32, 2))
        self.types = []

    def forward(self, inputs):
        output = self.layers(inputs)
        self.types.append(output.dtype)
        return output


def train(network, optimizer, loader, epochs=2):
    workers = 0
    for _ in range(epochs):
        for inputs, labels in loader:
            workers = max(workers, len(multiprocessing.active_children()))
            output = network(inputs)
            assert output.dtype == torch.float32
            optimizer.zero_grad()
            cross_entropy(output, labels).backward()
            optimizer.step()
    with torch.no_grad():
        network(inputs)
    return workers


def takes():
    network, compile_as_it_is, modes = Network(), torch.compile, []

    def compile_at_once(function, mode):
        # Of PyTorch's compilers this one takes a moment.
        modes.append(mode)
        return compile_as_it_is(function, backend="eager")

    torch.compile = compile_at_once
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, foreach=True)
    loader = DataLoader(Samples(), 8, shuffle=True, timeout=9)
    validation = DataLoader(Samples(), batch_size=24)
    workers = train(network, optimizer, loader)
    from torch._dynamo.utils import counters

    return {
        "workers": [workers, loader.num_workers, validation.num_workers],
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
        "pin_memory": loader.pin_memory,
        "batch_size": [loader.batch_size, validation.batch_size],
        "fused": [optimizer.defaults["fused"], optimizer.defaults["foreach"]],
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "threads": torch.get_num_threads(),
        "autocast": [str(kind) for kind in (*network.types[:2], network.types[-1])],
        "compile": [modes, counters["frames"]["ok"] > 0],
    }


def refuses():
    importlib.import_module("uncompiled")
    network = Network()
    optimizer = torch.optim.SGD(iter(network.parameters()), lr=1e-3)
    saved = torch.optim.SGD(network.parameters(), lr=1e-3).state_dict()
    saved["param_groups"][0]["fused"] = None
    optimizer.load_state_dict(saved)
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("highest")
    DataLoader(Iterated(), batch_size=None)
    loader = DataLoader(Iterated(), batch_size=8)
    workers = train(network, optimizer, loader)
    return {
        "workers": [workers, loader.num_workers],
        "batch_size": loader.batch_size,
        "types": sorted(map(str, set(network.types))),
    }


def own():
    network = Network()
    optimizer = torch.optim.AdamW([{"params": network.parameters()}], lr=1e-3, fused=True)
    compiled = torch.compile(network.layers)
    loader = DataLoader(Samples(), 16, num_workers=1, prefetch_factor=4, persistent_workers=True)
    for inputs, labels in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = compiled(inputs)
        optimizer.zero_grad()
        cross_entropy(output, labels).backward()
        optimizer.step()
    from torch._dynamo.utils import counters

    return {
        "workers": [loader.num_workers, loader.prefetch_factor, loader.persistent_workers],
        "fused": optimizer.param_groups[0]["fused"],
        "autocast": str(output.dtype),
        "compiled": dict(counters["frames"]),
        "name": next(iter(compiled.state_dict())),
    }


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]]()))
