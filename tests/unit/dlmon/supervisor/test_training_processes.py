"""The processes that train: which of them leads, and which GPU of this machine they mean."""

import asyncio
import itertools
import socket
from dataclasses import replace

import pytest

from dlmon.records import (
    Batches,
    BatchSummary,
    Epoch,
    GpuFacts,
    Model,
    NamedPause,
    Notice,
    Stack,
    Trainer,
    encode,
)
from dlmon.supervisor import training_processes as module
from dlmon.supervisor.training_processes import (
    EPOCHS,
    OF_EPOCHS,
    SAMPLES_PER_STEP,
    STEPS,
    ExpectedTraining,
    TrainingProcesses,
    with_gpu_number,
)

TWO = (GpuFacts(0, "A", uuid="GPU-aa11"), GpuFacts(1, "B", uuid="GPU-bb22"))


def model(device, uuid=None):
    return Model(*(None,) * 6, device=device, device_uuid=uuid, why={"epochs": "not said"})


@pytest.mark.parametrize(("uuid", "gpus"), [("GPU-bb22", TWO), ("GPU-bb", TWO), (None, TWO[1:])])
def test_a_gpu_has_nvmls_number_by_the_begin_of_its_uuid_or_as_the_only_one(uuid, gpus):
    found = with_gpu_number(model("gpu", uuid), gpus)
    assert (found.device, found.gpus) == ("gpu:1", (1,))


@pytest.mark.parametrize(
    ("uuid", "number"),
    [
        ("amd:0", "gpu:1"),
        ("amd:1", "gpu:2"),
        ("GPU-cc", "gpu:2"),
        ("intel:0", "gpu:3"),
        ("intel:", "gpu:3"),
        ("amd:", None),
        ("amd:7", None),
        # A CUDA program can't be on the others.
        (None, "gpu:0"),
    ],
)
def test_gpus_of_other_vendors_are_found_by_their_order(uuid, number):
    others = [GpuFacts(n, "AMD", uuid=f"GPU-{n}", vendor="amd") for n in (1, 2)]
    others[1] = replace(others[1], uuid="GPU-cc")
    gpus = (TWO[0], *others, GpuFacts(3, "Arc", uuid="PCI-0", vendor="intel"))
    assert with_gpu_number(model("gpu", uuid), gpus).device == number


@pytest.mark.parametrize(("device", "number"), [("0", 0), ("7", 0), ("8", 1), ("16", None)])
def test_a_device_of_a_divided_gpu_is_on_that_gpu(device, number):
    gpus = [GpuFacts(n, "MI300X", vendor="amd", rocm_devices=8) for n in range(2)]
    found = with_gpu_number(model("gpu", f"amd:{device}"), gpus)
    assert found.device == (None if number is None else f"gpu:{number}")


@pytest.mark.parametrize(
    ("uuid", "gpus", "why"),
    [
        (None, TWO, "its framework does not say which of the GPUs it is"),
        ("GPU-cc", TWO, "NVML knows no GPU GPU-cc"),
        ("GPU-", TWO, "NVML knows no GPU GPU-"),
        ("GPU-aa11", (), "NVML found no GPU, and the script's framework trains on one"),
        ("GPU-aa11", (GpuFacts(0, "lost"),), "NVML knows no GPU GPU-aa11"),
    ],
)
def test_a_gpu_that_is_not_known_for_sure_is_unknown_with_the_reason(uuid, gpus, why):
    found = with_gpu_number(model("gpu", uuid), gpus)
    assert found.device is None
    assert found.why == {"epochs": "not said", "device": why}


class Script:
    """Processes that connect to a monitor, and what it wrote of them."""

    def __init__(self, path):
        self.path, self.written, self.notices, self.sockets = path, [], [], {}
        self.began, self.times = asyncio.Event(), itertools.count(1)
        self.trainers = TrainingProcesses(self.write, self.notices.append)
        self.trainers.listen(path)

    def write(self, record):
        self.written.append(record)
        self.began.set()

    async def train(self, rank, pid=None):
        """Let a rank connect, say who it is, and end one epoch that lasted `rank` + 1 ns."""
        connection = self.sockets[rank] = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        pid = 100 if pid is None else pid
        who = Trainer(next(self.times), 0, pid, "torch", rank=rank, world_size=2)
        epoch = Epoch(0, 10, 10, 10 + (rank or 0) + 1, True, 5, {})
        connection.sendall(encode(who) + encode(epoch))
        await self.heard()
        return who

    async def send(self, rank, *records):
        self.sockets[rank].sendall(b"".join(map(encode, records)))
        await self.heard()

    async def leave(self, rank):
        self.sockets.pop(rank).close()
        await self.heard()

    async def heard(self):
        for _ in range(5):
            await asyncio.sleep(0)

    @property
    def numbers(self):
        """The number of each rank."""
        return {r.rank: r.number for r in self.written if isinstance(r, Trainer) and not r.ended}

    @property
    def leads(self):
        """The ranks whose epochs are those that are shown."""
        epochs = [r for r in self.written if isinstance(r, Epoch) and r.trainer is None]
        return [epoch.end - epoch.begin - 1 for epoch in epochs]


@pytest.fixture
def scripted(tmp_path):
    """Return a function that runs a coroutine with a `Script`, and returns that."""

    def run(play):
        async def playing():
            script = Script(tmp_path / "socket")
            await play(script)
            script.trainers.drain()
            for connection in script.sockets.values():
                connection.close()
            return script

        return asyncio.run(playing())

    return run


@pytest.mark.parametrize(
    ("order", "numbers"),
    [
        *((order, {0: 0, 1: 1, 2: 2}) for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0))),
        # Where it does not come, the lowest one leads.
        ((9, 8), {8: 0, 9: 1}),
    ],
)
def test_rank_0_leads_whichever_connects_first(scripted, order, numbers):
    async def play(script):
        for rank in order:
            assert script.written == [] or 0 in script.numbers
            await script.train(rank)

    script = scripted(play)
    assert script.numbers == numbers
    assert script.leads == [min(order)]
    assert script.notices == []


def test_a_rank_that_left_while_it_waited_is_written_beside_rank_0(scripted):
    async def play(script):
        for rank in (1, 2):
            await script.train(rank)
            await script.leave(rank)
        await script.train(0)

    script = scripted(play)
    assert script.numbers == {0: 0, 1: 1, 2: 2}
    assert script.leads == [0]
    ended = [r.rank for r in script.written if isinstance(r, Trainer) and r.ended]
    assert sorted(ended) == [0, 1, 2]


def test_rank_0_is_not_waited_for_without_end_and_it_is_said_whose_epochs_are_shown(
    scripted, monkeypatch
):
    monkeypatch.setattr(module, "LEADER_S", 0.01)

    async def play(script):
        await script.train(1)
        await script.began.wait()
        await script.train(0)

    script = scripted(play)
    assert script.numbers == {1: 0, 0: 1}
    assert script.leads == [1]
    [notice] = script.notices
    assert notice == (
        "rank 0 began to train after rank 1: epochs, validation and loss are those of rank 1"
    )


def test_a_process_that_connects_again_goes_on_where_it_was(scripted):
    async def play(script):
        who = await script.train(None)
        await script.leave(None)
        other = script.sockets[1] = socket.socket(socket.AF_UNIX)
        other.connect(str(script.path))
        await script.send(1, replace(who, pid=101))
        back = script.sockets[None] = socket.socket(socket.AF_UNIX)
        back.connect(str(script.path))
        await script.send(None, who, lost(1))
        await script.send(None, replace(who, ended=True))
        await script.leave(None)

    script = scripted(play)
    began = [(r.pid, r.number) for r in script.written if isinstance(r, Trainer) and not r.ended]
    assert began == [(100, 0), (101, 1)]
    epochs = [(r.trainer, r.epoch) for r in script.written if isinstance(r, Epoch)]
    assert epochs == [(None, 0), (None, 1)]
    ended = [r.pid for r in script.written if isinstance(r, Trainer) and r.ended]
    assert ended == [100, 101]


def test_a_process_that_goes_on_without_its_connection_is_told_of(scripted, monkeypatch):
    monkeypatch.setattr(module, "RETURN_S", 0.0)

    async def play(script):
        await script.train(0)
        await script.leave(0)
        await asyncio.sleep(0.01)

    [notice] = scripted(play).notices
    assert notice.startswith("process 100 closed its connection to dlmon and goes on")


def test_no_connection_is_missed_of_a_process_that_said_that_it_ends(scripted, monkeypatch):
    monkeypatch.setattr(module, "RETURN_S", 0.0)

    async def play(script):
        await script.train(0)
        await script.send(0, Trainer(9, 0, 100, "torch", rank=0, world_size=2, ended=True))
        await script.leave(0)
        assert script.written[-1].ended
        await asyncio.sleep(0.01)

    assert scripted(play).notices == []


def lost(epoch):
    """Return an epoch whose loss is NaN."""
    return Epoch(epoch, 20, 20, 30, True, 5, {"loss": None}, why={"loss": "NaN"})


def test_notices_name_the_epochs_as_the_log_counts_them(scripted):
    async def play(script):
        await script.train(None)
        await script.send(None, Epoch(2, 10, 10, 11, True, 5, {}))
        await script.leave(None)
        await script.train(None)
        await script.send(None, lost(1), lost(2))

    script = scripted(play)
    epochs = [record.epoch for record in script.written if isinstance(record, Epoch)]
    assert epochs == [0, 2, 3, 4, 5]
    assert script.notices == ["loss became NaN in epoch 5"]


def test_notices_on_epochs_wait_with_their_process_for_its_number(scripted):
    async def play(script):
        await script.train(1)
        await script.send(1, lost(1), Notice(26, "something else"))
        assert script.notices == ["something else"]
        await script.train(0)

    script = scripted(play)
    assert script.notices[1:] == ["loss became NaN in epoch 2"]


UNKNOWN = Model(
    *(None,) * 6, why={"epochs": "not said", "batch_size": "not said", "parameters": "not known"}
)
LOOP = replace(UNKNOWN, has_epochs=False)


@pytest.fixture
def training():
    """Return a function that makes what fills in, and the list of its notices."""

    def make(*expected):
        notices = []
        options = dict(zip((EPOCHS, STEPS, SAMPLES_PER_STEP), expected, strict=False))
        return ExpectedTraining({"interval": 1.0, **options}, notices.append), notices

    return make


def batches(epoch, samples=None):
    return Batches(epoch, 0, samples, 10, (1, 1))


def test_what_the_script_does_not_say_is_taken_from_the_person(training):
    told, notices = training(8, None, 32)
    model = told.describe(UNKNOWN)
    assert (model.epochs, model.batch_size, model.length_from) == (8, 32, OF_EPOCHS)
    assert model.inferred is not None
    assert model.why == {"parameters": "not known"}
    assert told.with_samples(batches(0)).samples == 32
    summary = BatchSummary(0, 0, 10, None, 0, 1, 1, (1,) * 7)
    assert told.with_samples(summary).samples == 320
    assert told.with_samples(Epoch(0, 0, 1, 1, True, None, {}, steps=10)).samples == 320
    assert notices == []


def test_what_the_script_says_stays_and_the_person_is_told(training):
    told, notices = training(8, None, 32)
    known = replace(UNKNOWN, epochs=3, batch_size=64)
    assert told.describe(known) == told.describe(known) == known
    assert told.with_samples(batches(0, 64)).samples == 64
    assert notices == [
        "--epochs 8 is not used: the script says 3",
        "--samples-per-step 32 is not used: batches have a size themselves",
    ]
    # What agrees needs no word, and what was inferred gives way.
    told, notices = training(3, None, 64)
    assert (told.describe(known), notices) == (known, [])
    inferred = replace(UNKNOWN, epochs=14, length_from="the script's default of epochs")
    assert told.describe(inferred).epochs == 3


def test_an_epoch_too_many_takes_the_number_back(training):
    told, notices = training(2)
    told.describe(UNKNOWN)
    assert told.correct(batches(1)) is None
    corrected = told.correct(batches(2))
    assert (corrected.epochs, corrected.length_from) == (None, None)
    assert corrected.why["epochs"] == "--epochs of dlmon exec says 2, and more came"
    assert told.correct(batches(3)) is None
    assert notices == ["--epochs 2 is wrong: another epoch began"]


def test_a_later_loop_has_the_rest_of_the_epochs(training):
    told, _ = training(3)
    assert told.describe(replace(UNKNOWN, first_epoch=2)).epochs == 3
    assert told.describe(replace(UNKNOWN, first_epoch=3)).epochs is None


def test_steps_end_a_loop_without_epochs_and_one_whose_epochs_have_a_length(training):
    told, _ = training(None, 250)
    assert (told.describe(LOOP).steps, told.describe(LOOP).epochs) == (250, None)
    model = told.describe(replace(UNKNOWN, steps_per_epoch=100))
    assert (model.epochs, model.epochs_in_all) == (None, 3)


@pytest.mark.parametrize(
    "early", [NamedPause(1, 2_000_000_000, "compile"), Stack(40, 10, 1, 1, (), goes_on=True)]
)
def test_where_a_process_compiles_or_stands_still_before_it_trains_is_written(early, scripted):

    async def play(script):
        connection = script.sockets[0] = socket.socket(socket.AF_UNIX)
        connection.connect(str(script.path))
        await script.send(0, early)
        await script.leave(0)

    script = scripted(play)
    assert script.written == [early]
    assert script.notices == []
    assert not script.trainers.any_trained
