"""The monitor's end of the socket: takes what every process of a script reports."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from pathlib import Path
from typing import Self

from dlmon.instrument.reporter import SOCKET
from dlmon.records import Answer, Batches, BatchSummary, Epoch, NamedPause, Record, Trainer, decode


class Reported:
    """The records of one process."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records

    def of(self, *kinds: type) -> list:
        return [record for record in self.records if isinstance(record, kinds)]

    @property
    def only_answers(self) -> bool:
        return bool(self.records) and all(isinstance(record, Answer) for record in self.records)

    @property
    def only_compiles(self) -> bool:
        """Whether it is what a process that has not trained yet said of what it compiles."""
        return bool(self.records) and all(isinstance(one, NamedPause) for one in self.records)

    @property
    def trainer(self) -> Trainer:
        return self.of(Trainer)[0]

    @property
    def epochs(self) -> list[Epoch]:
        """The last record of each epoch."""
        return list({epoch.epoch: epoch for epoch in self.of(Epoch)}.values())

    @property
    def phases(self) -> list[str]:
        return [record.name for record in self.records if record.TYPE == "phase"]

    @property
    def steps(self) -> int:
        """How many batches there are."""
        alone = sum(len(batches.dt_us) for batches in self.of(Batches))
        return alone + sum(batches.count for batches in self.of(BatchSummary))

    @property
    def samples(self) -> int | None:
        """How many samples all batches hold; None where that is not known of one."""
        total = 0
        for batches in self.of(Batches, BatchSummary):
            counted = batches.counted_in(steps=False)
            if counted is None:
                return None
            total += counted if isinstance(counted, int) else sum(counted)
        return total

    @property
    def updates(self) -> int:
        """How many steps of an optimiser the batches hold."""
        count = 0
        for batches in self.of(Batches, BatchSummary):
            steps = len(batches.dt_us) if isinstance(batches, Batches) else batches.count
            count += steps if batches.updates is None else batches.updates
        return count


class Listener:
    """Listens at a socket of its own while it is entered."""

    def __enter__(self) -> Self:
        # A socket's path may have 107 bytes at most.
        self._folder = tempfile.TemporaryDirectory(prefix="dlmon")
        self.path = str(Path(self._folder.name) / "socket")
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.path)
        self._server.listen(64)
        self._listen()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()
        self._server.close()
        self._folder.cleanup()

    def environment(self) -> dict[str, str]:
        """Return this process's environment, with the socket in it."""
        return {**os.environ, SOCKET: self.path}

    def reported(self) -> list[Reported]:
        """Return what each process reported since the last call; all of them must have ended.

        Left out are those that load data: they say that they answer questions, and no more.
        """
        self._stop()
        received = self._received
        self._listen()
        processes = [
            Reported([decode(line) for line in bytes(data).splitlines()]) for data in received
        ]
        self.compiled = [p.records for p in processes if p.only_compiles]
        return [p for p in processes if not p.only_answers and not p.only_compiles]

    def records(self) -> list[list[Record]]:
        """Return the records of each process, as `reported` does."""
        return [process.records for process in self.reported()]

    def _listen(self) -> None:
        self._readers: list[threading.Thread] = []
        self._received: list[bytearray] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _stop(self) -> None:
        # What has connected is accepted before this.
        last = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        last.connect(self.path)
        last.sendall(b"\0")
        last.close()
        self._accepting.join()
        for reader in self._readers:
            reader.join()

    def _accept(self) -> None:
        while True:
            connection = self._server.accept()[0]
            first = connection.recv(1)
            if first == b"\0":
                connection.close()
                return
            data = bytearray(first)
            self._received.append(data)
            reader = threading.Thread(target=_read, args=(connection, data), daemon=True)
            self._readers.append(reader)
            reader.start()


def _read(connection: socket.socket, data: bytearray) -> None:
    with connection:
        while part := connection.recv(1 << 16):
            data += part
