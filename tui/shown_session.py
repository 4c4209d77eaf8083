"""A session on the stack of screens, and a launch that will become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlmon.exit_codes import DONE, FAILED, INTERRUPTED_BY_USER

# Screens are imported when they are first shown, so that a start pays for one only.
if TYPE_CHECKING:
    from dlmon.launch.supervisor_process import SupervisorProcess
    from dlmon.remote.connection import Connection
    from dlmon.session.follower import SessionFollower
    from tui.live.live_screen import LiveScreen
    from tui.watch.recording import RecordingScreen


@dataclass
class ShownSession:
    """A session on the stack of screens, with its supervisor process if we started it."""

    follower: SessionFollower
    supervisor: SupervisorProcess | None
    screen: LiveScreen | RecordingScreen
    connection: Connection | None = None
    log_dir: str | None = None
    """The log directory on its host; None for the default."""

    def is_of(self, host: str, session: str) -> bool:
        """Return whether it is this session of a host."""
        is_on_host = self.connection is not None and self.connection.host == host
        return is_on_host and self.follower.session.header.id == session

    @property
    def needs_us(self) -> bool:
        """Return whether the session would stop if dlmon quit."""
        return self.supervisor is not None and self.follower.running and not self.screen.detached

    @property
    def exit_code(self) -> int:
        """The exit code of dlmon if the user quits from this session."""
        from dlmon.records import Status

        is_script = self.follower.session.header.is_script
        if self.supervisor is not None and is_script and not self.follower.running:
            return self.follower.script_exit_code
        if self.screen.stop_requested:
            return INTERRUPTED_BY_USER
        if self.follower.why_result_unwritten is not None:
            return FAILED
        good = (Status.RUNNING, Status.UNKNOWN, Status.COMPLETED)
        return DONE if self.follower.status in good else FAILED


@dataclass
class Starting:
    """A launch that its supervisor has not answered yet.

    Attributes:
        supervisor: the supervisor process.
        detach: let the session go on without dlmon.
        replaces: the session whose place it takes on the screen.
    """

    supervisor: SupervisorProcess
    detach: bool = False
    replaces: ShownSession | None = None
