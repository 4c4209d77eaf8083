"""Show each machine of a distributed session as a watched host."""

from __future__ import annotations

from dlmon.records import RateNow
from dlmon.remote.host import HostSnapshot, HostState, RunningSession, age_of
from dlmon.session.machine_history import NodeMachine
from dlmon.session.snapshot import Snapshot
from dlmon.session.source import RecordedMachine, SessionSource


def node_snapshots(source: SessionSource) -> list[HostSnapshot]:
    """Return a snapshot of each machine: first the one that writes the log, then by host name."""
    session, snapshot = source.session, source.snapshot()
    first = NodeMachine(session.machine.interval_s)
    first.facts, first.history = session.facts, session.machine
    nodes = sorted(session.nodes.items())
    return [
        _snapshot_of(source, snapshot, session.header.node or session.header.host, first, None),
        *(_snapshot_of(source, snapshot, host, node, host) for host, node in nodes),
    ]


def _snapshot_of(
    source: SessionSource, snapshot: Snapshot, name: str, node: NodeMachine, host: str | None
) -> HostSnapshot:
    latest, interval_s = node.history.latest, node.history.interval_s
    age_s = None if latest is None else max(0, source.now() - latest.t) / 1e9
    is_live = source.running and age_s is not None
    ranks = tuple(
        RunningSession(
            session=str(rank.trainer.number),
            workload=rank.name,
            rates=() if rank_rate is None else (RateNow(rank_rate, snapshot.throughput_unit),),
            gpus=rank.gpus,
        )
        for rank in snapshot.trainers
        for rank_rate in (rank.samples_per_second,)
        if rank.trainer.host == host
    )
    header = source.session.header
    return HostSnapshot(
        name=name,
        state=HostState.LIVE if is_live else HostState.RECORDED,
        facts=node.facts,
        machine=latest,
        history=node.history,
        interval_s=interval_s,
        age=None if age_s is None else age_of(age_s, interval_s),
        sample_wall=None if latest is None else header.wall + (latest.t - header.t) / 1e9,
        sessions=ranks,
    )


class NodeSource(RecordedMachine):
    """The readings of one machine of a session, from the part of the log read so far.

    Args:
        session: the session.
        node: the host name; None for the machine that writes the log.
    """

    def __init__(self, session: SessionSource, node: str | None) -> None:
        self._node = node
        super().__init__(session)
        self.host = node

    def _take(self) -> None:
        super()._take()
        node = self._source.session.nodes.get(self._node or "")
        if node is not None:
            self.history, self.facts = node.history, node.facts
            self.interval_s = node.history.interval_s
