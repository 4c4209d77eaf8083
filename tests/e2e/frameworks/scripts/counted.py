"""A loop with validation whose operations are counted in one step; it prints those of a sample."""

import json
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.flop_counter import FlopCounterMode

os.environ["DLMON_COUNT_FLOPS"] = "1"
SAMPLES, BATCH, EPOCHS = 64, 8, 2
torch.manual_seed(0)
network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
model = torch.compile(network, backend="eager")
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
data = TensorDataset(torch.randn(SAMPLES, 3, 8, 8), torch.randint(10, (SAMPLES,)))
for _ in range(EPOCHS):
    for number, (images, labels) in enumerate(DataLoader(data, BATCH)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        if number == 1:
            # The step that is counted next is another one.
            with torch.no_grad():
                for image, _ in DataLoader(data, 2):
                    model(image)
counter = FlopCounterMode(display=False)
with counter:
    nn.functional.cross_entropy(network(images), labels).backward()
counts = {"samples": SAMPLES * EPOCHS, "steps": SAMPLES // BATCH * EPOCHS, "epochs": EPOCHS}
counts["updates"] = counts["steps"]
print(json.dumps({**counts, "operations": counter.get_total_flops() // BATCH}))
