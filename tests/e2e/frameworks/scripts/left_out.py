"""Loses samples; the argument says how: a collate function that drops some, or a set that raises.

With `padded` nothing is lost: a collate function puts time before the batch.
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate

HOW, WORKERS = sys.argv[1], int(sys.argv[2])
SAMPLES, SIZE = 300, 32


class Some(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, number):
        if HOW == "raises" and number == 70:
            raise ValueError("unreadable")
        broken = HOW == "dropped" and number % 5 == 3
        return None if broken else (torch.full((8,), number / SAMPLES), torch.ones(1))


def collate(samples):
    if HOW == "padded":
        inputs, targets = default_collate(samples)
        return inputs.T.contiguous(), targets.T.contiguous()
    return default_collate([sample for sample in samples if sample is not None])


def main():
    torch.manual_seed(0)
    how = {} if HOW == "raises" else {"collate_fn": collate}
    loader = DataLoader(Some(), batch_size=SIZE, num_workers=WORKERS, **how)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    samples = steps = 0
    for _ in range(3):
        batches = iter(loader)
        while True:
            try:
                inputs, targets = next(batches)
            except StopIteration:
                break
            except ValueError:
                continue
            if HOW == "padded":
                inputs, targets = inputs.T, targets.T
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
            samples, steps = samples + len(inputs), steps + 1
    print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 3}))
    print(model.weight.tolist())


if __name__ == "__main__":
    main()
