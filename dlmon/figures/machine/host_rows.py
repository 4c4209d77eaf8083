"""Write what is known of watched hosts the way people read it, and put them in order. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from dlmon.figures import units
from dlmon.figures.machine.readings import Level, gpu_kinds
from dlmon.figures.session import tokens
from dlmon.figures.session.phases import overdue_text, phase_text
from dlmon.quantities import rate_unit
from dlmon.records import WITHOUT_EPOCHS, Gpu, Machine
from dlmon.records.words import gpu_name
from dlmon.remote.host import Age, HostSnapshot, HostState, RunningSession

ORDERS = ("as named", "name", "free GPUs", "load")
"""What hosts can be sorted by."""

_SHORT_COMMAND = 24


def status_of(host: HostSnapshot) -> tuple[str, Level]:
    """Return in a few words how a host stands, and how much attention that asks for."""
    match host.state:
        case HostState.CONNECTING:
            return "connecting", ""
        case HostState.NEEDS_PERSON:
            return "needs you", "bad"
        case HostState.LOST:
            return f"lost since {_time(host.lost_wall)}", "high"
        case HostState.UNREACHED:
            return "not reached", "high"
        case HostState.NOT_STARTED:
            return f"begins at {_time(host.edge_wall)}", ""
        case HostState.ENDED:
            return f"ended at {_time(host.edge_wall)}", ""
    if host.age is None:
        return "no sample yet" if host.is_recorded else "waiting for the sensors", ""
    if host.age == Age.FRESH:
        return "connected" if host.state == HostState.CONNECTED else host.state, ""
    return f"no sample since {_time(host.sample_wall)}", "high" if host.age == Age.OLD else ""


def next_try(host: HostSnapshot) -> str:
    """Say when a host is tried again; empty where it is there, or was not tried yet."""
    if host.state not in (HostState.LOST, HostState.UNREACHED, HostState.NEEDS_PERSON):
        return ""
    if host.retry_in_s is None:
        return "trying again"
    # Rounded up: it is not over before it is.
    whole = -int(-host.retry_in_s // 1)
    return f"next try in {f'{whole} s' if whole < 100 else units.clock(whole)}"


def sentence_of(host: HostSnapshot) -> str:
    """Say what a person should know of a host: its problem, how old its figures are, its clock."""
    if host.problem is not None:
        is_shown = not host.is_there and host.machine is not None
        since = f"its figures are from {_time(host.sample_wall)}" if is_shown else ""
        # What ssh prints may end in a period.
        parts = [host.problem.rstrip("."), since, next_try(host)]
    else:
        is_usual = host.is_current or host.state == HostState.CONNECTING
        standing = [] if is_usual else [status_of(host)[0], host.notice]
        parts = [*standing, clock_away(host), sessions_problem(host)]
    return "; ".join(filter(None, parts))


def short_problem(host: HostSnapshot) -> str:
    """Say what keeps a host away beside its name: closed by remote host; empty for nothing."""
    problem = (host.problem or "").rstrip(".")
    return problem.removeprefix(host.name).removeprefix(":").strip()


def sessions_problem(host: HostSnapshot) -> str:
    """Say why a host can't say what runs there; empty where it can."""
    problem = host.sessions_problem
    return "" if problem is None else f"its sessions are unknown: {problem}"


def clock_away(host: HostSnapshot) -> str:
    """Say how far the clock of a host is from ours: clock 12 s ahead; empty where it is not."""
    ahead_s = host.clock_ahead_s
    if not ahead_s:
        return ""
    away_s = abs(ahead_s)
    away = f"{away_s:.0f} s" if away_s < 99.5 else units.clock(away_s)
    return f"clock {away} {'ahead' if ahead_s > 0 else 'behind'}"


def _time(wall: float | None) -> str:
    return "–" if wall is None else units.time_of_day(wall)


def load_words(load: float | None) -> str:
    """Write the kernel's load average of the last minute; empty where it isn't known."""
    return "" if load is None else f"load {load:.1f}" if load < 9.95 else f"load {load:.0f}"


def users_of(machine: Machine | None, gpu: Gpu | None = None) -> str:
    """Say who is on a GPU, or on any, and what a single process runs; empty for nobody."""
    rows = [
        row
        for row in (machine.processes if machine else None) or ()
        if (row.gpus if gpu is None else gpu.index in row.gpus)
    ]
    users = list(dict.fromkeys(row.user for row in rows if row.user))
    if rows and not users:
        return units.counted(len(rows), "process")
    command = rows[0].command if len(rows) == 1 else None
    return f"{users[0]} {short_command(command)}" if command else ", ".join(users)


def gpu_memory_mib(host: HostSnapshot) -> tuple[float | None, float | None]:
    """Return how much memory of all GPUs is in use, and how much they have; None if not of all."""
    used = [gpu.memory_used_mib for gpu in host.gpus]
    facts = [host.facts_of(gpu) for gpu in host.gpus]
    return _sum(used), _sum([known.memory_mib if known else None for known in facts])


def gpu_power_w(host: HostSnapshot) -> float | None:
    """Return the power of all GPUs together; None where not all report theirs."""
    return _sum([gpu.power_w for gpu in host.gpus])


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def short_command(command: str) -> str:
    """Return the part of a command line that says most: its script, module or program."""
    words = command.split()
    for before, word in itertools.pairwise(words):
        if before == "-m" or word.endswith(".py"):
            return word.rpartition("/")[2][:_SHORT_COMMAND]
    return words[0].rpartition("/")[2][:_SHORT_COMMAND] if words else ""


def identity(host: HostSnapshot) -> str:
    """Say what is built into a host: its GPUs, else its processor."""
    facts = host.facts
    if kinds := gpu_kinds(facts):
        return ", ".join(kinds)
    return units.device(facts.cpu_model) if facts.cpu_model else ""


def session_title(session: RunningSession) -> str:
    """Return what a session is called: its name, else what it trains, or that it is a machine."""
    return session.name or session.workload or "machine"


def session_progress(session: RunningSession) -> str:
    """Say how far a session is: epoch 3 of 10, or pass; its phase where it has neither."""
    if session.epoch is None:
        phase = "" if session.overdue_s is not None else phase_text(session.phase)
        return phase or ("" if session.workload else "recording")
    of = "" if session.epochs is None else f" of {session.epochs:,}"
    each = "pass" if session.mode in WITHOUT_EPOCHS else "epoch"
    return f"{each} {session.epoch:,}{of}"


def session_rate(session: RunningSession) -> str:
    """Write the throughput of a session; where it has none now, since when, or its phase."""
    if session.overdue_s is not None:
        return overdue_text(session.overdue_s)
    if session.tokens_per_second is not None:
        return f"{units.rate(session.tokens_per_second)} {tokens.UNIT}"
    if session.samples_per_second is not None:
        return f"{units.rate(session.samples_per_second)} {rate_unit(session)}"
    return "" if session.epoch is None else phase_text(session.phase)


def session_device(session: RunningSession) -> str:
    """Name the GPUs that a session trains on; empty where it is not known to."""
    return gpu_name(session.gpus) if session.gpus else ""


def session_parts(session: RunningSession) -> list[str]:
    """Return all that is known of a session, part by part; its id comes last."""
    named = session.workload if session.name else None
    progress, rate = session_progress(session), session_rate(session)
    parts = (session_title(session), named, progress, rate, session_device(session))
    return [part for part in (*parts, session.session) if part]


def free_words(host: HostSnapshot) -> str:
    """Say how many GPUs are free: 2 of 8 free; empty where that isn't known."""
    free = host.free_gpus
    return "" if free is None or not host.gpus else f"{len(free)} of {len(host.gpus)} free"


def summary(
    hosts: Sequence[HostSnapshot],
    among: int | None = None,
    host: str = "host",
    session: str = "session",
) -> list[str]:
    """Say of hosts, part by part, how many there are and how they stand.

    Args:
        hosts: those that are shown.
        among: how many there are in all, where a filter may hide some.
        host: what one of them is called.
        session: what runs on them is called.
    """
    all_hosts = units.counted(len(hosts) if among is None else among, host)
    parts = [all_hosts if among in (None, len(hosts)) else f"{len(hosts):,} of {all_hosts}"]
    current = [one for one in hosts if one.is_current]
    gpus = sum(len(one.gpus) for one in current)
    if gpus:
        free = sum(len(one.free_gpus or ()) for one in current)
        parts.append(f"{free} of {units.counted(gpus, 'GPU')} free")
    running = sum(len(one.sessions or ()) for one in current)
    if running:
        parts.append(units.counted(running, session))
    states = [one.state for one in hosts]
    for state, one, several in (
        (HostState.LOST, "lost", "lost"),
        (HostState.NEEDS_PERSON, "needs you", "need you"),
        (HostState.UNREACHED, "not reached", "not reached"),
        (HostState.CONNECTING, "connecting", "connecting"),
        (HostState.NOT_STARTED, "not started", "not started"),
        (HostState.ENDED, "ended", "ended"),
    ):
        count = states.count(state)
        if count:
            parts.append(f"{count} {one if count == 1 else several}")
    return parts


def matching(hosts: Iterable[HostSnapshot], typed: str) -> list[HostSnapshot]:
    """Return the hosts that hold every word of `typed`: in names, states, devices, sessions."""
    words = typed.lower().split()
    return [host for host in hosts if all(word in _searched(host) for word in words)]


def _searched(host: HostSnapshot) -> str:
    texts = [host.name, status_of(host)[0], identity(host), "free" if host.free_gpus else ""]
    for session in host.sessions or ():
        texts += [session.session, session.workload or "", session.name or ""]
    texts += [row.user or "" for row in (host.machine.processes if host.machine else None) or ()]
    return " ".join(texts).lower()


def in_order(hosts: Sequence[HostSnapshot], by: str) -> list[HostSnapshot]:
    """Return hosts in one of `ORDERS`: those of which nothing is known come last."""
    if by == "name":
        return sorted(hosts, key=lambda host: _natural(host.name))
    if by == "free GPUs":
        free = {id(host): -1 if host.free_gpus is None else len(host.free_gpus) for host in hosts}
        return sorted(hosts, key=lambda host: -free[id(host)])
    if by == "load":
        # To the ten percent: else two that are as busy would change places all the time.
        loads = {id(host): host.load_pct if host.is_current else None for host in hosts}
        tens = {key: 1 if pct is None else -round(pct / 10) for key, pct in loads.items()}
        return sorted(hosts, key=lambda host: tens[id(host)])
    return list(hosts)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts gpu2 before gpu10."""
    parts = re.split(r"([0-9]+)", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
