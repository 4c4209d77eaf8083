"""What processes of ours answer on their stdout."""

import pytest

from dlmon.system.children import answer_in, print_answer


def test_an_answer_is_found_behind_and_before_what_python_prints(capsys):
    print("good morning\nno end of line", end="")
    print_answer([{"text": "é\n"}])
    print("good night")
    assert answer_in(capsys.readouterr().out.encode()) == [{"text": "é\n"}]


def test_a_process_that_says_something_else_gave_no_answer():
    with pytest.raises(ValueError, match="Expecting value"):
        answer_in(b"[1]\n")
