"""Asking a session that runs: no answer is waited for without end."""

import asyncio
import os
import socket
import threading
import uuid

import pytest

from dlmon.protocol.control import NotControlled, address_of, ask


def test_an_answer_that_trickles_is_given_up_in_time():
    session, released = uuid.uuid4().hex, threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(address_of(session))
        listening.listen()

        def trickle():
            answering, _ = listening.accept()
            with answering:
                while not released.wait(0.02):
                    answering.send(b" ")

        trickling = threading.Thread(target=trickle, daemon=True)
        trickling.start()
        with pytest.raises(NotControlled, match="it did not answer within 1 s"):
            asyncio.run(ask(session, os.getpid(), {"ask": "stack"}, wait_s=0.6))
        released.set()
        trickling.join()
