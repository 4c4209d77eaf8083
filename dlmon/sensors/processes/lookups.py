"""Look up what may never answer: a process's user, by a directory server, or its command.

A process that hangs in a driver can keep everybody waiting who reads its command,
and a name server that is down whoever asks for a name. The sampling must not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

PATIENCE_S = 0.02
# No more threads than these are given to questions that nobody answers.
MAX_UNANSWERED = 8

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class TimedLookups(Generic[Key, Answer]):
    """Looks up each key once, in a thread of its own."""

    def __init__(self, ask: Callable[[Key], Answer], patience_s: float = PATIENCE_S) -> None:
        self._ask = ask
        self._patience_s = patience_s
        self._known: dict[Key, Answer] = {}
        self._unanswered: dict[Key, threading.Thread] = {}

    def get(self, keys: Iterable[Key]) -> dict[Key, Answer]:
        """Return the answers known so far; those of keys that are not in `keys` are forgotten.

        Waits for each new key no longer than `patience_s`.
        """
        wanted = set(keys)
        for key, thread in list(self._unanswered.items()):
            if not thread.is_alive():
                del self._unanswered[key]
        for key in self._known.keys() - wanted:
            del self._known[key]
        for key in wanted - self._known.keys() - self._unanswered.keys():
            if len(self._unanswered) >= MAX_UNANSWERED:
                break
            thread = threading.Thread(target=self._answer, args=(key,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads for us just now
                break
            thread.join(self._patience_s)
            if thread.is_alive():
                self._unanswered[key] = thread
        return {key: self._known[key] for key in wanted if key in self._known}

    def _answer(self, key: Key) -> None:
        self._known[key] = self._ask(key)
