"""A data set that is iterated and has no length; argument: workers."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, every = (worker.id, worker.num_workers) if worker else (0, 1)
        for number in range(first, 77, every):
            yield {"x": torch.full((3,), number / 77), "y": torch.tensor([number % 2.0])}


def main():
    torch.manual_seed(0)
    loader = DataLoader(Stream(), batch_size=8, num_workers=int(sys.argv[1]))
    model, loss = nn.Linear(3, 1), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    samples = steps = 0
    losses = []
    for _ in range(2):
        for batch in loader:
            optimizer.zero_grad()
            error = loss(model(batch["x"]), batch["y"])
            error.backward()
            optimizer.step()
            samples, steps = samples + len(batch["x"]), steps + 1
            losses.append(error.item())
    print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 2}))
    print(losses)


if __name__ == "__main__":
    main()
