"""Write the state of watched hosts in words, and sort and filter them. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from dlmon.figures import units
from dlmon.figures.columns import has_words
from dlmon.figures.machine.readings import Level, gpu_kinds
from dlmon.figures.session.phases import overdue_text, phase_text
from dlmon.records import WITHOUT_EPOCHS, Gpu, Machine
from dlmon.records.words import gpu_name
from dlmon.remote.host import Age, HostSnapshot, HostState, RunningSession, why_users_unseen
from dlmon.session.machine_history import facts_of_gpu
from dlmon.statistics.totals import total

ORDERS = ("as named", "name", "free GPUs", "load")
"""The orders in which hosts can be sorted."""

_SHORT_COMMAND = 24


def status_of(host: HostSnapshot) -> tuple[str, Level]:
    """Return the state of a host in a few words, and its level."""
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
    if is_silent(host):
        return f"no sample since {_time(host.sample_wall)}", "high" if host.age == Age.OLD else ""
    return "connected" if host.state == HostState.CONNECTED else host.state, ""


def is_silent(host: HostSnapshot) -> bool:
    """Return whether a host is there, but its samples are overdue."""
    return host.is_there and host.age not in (None, Age.FRESH)


def time_of_figures(host: HostSnapshot) -> str:
    """Return the time of figures that are not current; empty if they are."""
    return "" if host.is_current else _time(host.sample_wall or host.edge_wall)


def next_try(host: HostSnapshot) -> str:
    """Say when a host is tried again; empty if it is connected, or was not tried yet."""
    if host.state not in (HostState.LOST, HostState.UNREACHED, HostState.NEEDS_PERSON):
        return ""
    if host.retry_in_s is None:
        return "trying again"
    # Rounded up, so that it reads 0 s only at the end.
    whole = -int(-host.retry_in_s // 1)
    return f"next try in {f'{whole} s' if whole < 100 else units.clock(whole)}"


def sentence_of(host: HostSnapshot) -> str:
    """Describe the state of a host: its problem, the age of its figures, its clock."""
    if host.problem is not None:
        is_shown = not host.is_there and host.machine is not None
        since = f"its figures are from {_time(host.sample_wall)}" if is_shown else ""
        # What ssh prints may end in a period.
        parts = [host.problem.rstrip("."), since, next_try(host)]
    else:
        is_usual = host.is_current or host.state == HostState.CONNECTING
        standing = [] if is_usual else [status_of(host)[0], host.notice]
        parts = [*standing, clock_away(host), sessions_problem(host), users_unseen(host)]
    return "; ".join(filter(None, parts))


def short_problem(host: HostSnapshot) -> str:
    """Shorten the problem of a host to stand beside its name; empty without one."""
    problem = (host.problem or "").partition(";")[0].rstrip(".")
    return problem.removeprefix(host.name).removeprefix(":").strip()


def sessions_problem(host: HostSnapshot) -> str:
    """Say why the sessions of a host are unknown; empty if they are known."""
    problem = host.sessions_problem
    return "" if problem is None else f"its sessions are unknown: {problem}"


def users_unseen(host: HostSnapshot) -> str:
    """Say why free GPUs are found by their memory alone; empty if their users are seen."""
    why = why_users_unseen(host.machine, host.facts) if host.free_gpus is not None else ""
    return f"which GPUs are free goes by their memory alone: {why}" if why and host.gpus else ""


def clock_away(host: HostSnapshot) -> str:
    """Write the offset of a host's clock from ours: clock 12 s ahead; empty if it is small."""
    ahead_s = host.clock_ahead_s
    if not ahead_s:
        return ""
    away_s = abs(ahead_s)
    away = f"{away_s:.0f} s" if away_s < 99.5 else units.clock(away_s)
    return f"clock {away} {'ahead' if ahead_s > 0 else 'behind'}"


def _time(wall: float | None) -> str:
    return "–" if wall is None else units.time_of_day(wall)


def load_words(load: float | None) -> str:
    """Write the kernel's load average of the last minute; empty if unknown."""
    return "" if load is None else f"load {load:.1f}" if load < 9.95 else f"load {load:.0f}"


def users_of(machine: Machine | None, gpu: Gpu | None = None) -> str:
    """Name the users of one GPU or of all, and the command of a single process."""
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


def gpu_users(host: HostSnapshot, gpu: Gpu) -> str:
    """Return who uses a GPU: free, its users, or the sessions that train on it."""
    if gpu.index in (host.free_gpus or ()):
        return "free"
    sessions = (session for session in host.sessions or () if gpu.index in session.gpus)
    return users_of(host.machine, gpu) or ", ".join(map(session_title, sessions))


def gpu_memory_mib(host: HostSnapshot) -> tuple[float | None, float | None]:
    """Return the used and the total memory of all GPUs; None if one of them is unknown."""
    used = [gpu.memory_used_mib for gpu in host.gpus]
    sizes = [facts_of_gpu(host.facts, gpu.index).memory_mib for gpu in host.gpus]
    return total(used), total(sizes)


def gpu_power_text(host: HostSnapshot) -> str:
    """Write the power of all GPUs together: 178 W, or ≥178 W if not all report theirs."""
    known = [gpu.power_w for gpu in host.gpus if gpu.power_w is not None]
    at_least = "≥" if len(known) < len(host.gpus) else ""
    return f"{at_least}{sum(known):.0f} W" if known else "–"


def short_command(command: str) -> str:
    """Return the script, the module or the program of a command line."""
    words = command.split()
    for before, word in itertools.pairwise(words):
        if before == "-m" or word.endswith(".py"):
            return word.rpartition("/")[2][:_SHORT_COMMAND]
    return words[0].rpartition("/")[2][:_SHORT_COMMAND] if words else ""


def identity(host: HostSnapshot) -> str:
    """Name the GPUs of a host, or its processor if it has none."""
    facts = host.facts
    if kinds := gpu_kinds(facts):
        return ", ".join(kinds)
    return units.device(facts.cpu_model) if facts.cpu_model else ""


def session_title(session: RunningSession) -> str:
    """Return the name of a session, else its workload, else that it records the machine."""
    return session.name or session.workload or "recording"


def session_progress(session: RunningSession) -> str:
    """Write the progress of a session: epoch 3 of 10; without epochs, its phase."""
    if session.epoch is None:
        phase = "" if session.overdue_s is not None else phase_text(session.phase)
        return phase or ("recording" if session.name and not session.workload else "")
    of = "" if session.epochs is None else f" of {session.epochs:,}"
    word = "pass" if session.mode in WITHOUT_EPOCHS else "epoch"
    return f"{word} {session.epoch:,}{of}"


def session_rate(session: RunningSession) -> str:
    """Write the throughput of a session, else how long it has had no batch, or its phase."""
    if session.overdue_s is not None:
        return overdue_text(session.overdue_s)
    if session.rates:
        return units.rate_now(session.rates[-1])
    return "" if session.epoch is None else phase_text(session.phase)


def session_device(session: RunningSession) -> str:
    """Name the GPUs that a session trains on; empty if none are known."""
    return gpu_name(session.gpus) if session.gpus else ""


def session_parts(session: RunningSession) -> list[str]:
    """Return the title, progress, throughput, GPUs and id of a session, as far as known."""
    named = session.workload if session.name else None
    progress, rate = session_progress(session), session_rate(session)
    parts = (session_title(session), named, progress, rate, session_device(session))
    return [part for part in (*parts, session.session) if part]


def free_words(host: HostSnapshot) -> str:
    """Write the number of free GPUs: 2 of 8 free; empty if unknown."""
    free = host.free_gpus
    return "" if free is None or not host.gpus else f"{len(free)} of {len(host.gpus)} free"


def summary(
    hosts: Sequence[HostSnapshot],
    among: int | None = None,
    host: str = "host",
    session: str = "session",
) -> list[str]:
    """Count the hosts, their free GPUs, their sessions, and the hosts in each state.

    Args:
        hosts: the shown ones.
        among: the number of all hosts, if a filter may hide some.
        host: the word for a host.
        session: the word for a session.
    """
    all_hosts = units.counted(len(hosts) if among is None else among, host)
    parts = [all_hosts if among in (None, len(hosts)) else f"{len(hosts):,} of {all_hosts}"]
    current = [snapshot for snapshot in hosts if snapshot.is_current]
    # Of a recording, nobody knows which GPUs were free.
    known = [snapshot for snapshot in current if snapshot.free_gpus is not None]
    gpus = sum(len(snapshot.gpus) for snapshot in known or current)
    if gpus:
        free = sum(len(snapshot.free_gpus or ()) for snapshot in known)
        # Others are there too, which nobody can read now.
        gpu = "live GPU" if len(current) < len(hosts) else "GPU"
        counted = units.counted(gpus, gpu)
        parts.append(f"{free} of {counted} free" if known else counted)
    states = Counter(snapshot.state for snapshot in hosts)
    for state, text in (
        (HostState.LOST, "lost"),
        (
            HostState.NEEDS_PERSON,
            "needs you" if states[HostState.NEEDS_PERSON] == 1 else "need you",
        ),
        (HostState.UNREACHED, "not reached"),
        (HostState.CONNECTING, "connecting"),
        (HostState.NOT_STARTED, "not started"),
        (HostState.ENDED, "ended"),
    ):
        if states[state]:
            parts.append(f"{states[state]} {text}")
    if silent := sum(map(is_silent, hosts)):
        parts.append(f"{silent} silent")
    running = sum(len(snapshot.sessions or ()) for snapshot in current)
    return [*parts, units.counted(running, session)] if running else parts


def matching(hosts: Iterable[HostSnapshot], typed: str) -> list[HostSnapshot]:
    """Return the hosts whose name, state, devices or sessions contain every word of `typed`."""
    return [host for host in hosts if has_words(_searched(host), typed)]


def _searched(host: HostSnapshot) -> str:
    texts = [host.name, status_of(host)[0], identity(host), "free" if host.free_gpus else ""]
    for session in host.sessions or ():
        texts += [session.session, session.workload or "", session.name or ""]
    texts += [row.user or "" for row in (host.machine.processes if host.machine else None) or ()]
    return " ".join(texts)


def in_order(hosts: Sequence[HostSnapshot], by: str) -> list[HostSnapshot]:
    """Return hosts in one of `ORDERS`; hosts with unknown values come last."""
    if by == "name":
        return sorted(hosts, key=lambda host: _natural(host.name))
    if by == "free GPUs":
        return sorted(hosts, key=lambda host: 1 if (free := host.free_gpus) is None else -len(free))
    return sorted(hosts, key=_by_load) if by == "load" else list(hosts)


def _by_load(host: HostSnapshot) -> int:
    """Return a sort key in tens of percent: equally busy hosts don't change places all the time."""
    load_pct = host.load_pct if host.is_current else None
    return 1 if load_pct is None else -round(load_pct / 10)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts gpu2 before gpu10."""
    parts = re.split(r"([0-9]+)", name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
