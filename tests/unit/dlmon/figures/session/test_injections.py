"""What dlmon set inside a script is said wherever the session is described."""

from dataclasses import replace

import pytest
from fakes.scripts import SECOND, script_header, script_session

from dlmon.figures.report.curves import names_by_difference
from dlmon.figures.report.summary import SessionOutcome, summary_rows
from dlmon.figures.session.injections import injected_texts, injections_text
from dlmon.figures.session.progress import settings_of
from dlmon.log.label import Label
from dlmon.records import Injection, Result, Status, decode, encode
from dlmon.session.run_figures import figures_of_snapshot
from dlmon.session.session import Session

SET = {"num_workers": 4, "fused": "on"}


def session_of(*outcomes, **injected):
    header, *records = script_session(seconds=30)
    session = Session(replace(header, injected=injected))
    session.add_all([*records, *outcomes])
    return session


def snapshot_of(*outcomes, **injected):
    session = session_of(*outcomes, **injected)
    return session.snapshot(session.last_t)


def outcome(name, applied, times, reason=None, trainer=None):
    return Injection(40 * SECOND, name, applied, times, reason, trainer)


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ([], "num_workers 4, fused on"),
        ([outcome("num_workers", True, 2)], "num_workers 4, fused on"),
        (
            [outcome("num_workers", True, 1, "a data set is iterated")],
            "num_workers 4 (not everywhere: a data set is iterated), fused on",
        ),
        (
            [outcome("fused", False, 0, "no optimizer was made")],
            "num_workers 4, fused on (not applied: no optimizer was made)",
        ),
        # The last one counts, and of other processes none.
        (
            [
                outcome("fused", False, 0, "no optimizer was made"),
                outcome("fused", True, 1),
                outcome("fused", False, 0, "no optimizer was made", trainer=1),
            ],
            "num_workers 4, fused on",
        ),
        (
            [outcome("num_workers", True, 0, "the script has them anyway")],
            "num_workers 4 (the script has them anyway), fused on",
        ),
    ],
)
def test_an_injection_is_said_with_what_came_of_it(outcomes, text):
    session = session_of(*outcomes, **SET)
    snapshot = session.snapshot(session.last_t)
    assert injections_text(snapshot) == text
    rows = summary_rows(SessionOutcome(session, snapshot, Status.RUNNING, Label()))
    assert ("set by dlmon", text) in rows
    # First, as what has no room on a screen is left out.
    assert settings_of(snapshot)[:2] == ["set:num_workers=4", "set:fused=on"]


def test_what_no_process_reported_is_not_known_to_be_applied():
    session = session_of(threads=2)
    header = session.header
    session.add(Result(Status.COMPLETED, header.id, "log", header.workload, None, {}, wall_s=40.0))
    text = "threads 2 (not known to be applied)"
    assert injections_text(session.snapshot(session.last_t)) == text


def test_curves_of_runs_are_named_by_their_injections():
    headers = [replace(script_header(), injected={"threads": count}) for count in (1, 2)]
    assert names_by_difference(headers, [None, None]) == ["set:threads 1", "set:threads 2"]


def test_a_script_as_it_is_says_nothing_of_injections():
    session = session_of()
    snapshot = session.snapshot(session.last_t)
    assert (injections_text(snapshot), injected_texts(snapshot.header)) == ("", [])
    rows = summary_rows(SessionOutcome(session, snapshot, Status.RUNNING, Label()))
    assert "set by dlmon" not in dict(rows)
    assert settings_of(snapshot)[0].startswith("PyTorch")


def test_a_run_with_an_injection_is_compared_as_one_with_another_option():
    as_it_is, other = figures_of_snapshot(snapshot_of()), figures_of_snapshot(snapshot_of(**SET))
    assert (other.options["set:num_workers"], other.options["set:fused"]) == (4, "on")
    assert other.work != as_it_is.work


def test_a_header_without_injections_is_that_of_an_older_log():
    line = encode(script_header())
    assert b"injected" not in line
    assert decode(line).injected == {}
    assert decode(encode(replace(script_header(), injected=SET))).injected == SET


def test_an_option_whose_type_is_wrong_is_no_setting():
    header = replace(script_header(), options={"steps": ["text"], "batch_size": 16})
    settings = settings_of(Session(header).snapshot(0))
    assert "batch 16" in settings
    assert not [text for text in settings if "steps" in text]
