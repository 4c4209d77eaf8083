"""A session that is shown: whether it needs us, and what leaving it amounts to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER

if TYPE_CHECKING:
    from dlmon.launch.lifeline import Lifeline
    from dlmon.remote.link import Link
    from dlmon.session.follower import SessionFollower
    from tui.live.screen import LiveScreen
    from tui.watch.recording import RecordingScreen


@dataclass
class ShownSession:
    """A session on the stack of screens, with its lifeline where it is ours."""

    follower: SessionFollower
    launch: Lifeline | None
    screen: LiveScreen | RecordingScreen
    link: Link | None = None
    log_dir: str | None = None
    """Where sessions live on the machine that it comes from; None for where they do by default."""

    def is_of(self, host: str, session: str) -> bool:
        """Return whether it is a session of a host."""
        same = self.follower.session.header.id == session
        return same and self.link is not None and self.link.host == host

    @property
    def needs_us(self) -> bool:
        """Whether it would stop if we left without a word."""
        return self.launch is not None and self.follower.running and not self.screen.detached

    @property
    def exit_code(self) -> int:
        """What leaving dlmon from it amounts to."""
        from dlmon.records import Status

        is_script = self.follower.session.header.is_script
        if self.launch is not None and is_script and not self.follower.running:
            return self.follower.script_exit_code
        if self.screen.stop_requested:
            return INTERRUPTED_BY_USER
        if self.follower.why_result_unwritten is not None:
            return FAILED
        good = (Status.RUNNING, Status.UNKNOWN, Status.COMPLETED)
        return DONE if self.follower.status in good else FAILED
