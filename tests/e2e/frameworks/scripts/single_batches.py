"""A loop that counts steps, and begins an iterator for each batch."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = torch.randn(203, 4)


def main(workers, named):
    loader = DataLoader(TensorDataset(data), batch_size=16, shuffle=True, num_workers=workers)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    samples = 0
    losses = []
    for _ in range(8):
        if named:
            batches = iter(loader)
            (batch,) = next(batches)
        else:
            (batch,) = next(iter(loader))
        optimizer.zero_grad(set_to_none=True)
        error = ((model(batch) - batch) ** 2).mean()
        error.backward()
        optimizer.step()
        samples += len(batch)
        losses.append(error.item())
    print(json.dumps({"samples": samples, "steps": 8, "updates": 8, "epochs": 0}))
    print(losses)


if __name__ == "__main__":
    main(int(sys.argv[1]), named="named" in sys.argv)
