"""Say what dlmon takes an update of several networks for, beside what PyTorch's counter counts."""

import json
import sys

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, sys.argv[1])

from dlmon.instrument import outermost
from dlmon.instrument.flop_count import _counter
from dlmon.instrument.networks import describe_network
from dlmon.statistics.operations import per_token

# This script runs under `dlmon exec`, whose own copy of it notes them.
outermost._MADE = sys.modules["_dlmon_monitor.instrument.outermost"]._MADE
torch.set_num_threads(1)
ROWS, SEQUENCE, WORDS = 2, 64, 300
# PyTorch's counter knows no fused attention of a CPU.
EAGER = {"vocab_size": WORDS, "attn_implementation": "eager"}
GPT2 = {**EAGER, "n_layer": 3, "n_embd": 48, "n_head": 4, "n_positions": SEQUENCE}
LAYERS = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64}
LAYERS |= {**EAGER, "intermediate_size": 128, "max_position_embeddings": SEQUENCE}
MIXTURE = {"num_local_experts": 4, "num_experts_per_tok": 2, "experts_implementation": "eager"}


def made(name, **options):
    config = getattr(transformers, f"{name}Config")(bos_token_id=0, eos_token_id=0, **options)
    heads = {"Bert": "ForMaskedLM", "GPT2": "LMHeadModel"}
    return getattr(transformers, name + heads.get(name, "ForCausalLM"))(config)


def adapted(network):
    """Freeze a network but for a small matrix beside each of its layers, as LoRA does."""
    network.requires_grad_(False)
    for layer in network.model.layers:
        layer.input_layernorm.weight.requires_grad_(True)
        projection = layer.mlp.down_proj
        projection.lora_a = torch.nn.Linear(projection.in_features, 2, bias=False)
        projection.lora_b = torch.nn.Linear(2, projection.out_features, bias=False)
        projection.register_forward_hook(lambda it, given, out: out + it.lora_b(it.lora_a(*given)))
    return network


def checkpointed(network):
    network.gradient_checkpointing_enable()
    return network


def only(network, *parts):
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(any(part in name for part in parts))
    return network


def compared(network, counter):
    network.train()
    trained = [one for one in network.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    ids = torch.randint(0, WORDS, (ROWS, SEQUENCE))
    with counter:
        network(input_ids=ids, labels=ids).loss.backward()
    optimizer.zero_grad()
    found = describe_network(optimizer)
    each = found.get("flops_per_token")
    if each is None:
        return found["why"]["flops_per_token"]
    each = per_token(each, found.get("attention_flops", {}), SEQUENCE)
    attention = each - found["flops_per_token"]
    again = found.get("recomputed_flops_per_token", 0)
    ratio = ROWS * SEQUENCE / counter.get_total_flops()
    return [each * ratio, (each + again + attention / 3 * bool(again)) * ratio]


found = {}
for name, make in {
    "gpt": lambda: made("GPT2", **GPT2),
    "bert": lambda: made("Bert", **LAYERS),
    "llama": lambda: made("Llama", num_key_value_heads=2, **LAYERS),
    "experts": lambda: made("Mixtral", num_key_value_heads=2, **MIXTURE, **LAYERS),
    "adapted": lambda: adapted(made("Llama", **LAYERS)),
    "adapted, tied": lambda: adapted(made("Llama", tie_word_embeddings=True, **LAYERS)),
    "upper half": lambda: only(made("Llama", **LAYERS), "layers.2", "layers.3", "lm_head"),
    "checkpointed": lambda: checkpointed(made("GPT2", **GPT2)),
    "compiled": lambda: torch.compile(made("GPT2", **GPT2), backend="eager"),
}.items():
    found[name] = compared(make(), FlopCounterMode(display=False))
fused = made("GPT2", **{**GPT2, "attn_implementation": "sdpa", "attn_pdrop": 0.0})
found["fused"] = compared(fused, _counter())
convolution = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3))
optimizer = torch.optim.SGD(convolution.parameters(), lr=0.1)
found["convolution"] = describe_network(optimizer)["why"]["flops_per_token"]
print(json.dumps(found))
