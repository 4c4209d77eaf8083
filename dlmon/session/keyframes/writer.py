"""Write the index of a session while its log is written."""

from __future__ import annotations

from dlmon.log.index import IndexWriter
from dlmon.log.writer import LogWriter
from dlmon.records import Record
from dlmon.session.keyframes.maker import EVERY_BYTES, EVERY_NS, KeyframeMaker
from dlmon.session.marks import MarkFinder
from dlmon.session.session import Session


class SessionIndex:
    """Makes an entry whenever one is due.

    Args:
        writer: of the log.
        session: what is written, folded.
        every_ns: as for `KeyframeMaker`.
        every_bytes: the same.
    """

    def __init__(
        self,
        writer: LogWriter,
        session: Session,
        every_ns: int = EVERY_NS,
        every_bytes: int = EVERY_BYTES,
    ) -> None:
        self._log = writer
        self._session = session
        self._finder = MarkFinder(session)
        self._maker = KeyframeMaker(session, every_ns=every_ns, every_bytes=every_bytes)
        self._writer = IndexWriter(writer.path, session.header.id)

    def take(self, record: Record) -> None:
        self._maker.take(record, self._finder.take(record, self._session))
        if self._maker.is_due:
            self._writer.write(self._maker.make(self._log.place))

    def close(self) -> None:
        self._writer.close()
