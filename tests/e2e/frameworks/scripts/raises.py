"""A data set that raises in the middle of an epoch; argument: workers."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        if index == 25:
            raise ValueError("the sample can't be read")
        return torch.full((2,), float(index)), torch.zeros(1)


def main():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for a, b in DataLoader(Data(), batch_size=10, num_workers=int(sys.argv[1])):
        optimizer.zero_grad()
        ((model(a) - b) ** 2).mean().backward()
        optimizer.step()
        print("step", flush=True)


if __name__ == "__main__":
    main()
