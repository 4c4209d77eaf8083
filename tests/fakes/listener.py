"""A monitor's end of the socket that scripts report to, without a monitor."""

import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

from dlmon.instrument.reporter import SOCKET
from dlmon.records import decode


class Listener:
    """Takes the records of every process that connects, until it is left.

    `environment` is this process's own, with the socket's path in it.
    """

    def __enter__(self):
        # A socket's path may be no longer than 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="dlmon-listener-"))
        path = str(self._folder / "s")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(path)
        self._socket.listen()
        self.environment = {**os.environ, SOCKET: path}
        self._received = []
        self._readers = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, *error):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._socket.close()
        shutil.rmtree(self._folder)

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            received = bytearray()
            self._received.append(received)
            reader = threading.Thread(target=self._read, args=(connection, received), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, connection, received):
        with connection:
            while data := connection.recv(1 << 16):
                received += data

    def records(self):
        """Return what each process sent, a list for each connection; waits until all have ended."""
        for reader in self._readers:
            reader.join()
        return [[decode(line) for line in bytes(data).splitlines()] for data in self._received]
