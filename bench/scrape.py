"""Time a scrape of 4 sessions on a machine with 8 GPUs, all of whose readings are known.

A client asks a server over loopback, as Prometheus does. Printed: the median and the 95 % quantile
of the CPU time of both, and the size of an answer.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import harness

sys.path.insert(0, str(harness.ROOT / "tests"))

from fakes.exported import exporter_of, training

from dlmon.exporter.server import Server

ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
BAR_MS = 10.0


async def scrape(port: int) -> bytes:
    """Return an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\nAccept: {ACCEPT}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


async def measure(folder: Path, sessions: int, gpus: int, times: int) -> None:
    exporter = exporter_of(folder, *(training(f"session-{n}", gpus) for n in range(sessions)))
    server = await asyncio.start_server(Server(exporter.answer).serve, "127.0.0.1", 0)
    port, took_ms, answer = server.sockets[0].getsockname()[1], [], b""
    for _ in range(times):
        begin_s = time.process_time()
        answer = await scrape(port)
        took_ms.append((time.process_time() - begin_s) * 1000)
    server.close()
    series = sum(not line.startswith(b"#") for line in answer.splitlines())
    p95_ms, median_ms = quantiles(took_ms, n=20)[-1], median(took_ms)
    print(f"an answer: {len(answer) / 1024:.0f} KiB, {series} series")
    reached = "reached" if median_ms <= BAR_MS else "not reached"
    print(
        f"CPU of a scrape: {median_ms:.1f} ms, 95 % {p95_ms:.1f} ms  bar {BAR_MS:g} ms  {reached}"
    )


def main() -> None:
    parser = harness.parser(__doc__)
    for name, default in (("sessions", 4), ("gpus", 8), ("times", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlmon-bench-") as folder:
        asyncio.run(measure(Path(folder), arguments.sessions, arguments.gpus, arguments.times))


if __name__ == "__main__":
    harness.run(main)
