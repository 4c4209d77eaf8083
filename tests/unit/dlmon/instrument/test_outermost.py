"""The tokens of loops, as they are counted at loaders, and at networks where there is none."""

import copy
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.loops import Script

from dlmon.instrument.outermost import Outermost, made, networks_of, weights_of


class Module:
    """A network, as far as its outermost one is looked for."""

    def __init__(self, *parts, parameters=()):
        made(self)
        self._modules = dict(enumerate(parts))
        self._parameters = dict(enumerate(parameters))
        self.training = True

    def __call__(self, *arguments, **named):
        return self.forward(*arguments, **named)

    def forward(self, *arguments, **named):
        return "computed"


class Network(Module):
    pass


class Around(Module):
    """What stands around a network, as what compiles it does."""

    def forward(self, *arguments, **named):
        return self._modules[0](*arguments, **named)


class Optimizer:
    def __init__(self, *parameters):
        self.param_groups = [{"params": list(parameters)}]


WEIGHTS = [object(), object()]


@pytest.fixture
def torch(monkeypatch):
    made = SimpleNamespace(
        nn=SimpleNamespace(Module=Module),
        Tensor=np.ndarray,
        is_grad_enabled=lambda: made.gradients,
        compiler=SimpleNamespace(is_compiling=lambda: made.compiles),
        gradients=True,
        compiles=False,
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    for kind in (Network, Around):
        # It is set here so that it is taken back.
        monkeypatch.setattr(kind, "__call__", Module.__call__, raising=False)
    return made


def ids(rows=2, length=5):
    return np.ones((rows, length), np.int64)


def images():
    return np.ones((2, 3, 8, 8), np.float32)


def test_the_outermost_networks_that_hold_what_is_trained_are_found(torch):
    one, other = WEIGHTS
    inner = Network(Module(parameters=[one]))
    around = Around(inner)
    beside, frozen = Network(parameters=[other]), Network(parameters=[object()])
    assert networks_of(weights_of(Optimizer(one))) == [around]
    assert {id(each) for each in networks_of(weights_of(Optimizer(*WEIGHTS)))} == {
        id(around),
        id(beside),
    }
    assert frozen not in networks_of(weights_of(Optimizer(*WEIGHTS)))


def test_what_goes_into_the_outermost_network_counts_once_and_only_in_training(torch):
    network = Around(Network(parameters=WEIGHTS))
    outermost = Outermost()
    outermost.watch(Optimizer(*WEIGHTS))
    assert outermost.take() is None
    assert [network(ids()), network(ids(3, 4), ids(3, 4)), network(input_ids=ids())] == [
        "computed"
    ] * 3
    assert [outermost.take(), outermost.take()] == [10 + 12 + 10, 0]
    torch.gradients = False
    network(ids())
    torch.gradients, network.training = True, False
    network(ids())
    network.training = True
    torch.compiles = True
    network(ids())
    assert outermost.take() == 0


def test_what_a_step_ran_out_of_memory_with_does_not_count(torch):
    network = Network(parameters=WEIGHTS)
    outermost = Outermost()
    outermost.watch(Optimizer(*WEIGHTS))
    for each in (ids(2, 5), ids(64, 5)):
        network(each)
    outermost.failed()
    outermost.failed()
    network(ids(32, 5))
    assert outermost.take() == 10 + 160


def loss_of(*looked_up, weights=()):
    """Return a loss of embeddings, one around the other, as its backward graph says it."""
    graph = None
    for weight in weights:
        ours = Node(name=lambda: "torch::autograd::AccumulateGrad", variable=weight)
        ours.next_functions = []
        graph = Node(next_functions=[(ours, 0), (graph, 0)])
    for array in looked_up:
        kept = SimpleNamespace(_raw_saved_indices=SimpleNamespace(data=array))
        kept.next_functions = [(graph, 0), (None, 0)]
        graph = Node(next_functions=[(Node(vars(kept)), 0), (graph, 0)])
    return SimpleNamespace(grad_fn=graph)


class Node(SimpleNamespace):
    def __init__(self, named=(), **others):
        super().__init__(**{"name": str, **dict(named), **others})

    __hash__ = object.__hash__


def take_steps(torch, *steps):
    """Return the tokens of the steps of a loop without a loader, by what each went backward from.

    A step is a list of batches, and of what their losses say that they were computed with.
    """
    script, network, optimizer = Script(), Network(parameters=WEIGHTS), Optimizer(*WEIGHTS)
    outermost = script.steps.outermost
    for step in steps:
        for batch, behind in step:
            network(batch)
            if outermost.looks_back:
                outermost.went_backward(loss_of(*behind))
        script.took(5)
        script.step(optimizer)
    return tokens_of(script)


def test_the_first_step_of_a_loop_without_a_loader_has_what_its_losses_came_from(torch):
    positions = np.arange(5)
    assert take_steps(
        torch,
        *([(ids(rows), [ids(rows), positions, ids(1)]), (ids(), [ids()])] for rows in (3, 4, 3)),
    ) == [25, 30, 25]


@pytest.mark.parametrize(
    "behind",
    [[], [np.arange(10)], [images()], [ids().astype(np.float32)], [object()], [ids(), ids(3)]],
    ids=["nothing", "one dimension", "images", "numbers", "put away", "more than was counted"],
)
def test_the_first_step_has_no_tokens_where_the_second_came_from_others(torch, behind):
    steps = [[(ids(), [ids()])], [(ids(), behind)], [(ids(), [ids()])]]
    assert take_steps(torch, *steps) == [None, 10, 10]


def test_where_no_optimiser_steps_the_network_is_the_one_whose_weights_a_loss_came_from(torch):
    script, network, other = Script(), Network(parameters=WEIGHTS), Network(parameters=[object()])
    sizes = [2 + step % 3 for step in range(12)]
    for rows in sizes:
        network(ids(rows))
        other(ids(7))
        if script.steps.outermost.looks_back:
            script.steps.outermost.went_backward(loss_of(ids(rows), weights=WEIGHTS))
        script.backward()
    assert tokens_of(script) == [5 * rows for rows in sizes]


def test_a_first_step_that_ran_out_of_memory_has_no_tokens(torch):
    outermost = Outermost()
    outermost.went_backward(loss_of(ids()))
    outermost.failed()
    assert not outermost.looks_back
    outermost.watch(Optimizer(*WEIGHTS))
    assert outermost.took_at_first(10) is None


def test_of_what_never_steps_not_every_loss_is_looked_at(torch):
    outermost = Outermost()
    looked = 0
    while outermost.looks_back and looked < 5000:
        outermost.went_backward(loss_of(ids()))
        looked += 1
    assert looked == 1000


def test_after_an_error_of_ours_the_tokens_are_unknown_and_the_script_goes_on(torch, monkeypatch):
    network = Network(parameters=WEIGHTS)
    outermost = Outermost()
    outermost.watch(Optimizer(*WEIGHTS))
    network(ids())
    monkeypatch.setattr(outermost.counter, "of", lambda *given: 1 // 0)
    assert network(ids()) == "computed"
    assert (outermost.take(), outermost.is_watching) == (None, False)


def test_of_two_networks_that_get_the_same_batch_the_first_counts(torch):
    one, other = (Network(parameters=[weight]) for weight in WEIGHTS)
    outermost = Outermost()
    outermost.watch(Optimizer(*WEIGHTS))
    one(ids())
    other(ids())
    assert outermost.take() == 10


def test_a_network_of_images_has_none_and_is_called_all_the_same(torch):
    network = Network(parameters=WEIGHTS)
    outermost = Outermost()
    outermost.watch(Optimizer(*WEIGHTS))
    for _ in range(2):
        assert network(images(), ids()) == "computed"
    assert outermost.take() is None
    assert (outermost.calls, outermost.samples) == (2, 4)


def test_a_network_is_copied_and_kept_as_without_us_and_its_errors_are_its_own(torch, monkeypatch):
    network = Network(parameters=[1, 2])
    Outermost().watch(Optimizer(*network._parameters.values()))
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert vars(other).keys() == vars(network).keys()
        assert other(ids()) == "computed"

    # As cloudpickle does with a script's own class: it keeps what a function names.
    call = vars(Network)["__call__"]
    ours = [
        cell.cell_contents for cell in call.__closure__ if type(cell.cell_contents) is Outermost
    ]
    assert [pickle.loads(pickle.dumps(each)) for each in ours] == [None]
    assert not set(call.__code__.co_names) & set(call.__globals__)

    def fails(*arguments):
        raise ValueError("its own")

    monkeypatch.setattr(Module, "forward", fails)
    with pytest.raises(ValueError, match="its own"):
        network(ids())


def test_an_optimiser_that_says_nothing_is_no_fault(torch):
    outermost = Outermost()
    outermost.watch(object())
    assert (outermost.take(), outermost.is_watching) == (None, False)


# What passes make of them.


def tokens_of(script):
    """Return the tokens of each batch; None where they aren't known."""
    known = []
    for batches in script.reported().batches:
        each = batches.tokens
        known += each if isinstance(each, tuple) else (each,) * batches.count
    return known


def test_loaders_that_are_read_side_by_side_add_up(torch):
    script, optimizer = Script(), Optimizer()
    one, other = script.loader(30, 10, length=4), script.loader(60, 20, length=3)
    for _ in zip(one, other, strict=True):
        script.took(5)
        script.step(optimizer)
    assert tokens_of(script) == [40 + 60] * 3


def test_batches_that_are_fetched_ahead_have_their_own(torch):
    script, optimizer = Script(), Optimizer()
    batches = iter(script.loader(40, 10, length=4, wait_ms=1))
    for _ in range(2):
        for _ in range(2):
            next(batches)
        script.took(40)
        script.step(optimizer)
    assert tokens_of(script) == [40] * 4


def test_single_batches_of_a_loader_have_their_own(torch):
    script, optimizer = Script(), Optimizer()
    loader = script.loader(40, 10, length=4)
    for _ in range(3):
        next(iter(loader))
        script.took(5)
        script.step(optimizer)
    assert tokens_of(script) == [40] * 3


def test_what_is_gone_is_found_no_more(torch):
    weight = object()
    network = Network(parameters=[weight])
    assert networks_of(weights_of(Optimizer(weight))) == [network]
    del network
    assert networks_of(weights_of(Optimizer(weight))) == []
