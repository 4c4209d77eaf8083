"""Print what PyTorch counts of GPT-2, BERT and ViT of one block and of two: forward, and both."""

import json
import sys

import keras
import numpy as np
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from workloads import attention
from workloads.catalog import WORKLOADS


def model_of(workload, depth):
    if workload.name in attention.WORDS:
        return attention.build_text(workload, depth)
    images = keras.Input(workload.input_shape)
    return keras.Model(images, keras.layers.Dense(1000)(attention.vit(images, depth)))


def operations(workload, depth):
    model, counted = model_of(workload, depth), []
    x = np.zeros((1, *workload.input_shape), "int32" if workload.tokens_per_sample else "float32")
    for backward in (False, True):
        # Fused kernels compute some products of attention twice, which the network doesn't need.
        with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            loss = model(x, training=True).sum()
            if backward:
                loss.backward()
        counted.append(counter.get_total_flops())
    return counted


for name in attention.WORDS:
    attention.WORDS[name] = int(sys.argv[1])
names = ("gpt2-124m", "bert-base", "vit-b16")
print(json.dumps({n: [operations(WORKLOADS[n], depth) for depth in (1, 2)] for n in names}))
