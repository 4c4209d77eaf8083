"""Serve metrics on a socket: `python -P -m dlmon.exporter [OPTIONS] FD DIRECTORY`.

With --interval, this machine is sampled; --pcie measures its PCIe links too. With --until-idle, it
ends once no session has run for two minutes, so that a scraper sees how the last one ended.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import socket
from pathlib import Path

from dlmon.exporter.exporter import serve
from dlmon.session.local_machine import LocalMachine

IDLE_S = 120.0


def main() -> None:
    """Serve until the process is ended, or idle."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--interval", type=float)
    parser.add_argument("--pcie", action="store_true")
    parser.add_argument("--until-idle", action="store_true")
    parser.add_argument("fd", type=int)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    # What trains goes first.
    os.nice(10)
    machine = None if options.interval is None else LocalMachine(options.interval, options.pcie)
    until_idle_s = IDLE_S if options.until_idle else math.inf
    with socket.socket(fileno=options.fd) as listening:
        asyncio.run(serve(listening, options.directory, machine, until_idle_s))


if __name__ == "__main__":
    main()
