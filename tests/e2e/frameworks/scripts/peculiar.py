"""What a script may do with loaders, iterators and optimisers beside a loop over them."""

import copy
import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

torch.manual_seed(0)
data = TensorDataset(torch.randn(60, 4), torch.randn(60, 1))
loader = DataLoader(data, batch_size=10)
batches = iter(loader)
assert type(batches) is _SingleProcessDataLoaderIter
assert iter(batches) is batches
assert type(batches).__next__.__name__ == "__next__"
assert len(pickle.loads(pickle.dumps(loader))) == 6
assert len(copy.deepcopy(loader)) == 6
list(batches)
try:
    next(batches)
except StopIteration:
    pass
else:
    raise AssertionError("an iterator that is over goes on")

model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
pickle.loads(pickle.dumps(optimizer))

# Threads that read loaders while this one trains.
stop = threading.Event()


def read():
    read_batches = 0
    while not stop.is_set():
        with torch.no_grad():
            read_batches += sum(1 for _ in DataLoader(data, batch_size=7))
    return read_batches


samples = steps = 0
losses = []
with ThreadPoolExecutor(2) as pool:
    for a, b in loader:
        optimizer.zero_grad()
        error = ((model(a) - b) ** 2).mean()
        error.backward()
        optimizer.step()
        samples, steps = samples + len(a), steps + 1
        losses.append(error.item())
        if steps == 1:
            readers = [pool.submit(read) for _ in range(2)]
    stop.set()
    assert all(reader.result() > 0 for reader in readers)

# A forked child that reads the rest of its parent's loader, and has nothing to report.
batches = iter(loader)
next(batches)
child = os.fork()
if child == 0:
    assert sum(1 for _ in batches) == 5
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
del batches

print(json.dumps({"samples": samples, "steps": steps, "updates": steps, "epochs": 1}))
print(losses, flush=True)
os._exit(3)
