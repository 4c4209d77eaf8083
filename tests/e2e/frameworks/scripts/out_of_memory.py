"""A GPU's memory that runs out, as PyTorch says it; argument: what the script does then."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

OUT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of "
    "which 1.20 GiB is free. Including non-PyTorch memory, this process has 77.88 GiB memory in "
    "use. Of the allocated memory 60.50 GiB is allocated by PyTorch, and 16.25 GiB is reserved by "
    "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
)


class RunsOut(torch.autograd.Function):
    """Hands on what it is given, and has no memory to go backward."""

    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        raise torch.OutOfMemoryError(OUT)


def main(then):
    torch.set_num_threads(1)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.zeros(203, 2), torch.zeros(203, 1))
    counts = {"samples": 0, "steps": 0, "updates": 0, "epochs": 0}

    def step(a, b, fails):
        optimizer.zero_grad()
        error = ((model(a) - b) ** 2).mean()
        (RunsOut.apply(error) if fails else error).backward()
        optimizer.step()

    size = 16
    while counts["epochs"] < 3:
        for number, (a, b) in enumerate(DataLoader(data, size)):
            try:
                step(a, b, fails=size == 16 and number == 2)
            except torch.OutOfMemoryError:
                if then == "tries smaller batches":
                    size = 8
                    break
                if then == "tries it in halves":
                    for half in (slice(0, 8), slice(8, 16)):
                        step(a[half], b[half], fails=False)
                    counts["updates"] += 1
                else:
                    continue
            counts["samples"] += len(a)
            counts["steps"] += 1
            counts["updates"] += 1
        counts["epochs"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1])
