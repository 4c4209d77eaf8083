"""What answers in place of a box's agent: it says what a file has it say, whatever that is.

The file holds JSON: `first` and `ready` are put into the two answers of the handshake, `answers`
are lines by what was asked, in which `"id": @` names the request. LONG stands for more
bytes than a line may have, END for the end of this process.
`instead` is all there is to say, before anything was asked; it is said again and again where
`forever` is true.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def say(text):
    data = text.encode("utf-8", "surrogatepass")
    while data:
        data = data[os.write(1, data) :]


def answer(line, number):
    if line == "END":
        sys.exit(0)
    if line == "LONG":
        say("x" * (17 << 20))
    else:
        say(line.replace('"id": @', f'"id": {number}', 1) + "\n")


def main():
    script = json.loads(Path(sys.argv[1]).read_text())
    while script.get("forever"):
        say(script["instead"])
    if "instead" in script:
        say(script["instead"])
        return
    requests = sys.stdin.buffer
    requests.readline()
    mark = json.loads(requests.readline())["mark"]
    first = {"python": "3.12.1", "missing": False, **script.get("first", {})}
    say(f"\n{mark} {json.dumps(first)}\n")
    ready = {"agent": "stand-in", "boot_id": "1", "pid": 1, **script.get("ready", {})}
    say(f"\n{mark} {json.dumps(ready)}\n")
    for line in requests:
        request = json.loads(line)
        ask, number = request["ask"], request["id"]
        if ask in script.get("answers", {}):
            for each in script["answers"][ask]:
                answer(each, number)
        elif ask == "ping":
            pong = {"id": number, "t": time.monotonic_ns(), "wall": time.time()}
            say(json.dumps(pong) + "\n" + json.dumps({"id": number, "end": True}) + "\n")


main()
