"""Data-parallel training over gloo, started by torchrun: with DDP, or as the first argument says.

A second argument is the rank whose data takes longer, or its own code if there is a third.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

wrapper, slow_rank, slow_code = [*sys.argv[1:], *("ddp", "", "")[len(sys.argv) - 1 :]]
dist.init_process_group("gloo")
torch.manual_seed(0)
is_slow, epochs = slow_rank == str(dist.get_rank()), (20 if slow_code else 8) if slow_rank else 2


class Data(TensorDataset):
    """Samples, of which each takes its time where this rank is the slow one."""

    def __getitem__(self, index):
        if is_slow and not slow_code:
            time.sleep(0.01)
        return super().__getitem__(index)


data = Data(torch.randn(101, 4), torch.randn(101, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
if wrapper == "fsdp":
    model = nn.Linear(4, 1)
    fully_shard(model)
else:
    model = DistributedDataParallel(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
samples = steps = 0
losses = []
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for a, b in loader:
        optimizer.zero_grad()
        error = ((model(a) - b) ** 2).mean()
        error.backward()
        optimizer.step()
        if is_slow and slow_code:
            time.sleep(0.1)
        samples, steps = samples + len(a), steps + 1
        losses.append(error.item())
counts = {"samples": samples, "steps": steps, "updates": steps, "epochs": epochs}
# In one write, so that the lines of two processes can't mix.
line = json.dumps({"rank": dist.get_rank(), "losses": losses, "pid": os.getpid(), **counts})
sys.stdout.write(line + "\n")
sys.stdout.flush()
# A process that leaves while another one still talks to it may abort that one.
dist.barrier()
dist.destroy_process_group()
# PyTorch now and then aborts as such a process is torn down, with nothing of ours in it.
os._exit(0)
