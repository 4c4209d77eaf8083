"""The address at which metrics are served: what is taken, and what is said of others."""

from __future__ import annotations

import socket

import pytest

from dlmon.launch import exporter_process
from dlmon.launch.exporter_process import ServeError, address_of, listen, serve_sessions


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("127.0.0.1", 9817)),
        ("9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        ("localhost:9000", ("127.0.0.1", 9000)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
        ("[::1]:9000", ("::1", 9000)),
    ],
)
def test_an_address_is_loopback_unless_another_is_named(text, address):
    assert address_of(text) == address


@pytest.mark.parametrize(
    "text", ["gpu1", "gpu1:9000", "1.2.3.4", "::1", "65536", "-1", "9e3", "٣", "1" * 5000, "a\n:1"]
)
def test_what_is_no_address_is_refused_in_one_sentence(text):
    with pytest.raises(ServeError, match=r"^metrics are served at ADDRESS:PORT, as 127.0.0.1:9817"):
        address_of(text)


def test_a_busy_port_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        sentence = f"served at 127.0.0.1:{port}: another program uses the port; name another one$"
        with pytest.raises(ServeError, match=sentence):
            listen(str(port))
        with pytest.raises(ServeError, match=sentence):
            serve_sessions(str(port), tmp_path)


def test_without_prometheus_client_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(exporter_process, "find_spec", lambda name: None)
    with pytest.raises(ServeError, match=r"pip install 'dlmon\[prometheus\]'"):
        listen("0")


def test_the_sessions_of_a_directory_are_served_once(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(
        exporter_process,
        "_start",
        lambda sockets, *rest: started.append([s.dup() for s in sockets]),
    )
    assert serve_sessions("0", tmp_path) is serve_sessions("0", tmp_path) is None
    assert len(started) == 1
    serve_sessions("0", tmp_path / "other")
    assert len(started) == 2
    for held in (held for sockets in started for held in sockets):
        held.close()
    # The process that served them has ended.
    serve_sessions("0", tmp_path)
    assert len(started) == 3
    for held in started[-1]:
        held.close()
