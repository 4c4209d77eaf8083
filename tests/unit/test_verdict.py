import pytest
from fakes.recorded import recorded_session

from dlmon.job import Job
from dlmon.records import SessionHeader
from dlmon.session import Session
from dlmon.verdict import Ending, make_result

JOB = Job("cifar10-cnn", ("true",), {"batch_size": 100}, "/tmp")


def result(exit_code, stop_asked=False, failure=None, out_of_memory=False):
    records = recorded_session()
    header = records[0]
    assert isinstance(header, SessionHeader)
    session = Session(header)
    for record in records[1:]:
        session.fold(record)
    ending = Ending(exit_code, stop_asked, failure, out_of_memory)
    return make_result(JOB, "log", session.snapshot(), ending, header.t + 5_000_000_000, 1.0)


@pytest.mark.parametrize(
    ("ending", "status", "error"),
    [
        ({"exit_code": 0}, "completed", None),
        ({"exit_code": 0, "stop_asked": True}, "completed", None),
        ({"exit_code": 75, "stop_asked": True}, "stopped", None),
        ({"exit_code": -9, "stop_asked": True}, "stopped", None),
        ({"exit_code": 1, "failure": "ValueError: no"}, "failed", "ValueError: no"),
        ({"exit_code": 3}, "failed", "the workload ended with exit code 3 and gave no reason"),
        ({"exit_code": -9}, "failed", "it was killed from outside (SIGKILL)"),
        (
            {"exit_code": -9, "out_of_memory": True},
            "failed",
            "memory ran out (batch size 100) and the kernel killed it",
        ),
        ({"exit_code": -11}, "failed", "it crashed with a segmentation fault (SIGSEGV)"),
        ({"exit_code": -1}, "failed", "it ended by SIGHUP"),
        ({"exit_code": -999}, "failed", "it ended by signal 999"),
        (
            {"exit_code": None, "failure": "x could not be started: no"},
            "failed",
            "x could not be started: no",
        ),
    ],
)
def test_every_way_to_end_has_its_words(ending, status, error):
    told = result(**ending)
    assert (told.status, told.error, told.exit_code) == (status, error, ending["exit_code"])


def test_the_result_holds_the_figures_of_the_session():
    told = result(0)
    assert told.wall_s == 5.0
    assert told.samples_per_second is not None
    assert told.epochs > 0
    assert told.device is not None
