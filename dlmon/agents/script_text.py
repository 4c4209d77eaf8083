"""Keep the words of scripts and persons out of our sentences, and secrets out of every answer."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile

from dlmon.comparison.arguments import arguments_of, is_secret, words_of
from dlmon.figures import units
from dlmon.figures.redact import Redaction
from dlmon.log.label import Label
from dlmon.records import (
    CodeSamples,
    Epoch,
    Evaluation,
    Facts,
    FailureKind,
    Metrics,
    Model,
    Output,
    ProcessStack,
    Profile,
    Record,
    Result,
    SessionHeader,
    SourceLines,
    Stack,
    Trainer,
)
from dlmon.records.sanitize import clean
from dlmon.script_name import from_script
from dlmon.sweep.log import SweepEntry

HIDDEN = "…"

# A text shorter than a head stays: it can't hold a sentence, and may be a part of our words.
_HEAD, _MOST, _MOST_OUTPUT, _LONGEST = 9, 20_000, 60, 2_000
_LONGEST_NAME, _MOST_UNUSUAL_WORDS, _LONGEST_DEVICE = 40, 2, 60
_NAME = re.compile(r"[\w.:=/@%+~-]+", re.ASCII)
# A name of these and two more words is no sentence: train_loss_epoch, load_batch.
_USUAL = re.compile(
    r"acc|accuracy|auc|backward|batch|collate|data|dataset|epoch|error|eval|evaluate|fit|forward|"
    r"grad|iter|learning|len|load|loader|loss|lr|main|map|mean|metric|model|module|next|norm|"
    r"optimizer|perplexity|py|rate|run|score|self|size|step|steps|test|top|torch|train|trainer|"
    r"training|val|valid|validation|wait|worker"
)
_CUT = "…"
_EXIT_CODE = re.compile(r"(?:the (?:script|workload) ended with exit code \d+: )?(.*)", re.DOTALL)
# Logs of earlier versions don't say the kind.
_SAID_BY_SCRIPT = (FailureKind.EXCEPTION, FailureKind.OUT_OF_MEMORY, FailureKind.UNKNOWN, None)
_OF_SCRIPT = (
    *(CodeSamples, Epoch, Evaluation, Metrics, ProcessStack, Profile, SourceLines, Stack, Trainer),
)
"""The records whose texts all come from the script, but for reasons."""
_ID = re.compile(r"[\w.-]{1,100}", re.ASCII)

_LEAST_SECRET = 8
_TOKEN = re.compile(
    r"\b(?:hf_|sk-|gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|AKIA|ASIA|AIza|ya29\.|eyJ)"
    r"[\w.=-]{8,}"
)
_BEARER = re.compile(r"\b(bearer|basic) +[\w.~+/=-]{8,}", re.IGNORECASE)
_OF_URL = re.compile(r"(\w://)[^\s/@]+@")
# It begins at no place within a word, or a long word would be read from each of its letters on.
_GIVEN = re.compile(
    r"""(?<![\w.-])((?P<option>--?)?[A-Za-z][\w.-]*)"""
    r"""(["']?(?:\s*[=:]\s*|(?(option)\s+|(?!)))["']?)"""
    r"""([^\s"',;&]{8,})"""
)


class ScriptText(Redaction):
    """Puts a reference such as «1» in place of each text that is not our own.

    Names of one or two words, such as train.py and val_loss, stay: they hold no instruction.
    Other people's names, hosts and home folders are removed, as from a report.
    """

    def __init__(self) -> None:
        super().__init__()
        self._foreign: dict[str, None] = {}
        self._output: deque[str] = deque(maxlen=_MOST_OUTPUT)
        self._numbers: dict[str, int] = {}
        self._by_head: dict[str, list[str]] | None = None
        variables = ((name, value) for name, value in os.environ.items() if name != "PWD")
        self._secrets = set(_secrets_in(variables))

    def learn(self, texts: Iterable[str | None]) -> None:
        """Learn texts of scripts and persons."""
        for text in filter(None, texts):
            foreign = super().text(text).strip()
            if foreign not in self._foreign and len(self._foreign) < _MOST:
                self._foreign[foreign] = None
                self._by_head = None

    def learn_session(self, header: SessionHeader, label: Label) -> None:
        """Learn the name, note, script and arguments of a session, and its secrets."""
        command = header.command or ()
        (arguments,) = arguments_of([from_script(command)], header.workload)
        self._secrets.update(_secrets_in(arguments.items()))
        options = [value for value in header.options.values() if isinstance(value, str)]
        self.learn((label.name, label.note, header.workload, *command, *arguments.values()))
        self.learn((*options, header.directory, header.script_path))
        self.learn([] if _ID.fullmatch(header.id) else [header.id])
        self._learn_devices((header.machine, header.versions))

    def _learn_devices(self, value: object) -> None:
        """Learn the names of devices and versions that are longer than any real one."""
        long = [text for text in _texts_in(value) if len(text) > _LONGEST_DEVICE]
        self.learn((*long, *map(units.device, long)))

    def learn_sweep(self, entry: SweepEntry) -> None:
        """Learn the name, command, values and errors of a sweep or of an experiment of pairs."""
        script = entry.header.script
        words = () if script is None else (*script.command, script.directory, *script.commits)
        values = (value for variation in entry.header.vary for value in variation.values)
        outcomes = entry.sweep.outcomes.values()
        errors = (_without_exit_code(o.result.error) for o in outcomes if o.result is not None)
        self.learn((entry.label.name, entry.label.note, *words, *map(str, values), *errors))

    def record(self, record: Record) -> Record:
        match record:
            case Output():
                self._output.append(super().text(record.text).strip())
                self._by_head = None
            case Result() if record.failure in _SAID_BY_SCRIPT:
                self.learn((_without_exit_code(record.error),))
            case Model():
                self.learn((record.network, record.optimizer, record.data, record.precision))
            case Facts():
                self._learn_devices(record.machine)
        if isinstance(record, _OF_SCRIPT):
            self.learn(_texts_in(record))
        return super().record(record)

    def text(self, text: str) -> str:
        """Return a text with a reference in place of each foreign one."""
        text, parts, begin, at = super().text(text), list[str](), 0, 0
        while at < len(text):
            count, foreign = self._foreign_at(text, at)
            if foreign:
                number = self._numbers.setdefault(foreign, len(self._numbers) + 1)
                parts += [text[begin:at], f"«{number}»"]
                begin = at = at + count
            else:
                at += 1
        return "".join((*parts, text[begin:]))

    def _foreign_at(self, text: str, at: int) -> tuple[int, str]:
        """Return how many characters at a place are a foreign text, and that text.

        A sentence may begin with it, in a capital, or hold its begin and an ellipsis.
        """
        for foreign in self._heads.get(text[at + 1 : at + _HEAD], ()):
            if text[at].lower() == foreign[0].lower():
                pairs = zip(text[at + 1 :], foreign[1:], strict=False)
                count = 1 + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
                if count == len(foreign):
                    return count, foreign
                if text[at + count : at + count + 1] == _CUT:
                    return count + 1, foreign
        return 0, ""

    @property
    def _heads(self) -> dict[str, list[str]]:
        """The foreign texts by their first characters but one, the longest first."""
        if self._by_head is None:
            self._by_head = {}
            for foreign in sorted({*self._foreign, *self._output}, key=len, reverse=True):
                if len(foreign) >= _HEAD and not _is_name(foreign):
                    self._by_head.setdefault(foreign[1:_HEAD], []).append(foreign)
        return self._by_head

    def referred(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the references in some texts of ours, and what they stand for."""
        written = "\n".join(texts)
        return {
            f"«{number}»": foreign
            for foreign, number in self._numbers.items()
            if f"«{number}»" in written
        }

    def hidden(self, text: str) -> str:
        """Return a text without keys, tokens and passwords."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = _OF_URL.sub(rf"\1{HIDDEN}@", _TOKEN.sub(HIDDEN, text))
        text = _BEARER.sub(rf"\1 {HIDDEN}", text)
        return _GIVEN.sub(lambda m: f"{m[1]}{m[3]}{HIDDEN}" if is_secret(m[1]) else m[0], text)

    def own(self, text: str) -> str:
        """Return a line of a script for the field of such lines: without private names, clean."""
        return clean(self.hidden(super().text(text)), _LONGEST)


def _is_name(text: str) -> bool:
    """Return whether a text is a name of few words, in which nobody can be told anything."""
    if len(text) > _LONGEST_NAME or _NAME.fullmatch(text) is None:
        return False
    words = (word for word in words_of(text) if len(word) > 1)
    return sum(_USUAL.fullmatch(word) is None for word in words) <= _MOST_UNUSUAL_WORDS


def _without_exit_code(error: str | None) -> str | None:
    matched = _EXIT_CODE.fullmatch(error or "")
    return matched[1] if matched else None


def _secrets_in(values: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (v for name, v in values if is_secret(name) and len(v) >= _LEAST_SECRET)


def _texts_in(value: object) -> Iterator[str]:
    """Yield all texts within a value, and the names of files; reasons are our own words."""
    if isinstance(value, str):
        yield from (value, value.rpartition("/")[2])
    elif isinstance(value, dict):
        yield from (text for item in value.items() for part in item for text in _texts_in(part))
    elif isinstance(value, (tuple, list)):
        yield from (text for part in value for text in _texts_in(part))
    elif hasattr(value, "__dataclass_fields__"):
        parts = (part for name, part in vars(value).items() if name != "why")
        yield from (text for part in parts for text in _texts_in(part))
