"""Send rows to a tracker by its library; any Python from 3.9 on runs this file alone.

Reads a message in JSON from each line of stdin, and answers it by a line: {} if it was done, else
why not. The text of an error of a library may hold a key, so only its kind is told.
"""

import json
import math
import os
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_Rows = list[tuple[int, float, int, dict[str, float]]]
_PROJECT, _STEP = "dlmon", "dlmon/step"
_MOST_AT_ONCE = 900
_ENDS = {"completed": "FINISHED", "stopped": "KILLED"}


class LastingRefusal(Exception):
    """Raised if another try is useless; the message is for a person."""


class _WandB:
    def __init__(self, begin: dict[str, Any]) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        mode = os.environ.get("WANDB_MODE")
        if mode not in ("offline", "dryrun", "disabled") and not wandb.api.api_key:
            raise LastingRefusal(
                "it has no key: wandb login, or set WANDB_API_KEY or WANDB_MODE=offline"
            )
        run = begin["own"] or {"place": begin["place"], "id": None}
        entity, _, project = run["place"].rpartition("/")
        own = os.environ.get("WANDB_RUN_ID") or run["id"]
        if own and mode in ("offline", "dryrun"):
            # A synced folder takes the place of what an earlier one of that run has sent.
            raise LastingRefusal(f"run {own} takes no more offline: unset WANDB_MODE")
        # The numbers of rows keep it from storing a row twice; the script's run has its own.
        self._numbers_rows = not own
        self._run = wandb.init(
            entity=entity or None,
            project=project or os.environ.get("WANDB_PROJECT") or _PROJECT,
            id=own or begin["id"],
            name=None if own else begin["name"],
            resume="allow",
            config=begin["facts"],
            settings=wandb.Settings(
                console="off",
                silent=True,
                disable_git=True,
                init_timeout=30,
                x_disable_stats=True,
                x_disable_meta=True,
            ),
        )
        self._run.define_metric(_STEP, hidden=True)
        self._run.define_metric("dlmon/*", step_metric=_STEP)

    def rows(self, rows: _Rows) -> None:
        for number, _, step, values in rows:
            numbered = number if self._numbers_rows else None
            self._run.log({**values, _STEP: step}, step=numbered)

    def end(self, outcome: dict[str, Any]) -> None:
        self._run.summary.update({**outcome["figures"], **outcome["facts"]})
        self._run.finish(exit_code=0 if outcome["status"] in _ENDS else 1)


class _MLflow:
    def __init__(self, begin: dict[str, Any]) -> None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        from mlflow import MlflowClient

        own = begin["own"]["id"] if begin["own"] else os.environ.get("MLFLOW_RUN_ID")
        try:
            self._client = MlflowClient(tracking_uri=begin["place"] or None)
            self._own = own if own and self._has_run(own) else None
            self._id = self._own or self._run_of(begin)
        except Exception as error:
            if "MLFLOW_ALLOW_FILE_STORE" not in str(error):
                raise
            raise LastingRefusal(
                "this MLflow takes no folder: use mlflow:sqlite:///mlflow.db, or set "
                "MLFLOW_ALLOW_FILE_STORE=true"
            ) from None
        self._tag(begin["facts"])

    def _has_run(self, id: str) -> bool:
        """Return whether this server has a run; a script may write to another one."""
        from mlflow.exceptions import MlflowException

        try:
            self._client.get_run(id)
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            return False
        return True

    def _run_of(self, begin: dict[str, Any]) -> str:
        """Return the run of this session: the one that has begun, or a new one."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _PROJECT
        experiment = self._client.get_experiment_by_name(name)
        id = experiment.experiment_id if experiment else self._client.create_experiment(name)
        tag = "dlmon.session"
        found = self._client.search_runs([id], f"tags.`{tag}` = '{begin['id']}'", max_results=1)
        if found:
            return str(found[0].info.run_id)
        start_ms = int(begin["wall"] * 1000)
        tags = {tag: begin["id"]}
        run = self._client.create_run(id, start_ms, tags=tags, run_name=begin["name"])
        return str(run.info.run_id)

    def _tag(self, facts: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        self._client.log_batch(self._id, tags=[RunTag(*fact) for fact in facts.items()])

    def rows(self, rows: _Rows) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(name, value, int(wall * 1000), step)
            for _, wall, step, values in rows
            for name, value in values.items()
        ]
        for at in range(0, len(metrics), _MOST_AT_ONCE):
            self._client.log_batch(self._id, metrics=metrics[at : at + _MOST_AT_ONCE])

    def end(self, outcome: dict[str, Any]) -> None:
        self.rows([(0, outcome["wall"], outcome["step"], outcome["figures"])])
        self._tag(outcome["facts"])
        if not self._own:
            self._client.set_terminated(self._id, _ENDS.get(outcome["status"], "FAILED"))


class _Trackio:
    def __init__(self, begin: dict[str, Any]) -> None:
        import trackio

        if run := begin["own"]:
            from trackio.run import Run

            project, name = run["place"], run["name"]
            self._run = Run(None, project, client=None, name=name, run_id=run["id"])
            # The script's configuration stays as it is.
            self._run.config = {}
            return
        self._run = trackio.init(
            project=begin["place"] or os.environ.get("TRACKIO_PROJECT") or _PROJECT,
            name=begin["name"],
            config=begin["facts"],
            resume="allow" if begin["again"] else "never",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def rows(self, rows: _Rows) -> None:
        for _, _, step, values in rows:
            self._run.log(values, step=step)

    def end(self, outcome: dict[str, Any]) -> None:
        self._run.log({**outcome["figures"], **outcome["facts"]}, step=outcome["step"])
        self._run.finish()


class _TensorBoard:
    """Writes an event file, which needs no library."""

    def __init__(self, begin: dict[str, Any]) -> None:
        own = begin["own"]
        folder = Path(own["place"]) if own else Path(begin["place"]) / begin["id"]
        folder.mkdir(parents=True, exist_ok=True)
        # The name doesn't change, so that what is sent again takes the place of it. It comes before
        # that of the script's own file: some readers follow only the last file of a folder.
        name = f"events.out.tfevents.{int(begin['wall']) - 1}.{socket.gethostname()}.dlmon"
        self._file = (folder / name).open("ab" if begin["again"] else "wb")
        if not begin["again"]:
            self._write(begin["wall"], 0, field_of(3, b"brain.Event:2"))
            self._write_facts(begin["wall"], 0, begin["facts"])

    def rows(self, rows: _Rows) -> None:
        for _, wall, step, values in rows:
            scalars = (
                field_of(1, field_of(1, name.encode()) + b"\x15" + _float(value))
                for name, value in values.items()
            )
            self._write(wall, step, field_of(5, b"".join(scalars)))
        self._file.flush()

    def end(self, outcome: dict[str, Any]) -> None:
        self.rows([(0, outcome["wall"], outcome["step"], outcome["figures"])])
        self._write_facts(outcome["wall"], outcome["step"], outcome["facts"])
        self._file.close()

    def _write_facts(self, wall: float, step: int, facts: dict[str, str]) -> None:
        """Write them as texts, which TensorBoard shows in a tab of their own."""
        for name, text in facts.items():
            # A tensor of DT_STRING with the shape (1,), for the plugin of texts.
            tensor = (
                b"\x08\x07"
                + field_of(2, field_of(2, b"\x08\x01"))
                + field_of(8, text.encode(errors="replace"))
            )
            plugin = field_of(9, field_of(1, field_of(1, b"text")))
            value = field_of(1, name.encode()) + field_of(8, tensor) + plugin
            self._write(wall, step, field_of(5, field_of(1, value)))
        self._file.flush()

    def _write(self, wall: float, step: int, rest: bytes) -> None:
        event = b"\x09" + struct.pack("<d", wall) + b"\x10" + varint_of(step) + rest
        length = struct.pack("<Q", len(event))
        self._file.write(length + masked_crc(length) + event + masked_crc(event))


def field_of(number: int, content: bytes) -> bytes:
    """Return a field of bytes in the encoding of protobuf."""
    return varint_of(number << 3 | 2) + varint_of(len(content)) + content


def varint_of(number: int) -> bytes:
    """Return a number in 7 bits a byte."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(encoded) + bytes((number,))


def _float(number: float) -> bytes:
    try:
        return struct.pack("<f", number)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, number))


def _crc_table() -> Iterable[int]:
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        yield crc


_CRC = tuple(_crc_table())


def masked_crc(data: bytes) -> bytes:
    """Return the CRC-32C of a record, in TensorFlow's form."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


_TRACKERS = {
    "wandb": _WandB,
    "mlflow": _MLflow,
    "trackio": _Trackio,
    "tensorboard": _TensorBoard,
}


def _answers(messages: Iterable[str]) -> Iterable[dict[str, Any]]:
    tracker: Any = None
    for line in messages:
        message = json.loads(line)
        try:
            if tracker is None:
                tracker = _TRACKERS[message["tracker"]](message)
            elif "rows" in message:
                tracker.rows(message["rows"])
            else:
                tracker.end(message)
            yield {}
        except LastingRefusal as error:
            yield {"error": str(error), "lasts": True}
        except ImportError as error:
            yield {"error": f"{error.name or 'its library'} can't be imported", "lasts": True}
        except OSError as error:
            yield {"error": error.strerror or type(error).__name__}
        except Exception as error:  # noqa: BLE001 - a library may raise anything
            yield {"error": f"it can't be reached, or refuses ({type(error).__name__})"}


def main() -> None:
    """Answer messages until stdin closes."""
    # What a library prints goes nowhere, and what is beside this file is not on its path.
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
    answers = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for answer in _answers(sys.stdin):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
