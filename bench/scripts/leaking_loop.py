"""Train on a GPU, leak 64 MiB in each epoch, go on after one error, then run out of memory."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, BATCHES, BATCH_SIZE, WIDTH = 10, 150, 64, 2048
LEAK_BYTES, TOO_MUCH_BYTES, PIECE_BYTES = 64 << 20, 1 << 42, 6 << 20

device = torch.device("cuda")
network = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(8)]).to(device)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
loader = DataLoader(TensorDataset(torch.randn(BATCH_SIZE * BATCHES, WIDTH)), batch_size=BATCH_SIZE)
leaked: list[torch.Tensor] = []
steps = 0
for epoch in range(EPOCHS):
    for number, (batch,) in enumerate(loader):
        try:
            if (epoch, number) == (2, 10):
                torch.empty(TOO_MUCH_BYTES, dtype=torch.uint8, device=device)
            optimizer.zero_grad()
            network(batch.to(device)).square().mean().backward()
            optimizer.step()
            steps += 1
        except torch.OutOfMemoryError:
            print("went on after an error", flush=True)
    leaked.append(torch.zeros(LEAK_BYTES, dtype=torch.uint8, device=device))
print(f"{steps} steps were trained", flush=True)
while True:
    leaked.append(torch.empty(PIECE_BYTES, dtype=torch.uint8, device=device))
