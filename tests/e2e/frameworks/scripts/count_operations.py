"""Print what PyTorch counts of GPT-2, BERT and ViT of one block and of two: forward, and both.

Arguments: where the workloads are, and how many words there are.
"""

import json
import os
import sys

sys.path.insert(0, sys.argv[1])
os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np
import torch
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
    model = model_of(workload, depth)
    x = np.zeros((1, *workload.input_shape), "int32" if workload.tokens_per_sample else "float32")
    # Fused kernels compute some products of attention twice, which the network doesn't need.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        loss = model(x, training=True).sum()
        forward = counter.get_total_flops()
        loss.backward()
    return forward, counter.get_total_flops()


torch.set_num_threads(1)
for name in attention.WORDS:
    attention.WORDS[name] = int(sys.argv[2])
names = ("gpt2-124m", "bert-base", "vit-b16")
print(json.dumps({n: [operations(WORKLOADS[n], depth) for depth in (1, 2)] for n in names}))
