"""Train in short epochs, each with dlmon's hooks, a progress bar or neither, as a switch says.

Usage: watched_loop.py FRAMEWORK NETWORK TIMES SWITCH [THREADS], under `dlmon exec`. NETWORK is
`small`, one hidden layer on one thread, or `convnet`, the network of the framework's own example
for MNIST (github.com/pytorch/examples, mnist/main.py; keras.io/examples, vision/mnist_convnet), on
random data of its shape, on THREADS or the framework's default. The first byte of SWITCH sets the
next epoch: 0 nothing, 1 dlmon's hooks, 2 a progress bar, 3 the end. TIMES gets, as JSON, for each
epoch its number of steps, its begin and its end (in monotonic ns).
"""

import io
import json
import mmap
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

HOOKS, PROGRESS_BAR, LEAVE = 1, 2, 3
SMALL, CONVNET = "small", "convnet"
BATCH, FEATURES, CLASSES = 64, 64, 10
SIDE = 28
# Few steps, so that an epoch takes a fraction of a second.
STEPS = {
    ("pytorch", SMALL): 300,
    ("keras", SMALL): 200,
    ("pytorch", CONVNET): 10,
    ("keras", CONVNET): 10,
}


class Nowhere(io.StringIO):
    """Discards the output of a progress bar, because a terminal would take time for it."""

    def write(self, text):
        """Discard the text."""
        return len(text)

    def isatty(self):
        """Return True, so that Keras draws its bar."""
        return True


def pytorch(network):
    """Return a function that trains an epoch, and one that sets the hooks."""
    import torch
    from torch import nn
    from torch.optim import optimizer as steps
    from torch.utils.data import DataLoader, TensorDataset, dataloader
    from tqdm import tqdm

    torch.manual_seed(0)
    samples = STEPS["pytorch", network] * BATCH
    if network == SMALL:
        torch.set_num_threads(1)
        shape = (FEATURES,)
        layers = [nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, CLASSES)]
    else:
        shape = (1, SIDE, SIDE)
        layers = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU()]
        layers += [nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128)]
        layers += [nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, CLASSES)]
    data = TensorDataset(torch.randn(samples, *shape), torch.randint(0, CLASSES, (samples,)))
    loader = DataLoader(data, batch_size=BATCH)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of = nn.CrossEntropyLoss()
    nowhere = Nowhere()

    def train(bar):
        begin = time.monotonic_ns()
        for inputs, targets in tqdm(loader, file=nowhere) if bar else loader:
            optimizer.zero_grad()
            loss_of(model(inputs), targets).backward()
            optimizer.step()
        return len(loader), begin, time.monotonic_ns()

    optimizer_hooks = (steps._global_optimizer_pre_hooks, steps._global_optimizer_post_hooks)
    copies = [dict(hooks) for hooks in optimizer_hooks]
    assert all(copies), "dlmon does not watch the optimisers"
    classes = [(DataLoader, "__iter__"), (dataloader._BaseDataLoaderIter, "__next__")]
    set_patches = patches(classes)

    def set_hooks(on):
        set_patches(on)
        for hooks, copy in zip(optimizer_hooks, copies, strict=True):
            hooks.clear()
            hooks.update(copy if on else {})

    return train, set_hooks


def keras(network):
    """Return a function that trains an epoch, and one that sets the hooks."""
    import keras
    import numpy as np
    from keras import layers
    from keras.src.callbacks import callback_list
    from keras.src.trainers import epoch_iterator

    keras.utils.set_random_seed(0)
    samples = STEPS["keras", network] * BATCH
    if network == SMALL:
        shape = (FEATURES,)
        stack = [layers.Dense(256, "relu")]
    else:
        shape = (SIDE, SIDE, 1)
        stack = [layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D()]
        stack += [layers.Conv2D(64, 3, activation="relu"), layers.MaxPooling2D()]
        stack += [layers.Flatten(), layers.Dropout(0.5)]
    inputs = np.random.rand(samples, *shape).astype("float32")
    targets = np.random.randint(0, CLASSES, samples)
    model = keras.Sequential([keras.Input(shape), *stack, layers.Dense(CLASSES)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    nowhere, stdout = Nowhere(), sys.stdout

    class Clock(keras.callbacks.Callback):
        """Notes the begin and the end of an epoch."""

        def on_epoch_begin(self, epoch, logs=None):
            self.begin = time.monotonic_ns()

        def on_epoch_end(self, epoch, logs=None):
            self.end = time.monotonic_ns()

    def train(bar):
        clock = Clock()
        sys.stdout = nowhere if bar else stdout
        model.fit(inputs, targets, batch_size=BATCH, verbose=int(bar), callbacks=[clock])
        sys.stdout = stdout
        return samples // BATCH, clock.begin, clock.end

    classes = [(callback_list.CallbackList, "__init__"), (epoch_iterator.EpochIterator, "__init__")]
    return train, patches(classes)


def patches(methods):
    """Return a function that sets dlmon's wrappers of methods, or the original methods."""
    ours = [(kind, name, kind.__dict__[name]) for kind, name in methods]

    def set_patches(on):
        for kind, name, function in ours:
            setattr(kind, name, function if on else function.__wrapped__)

    return set_patches


def main():
    framework, network, times, switch_path, *threads = sys.argv[1:]
    for number in threads:
        # OpenMP and TensorFlow read these when they are imported.
        os.environ["OMP_NUM_THREADS"] = os.environ["TF_NUM_INTRAOP_THREADS"] = number
    if threads and network == CONVNET:
        # On fewer threads, an epoch must still fit into a window.
        STEPS[framework, network] = 5
    train, set_hooks = {"pytorch": pytorch, "keras": keras}[framework](network)
    epochs = []
    with Path(switch_path).open("rb") as file:
        switch = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
    while (side := switch[0]) != LEAVE:
        set_hooks(side == HOOKS)
        epochs.append(train(side == PROGRESS_BAR))
    Path(times).write_text(json.dumps(epochs))


main()
