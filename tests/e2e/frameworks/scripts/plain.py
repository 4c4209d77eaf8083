"""A loop with validation; arguments: workers, and whether they are persistent."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    workers, persistent = int(sys.argv[1]), sys.argv[2] == "persistent"
    torch.manual_seed(0)
    x, y = torch.randn(203, 8), torch.randn(203, 1)
    options = {"num_workers": workers, "persistent_workers": persistent}
    train = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, **options)
    check = DataLoader(TensorDataset(x[:50], y[:50]), batch_size=20, **options)
    model, loss = nn.Linear(8, 1), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images, _ = next(iter(train))
    assert images.shape == (16, 8)
    samples = steps = 0
    losses = []
    for _ in range(3):
        model.train()
        for a, b in train:
            optimizer.zero_grad()
            error = loss(model(a), b)
            error.backward()
            optimizer.step()
            samples, steps = samples + len(a), steps + 1
            losses.append(error.item())
        model.eval()
        with torch.no_grad():
            losses.append(sum(loss(model(a), b).item() for a, b in check))
    print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 3}))
    print(losses)


if __name__ == "__main__":
    main()
