"""Say what dlmon takes an update of several networks for, beside what PyTorch's counter counts."""

import json
import sys
import types

import torch
import transformers
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, sys.argv[1])

from dlmon.instrument import outermost
from dlmon.instrument.flop_count import _counter
from dlmon.instrument.graphs import recomputed_behind
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


def checkpointed(network, **options):
    network.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    # Of a network that was adapted, what goes into a layer has no gradient else.
    network.enable_input_require_grads()
    return network


class Blocks(torch.nn.Module):
    """Calls PyTorch's checkpoint itself, for every other of its blocks."""

    def __init__(self, **options):
        super().__init__()
        self.options, wide = options, 128
        self.first, self.head = torch.nn.Embedding(WORDS, 64), torch.nn.Linear(64, WORDS)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.Linear(64, wide), torch.nn.ReLU(), torch.nn.Linear(wide, 64)
            )
            for _ in range(4)
        )

    def forward(self, input_ids, labels):
        hidden = self.first(input_ids)
        for number, block in enumerate(self.blocks):
            hidden = checkpoint(block, hidden, **self.options) if number % 2 else block(hidden)
        scores = self.head(hidden).view(-1, WORDS)
        loss = torch.nn.functional.cross_entropy(scores, labels.view(-1))
        return types.SimpleNamespace(loss=loss)


def only(network, *parts):
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(any(part in name for part in parts))
    return network


def compared(network, counter, is_seen=True):
    network.train()
    trained = [one for one in network.parameters() if one.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    ids = torch.randint(0, WORDS, (ROWS, SEQUENCE))
    with counter:
        loss = network(input_ids=ids, labels=ids).loss
    total = counter.get_total_flops()
    recomputed = recomputed_behind(loss) if is_seen else None
    with counter:
        loss.backward()
    total += counter.get_total_flops()
    optimizer.zero_grad()
    found = describe_network(optimizer, recomputed=recomputed)
    each = found.get("flops_per_token")
    if each is None:
        return found["why"]["flops_per_token"]
    each = per_token(each, found.get("attention_flops", {}), SEQUENCE)
    attention = each - found["flops_per_token"]
    again = found.get("recomputed_flops_per_token", 0)
    ratio = ROWS * SEQUENCE / total
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
    "checkpointed llama": lambda: checkpointed(made("Llama", **LAYERS), use_reentrant=False),
    "checkpointed in full": lambda: checkpointed(made("Llama", **LAYERS), use_reentrant=True),
    "checkpointed, adapted": lambda: checkpointed(
        adapted(made("Llama", **LAYERS)), use_reentrant=False
    ),
    "checkpointed by itself": lambda: Blocks(use_reentrant=False),
    "checkpointed by itself in full": lambda: Blocks(use_reentrant=True),
    "compiled": lambda: torch.compile(made("GPT2", **GPT2), backend="eager"),
}.items():
    found[name] = compared(make(), FlopCounterMode(display=False))
switched = checkpointed(made("GPT2", **GPT2))
found["checkpointed, by its switch"] = compared(switched, FlopCounterMode(display=False), False)
fused = made("GPT2", **{**GPT2, "attn_implementation": "sdpa", "attn_pdrop": 0.0})
found["fused"] = compared(fused, _counter())
convolution = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3))
optimizer = torch.optim.SGD(convolution.parameters(), lr=0.1)
found["convolution"] = describe_network(optimizer)["why"]["flops_per_token"]
print(json.dumps(found))
