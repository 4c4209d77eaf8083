"""The processes that train: which of them leads, and which GPU of this machine they mean."""

import asyncio
import socket

import pytest

from dlmon.records import Epoch, GpuFacts, Model, Notice, Trainer, encode
from dlmon.supervisor import trainers as module
from dlmon.supervisor.trainers import Trainers, with_gpu_number

TWO = (GpuFacts(0, "A", uuid="GPU-aa11"), GpuFacts(1, "B", uuid="GPU-bb22"))


def model(device, uuid=None):
    return Model(*(None,) * 6, device=device, device_uuid=uuid, why={"epochs": "not said"})


@pytest.mark.parametrize(("uuid", "gpus"), [("GPU-bb22", TWO), ("GPU-bb", TWO), (None, TWO[1:])])
def test_a_gpu_has_nvmls_number_by_the_begin_of_its_uuid_or_as_the_only_one(uuid, gpus):
    found = with_gpu_number(model("gpu", uuid), gpus)
    assert (found.device, found.gpus) == ("gpu:1", (1,))


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
        self.began = asyncio.Event()
        self.trainers = Trainers(self.write, self.notices.append)
        self.trainers.listen(path)

    def write(self, record):
        self.written.append(record)
        self.began.set()

    async def train(self, rank, pid=None):
        """Let a rank connect, say who it is, and end one epoch that lasted `rank` + 1 ns."""
        connection = self.sockets[rank] = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        who = Trainer(1, 0, 100 if pid is None else pid, "torch", rank=rank, world_size=2)
        epoch = Epoch(0, 10, 10, 10 + (rank or 0) + 1, True, 5, {})
        connection.sendall(encode(who) + encode(epoch))
        await self.heard()

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


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_rank_0_leads_whichever_connects_first(scripted, order):
    async def play(script):
        for rank in order:
            await script.train(rank)

    script = scripted(play)
    assert script.numbers == {0: 0, 1: 1, 2: 2}
    assert script.leads == [0]
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


def test_where_no_rank_0_comes_the_lowest_one_leads(scripted):
    async def play(script):
        for rank in (9, 8):
            await script.train(rank)
        assert script.written == []

    script = scripted(play)
    assert script.numbers == {8: 0, 9: 1}
    assert script.leads == [8]


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
