"""Ask the sensors for this machine's facts, once, for `dlmon doctor`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dlmon.doctor import Finding, examine
from dlmon.records import Facts
from dlmon.sensing import Sensing

FACTS_S = 25.0


def run_doctor(directory: Path) -> tuple[Finding, ...]:
    """Return what this machine offers and lacks; sessions are kept in `directory`."""
    answer = asyncio.run(_first_facts())
    facts = answer if isinstance(answer, Facts) else None
    return examine(facts, answer if isinstance(answer, str) else None, directory)


async def _first_facts() -> Facts | str:
    told: asyncio.Future[Facts | str] = asyncio.get_running_loop().create_future()

    def tell(answer: Facts | str) -> None:
        if not told.done():
            told.set_result(answer)

    sensing = Sensing(1.0, tell, lambda sample: None, tell)
    sensing.start()
    try:
        return await asyncio.wait_for(told, FACTS_S)
    except TimeoutError:
        return f"the sensors did not answer within {FACTS_S:.0f} s"
    finally:
        sensing.close()
