"""A plain loop of PyTorch, as it is written everywhere; prints how long its steps took.

`--bar` shows tqdm's progress bar, which is what a script has without dlmon.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, SAMPLES, WARM_UP = 4, 38_400, 1


def main():
    begin = time.clock_gettime(time.CLOCK_BOOTTIME)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(SAMPLES, 64), torch.randint(0, 10, (SAMPLES,)))
    loader = DataLoader(data, batch_size=64)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = nn.CrossEntropyLoss()
    seconds, steps, loss = 0.0, 0, None
    for epoch in range(EPOCHS):
        batches = loader
        if "--bar" in sys.argv:
            from tqdm import tqdm

            batches = tqdm(loader)
        start = time.perf_counter()
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
        if epoch >= WARM_UP:
            seconds += time.perf_counter() - start
            steps += len(loader)
    print(json.dumps({"step_us": seconds / steps * 1e6, "begin": begin, "loss": loss.item()}))


main()
