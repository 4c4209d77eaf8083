"""What is read of a network: of stand-ins here, of real ones in tests/e2e/frameworks."""

import sys
from types import SimpleNamespace

import pytest

from dlmon.instrument.networks import (
    NO_EXPERTS,
    NOT_A_MODULE,
    OTHER_INPUT,
    SEVERAL,
    SHARED_LAYERS,
    TWO_SEQUENCES,
    Autocast,
    describe_network,
    will_step,
)
from dlmon.instrument.outermost import made

WIDTH, WORDS = 8, 32


class Type(str):
    __slots__ = ()

    @property
    def is_floating_point(self):
        return "float" in self


class Parameter:
    is_cuda = False

    def __init__(self, *shape, trains=True, dtype="float32", **more):
        self.shape, self.requires_grad, self.grad = shape, trains, None
        self.dtype = Type(f"torch.{dtype}")
        vars(self).update(more)


class Module:
    def __init__(self, **parts):
        made(self)
        self._modules = {name: one for name, one in parts.items() if isinstance(one, Module)}
        self._parameters = {n: one for n, one in parts.items() if isinstance(one, Parameter)}

    def named_modules(self, seen=None, path=""):
        seen = set() if seen is None else seen
        if id(self) not in seen:
            seen.add(id(self))
            yield path, self
            for name, module in self._modules.items():
                yield from module.named_modules(seen, f"{path}.{name}" if path else name)

    def modules(self):
        return (module for _, module in self.named_modules())

    def parameters(self):
        return (one for module in self.modules() for one in module._parameters.values())


class Embedding(Module):
    pass


class Linear(Module):
    pass


class BertPooler(Module):
    pass


class GPT(Module):
    pass


class Optimizer:
    def __init__(self, *parameters):
        made(self)
        self.param_groups = [{"params": list(parameters)}]


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    cuda = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True))
    made = SimpleNamespace(
        nn=SimpleNamespace(Module=Module),
        optim=SimpleNamespace(Optimizer=Optimizer),
        backends=SimpleNamespace(cuda=cuda),
        is_grad_enabled=lambda: True,
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def matrix(**more):
    return Linear(weight=Parameter(WIDTH, WIDTH, **more), bias=Parameter(WIDTH))


def gpt(config=None, **parts):
    words = Parameter(WORDS, WIDTH)
    network = GPT(
        words=Embedding(weight=words),
        places=Embedding(weight=Parameter(64, WIDTH)),
        layers=Module(**{str(number): Module(net=matrix()) for number in range(2)}),
        head=Linear(weight=words),
        **parts,
    )
    if config is not None:
        network.config = config
    return network


def described(network, *more):
    return describe_network(Optimizer(*network.parameters(), *more))


CONFIG = {"n_layer": 2, "n_embd": WIDTH, "n_head": 2}
OF_WEIGHTS = 6 * (2 * WIDTH**2 + WORDS * WIDTH)


@pytest.mark.parametrize("kind", [dict, lambda **values: SimpleNamespace(**values)])
def test_a_tied_head_counts_once_and_what_is_looked_up_does_not(kind):
    found = described(gpt(kind(**CONFIG)))
    assert found["flops_per_token"] == OF_WEIGHTS
    assert found["attention_flops"] == {"all": 12 * 2 * WIDTH}
    assert (found["network"], found["compute_precision"]) == ("GPT", "float32")
    assert found["parameters"] == WORDS * WIDTH + 64 * WIDTH + 2 * (WIDTH**2 + WIDTH)
    assert "why" not in found


def test_the_gradient_goes_through_a_frozen_head_that_is_tied_to_the_frozen_embedding():
    network = gpt()
    for parameter in network.parameters():
        parameter.requires_grad = False
    for layer in network._modules["layers"].modules():
        layer._parameters = {**layer._parameters, "added": Parameter(WIDTH)}
    assert described(network)["flops_per_token"] == 4 * (2 * WIDTH**2 + WORDS * WIDTH)


@pytest.mark.parametrize(
    "config",
    [
        # Another network's, or a script's own.
        {**CONFIG, "n_layer": 12},
        {**CONFIG, "n_embd": 768},
        {"n_layer": 2, "n_embd": WIDTH},
        {"n_layer": True, "n_embd": "8", "n_head": None},
        "gpt2",
        None,
    ],
)
def test_a_foreign_configuration_says_nothing_of_attention(config):
    found = described(gpt(config))
    assert found["flops_per_token"] == OF_WEIGHTS
    assert (found.get("attention_flops"), found["flops_from"]) == (None, "weights")


@pytest.mark.parametrize(
    ("more", "attention"),
    [
        ({"head_dim": 16}, {"all": 2 * 32}),
        ({"sliding_window": 5}, {"5": 2 * WIDTH}),
        ({"sliding_window": 5, "use_sliding_window": False}, {"all": 2 * WIDTH}),
        (
            {"sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]},
            {"all": WIDTH, "5": WIDTH},
        ),
        ({"layer_types": ["full_attention", "linear_attention"]}, {"all": WIDTH}),
        ({"qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8}, {"all": 2 * 20}),
    ],
)
def test_attention_is_as_wide_and_looks_as_far_as_the_configuration_says(more, attention):
    found = described(gpt({**CONFIG, **more}))
    assert found["attention_flops"] == {span: 12 * size for span, size in attention.items()}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({**CONFIG, "is_encoder_decoder": True}, TWO_SEQUENCES),
        ({**CONFIG, "vision_config": {}}, OTHER_INPUT),
        ({**CONFIG, "num_hidden_groups": 1}, SHARED_LAYERS),
    ],
)
def test_what_can_not_be_known_of_a_network_has_its_reason(config, why):
    found = described(gpt(config))
    assert "flops_per_token" not in found
    assert found["why"] == {"flops_per_token": why}
    assert found["network"] == "GPT"


def test_of_experts_those_that_a_token_takes_count():
    experts = Module(up=Parameter(4, WIDTH, WIDTH))
    chosen = {**CONFIG, "num_local_experts": 4, "num_experts_per_tok": 1}
    assert described(gpt(chosen, experts=experts))["flops_per_token"] == OF_WEIGHTS + 6 * WIDTH**2
    assert described(gpt(CONFIG, experts=experts))["why"]["flops_per_token"] == NO_EXPERTS


def test_what_takes_one_token_of_a_sequence_or_is_added_multiplies_nothing():
    added = {"pos_embedding": Parameter(64, WIDTH), "mask": Parameter(1, 1, WIDTH)}
    found = described(gpt(CONFIG, pooler=BertPooler(net=matrix()), more=Module(**added)))
    assert found["flops_per_token"] == OF_WEIGHTS


def test_a_frozen_copy_beside_what_trains_is_no_part_of_the_network():
    def tower(trains):
        return Module(
            into=Linear(weight=Parameter(WIDTH, WIDTH, trains=trains)),
            out=Linear(weight=Parameter(4, WIDTH, trains=trains)),
        )

    head = Linear(weight=Parameter(WIDTH, 4, trains=False))
    network = Module(online=tower(True), average=tower(False), head=head)
    described = describe_network(Optimizer(*network.parameters()), called=[network])
    assert described["parameters"] == (WIDTH + 4) * WIDTH + 4 * WIDTH
    layers = Module(**{str(number): tower(number > 0) for number in range(3)})
    described = describe_network(Optimizer(*layers.parameters()))
    assert described["parameters"] == 3 * (WIDTH + 4) * WIDTH


def test_of_several_networks_that_hold_what_trains_it_is_the_one_that_was_called():
    class Sampler(Module):
        pass

    class Trainer(Module):
        pass

    inner = Linear(weight=Parameter(WIDTH, WIDTH))
    holders = [Trainer(inner=inner), Sampler(inner=inner)]
    for called in holders:
        described = describe_network(Optimizer(*inner.parameters()), called=[called])
        assert described["network"] == type(called).__name__


def test_two_networks_are_not_taken_for_one():
    one, other = gpt(CONFIG), gpt(CONFIG)
    both = Optimizer(*one.parameters(), *other.parameters())
    assert describe_network(both)["why"]["flops_per_token"] == SEVERAL
    # As a generator and what judges it.
    judges = Optimizer(*other.parameters())
    assert described(one)["flops_per_token"] == OF_WEIGHTS
    next(other.parameters()).grad = 1
    assert described(one)["why"]["flops_per_token"] == SEVERAL
    assert judges is not None


def test_parameters_without_a_network_have_none():
    assert describe_network(Optimizer(Parameter(2, 2)))["why"]["flops_per_token"] == NOT_A_MODULE


def test_what_ranks_share_or_what_is_packed_counts_as_a_whole():
    quantised = Parameter(WIDTH**2 // 2, 1, dtype="uint8", trains=False)
    quantised.quant_state = SimpleNamespace(shape=(WIDTH, WIDTH))
    sharded = Parameter(0, ds_shape=(WIDTH, WIDTH))
    found = described(GPT(first=Linear(weight=sharded), then=Linear(weight=quantised)))
    assert found["parameters"] == 2 * WIDTH**2
    assert found["flops_per_token"] == (6 + 4) * WIDTH**2


def test_what_fsdp_keeps_as_one_is_taken_apart():
    words, head, net = Embedding(), Linear(), Linear()
    flat = Parameter(7)
    flat._param_infos = [SimpleNamespace(module=one, param_name="weight") for one in (words, net)]
    flat._shapes = [(WORDS, WIDTH), (WIDTH, WIDTH)]
    shared = {"prim_module": words, "prim_param_name": "weight"}
    flat._shared_param_infos = [SimpleNamespace(module=head, param_name="weight", **shared)]
    inner = GPT(words=words, net=net, head=head)
    # Used beside it, each rank's share stays where it was.
    net._parameters["weight"] = Parameter(0)
    wrapped = Module(_fsdp_wrapped_module=inner, _flat_param=flat)
    wrapped._handle = SimpleNamespace(flat_param=flat)
    wrapped.mixed_precision = SimpleNamespace(param_dtype="torch.bfloat16")
    found = described(wrapped)
    assert found["parameters"] == WORDS * WIDTH + WIDTH**2
    assert found["flops_per_token"] == 6 * (WORDS * WIDTH + WIDTH**2)
    assert (found["network"], found["compute_precision"]) == ("GPT", "bfloat16")


def test_products_are_computed_in_what_autocast_says_else_as_most_weights_are(torch):
    network = gpt(CONFIG)
    optimizer = Optimizer(*network.parameters())
    assert describe_network(optimizer, "float16")["compute_precision"] == "float16"
    for parameter in network.parameters():
        parameter.is_cuda = True
    assert describe_network(optimizer)["compute_precision"] == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = False
    assert describe_network(optimizer)["compute_precision"] == "float32"


def test_autocast_is_watched_until_it_is_asked_for(torch):
    class autocast:
        fast_dtype, _enabled = "torch.bfloat16", True

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    own, watched = autocast.__enter__, Autocast()
    watched.watch(autocast)
    torch.is_grad_enabled = lambda: False
    with autocast():
        assert watched._precision is None
    torch.is_grad_enabled = lambda: True
    with autocast() as entered:
        assert isinstance(entered, autocast)
    assert watched.seen() == "bfloat16"
    assert autocast.__enter__ is own


def test_before_the_first_step_it_is_the_optimizer_whose_parameters_have_gradients():
    resting, summing = Optimizer(Parameter(2, 2)), Optimizer(Parameter(2, 2), Parameter(2, 2))
    assert will_step() is None
    summing.param_groups[0]["params"][1].grad = True
    assert will_step() is summing is not resting
