import click
import pytest

import dlmon.cli.main
from dlmon.cli.command_line import COMMANDS, command_line, run_command
from dlmon.cli.shared import UserError


def refused(*arguments):
    with pytest.raises(UserError) as error:
        run_command(list(arguments))
    assert error.value.exit_code == 2
    return str(error.value)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["rum"], "rum"),
        (["run", "x", "--epoch", "3"], "no such option '--epoch', did you mean --epochs"),
        (["list", "-x"], "-x"),
        (["--asci"], "--ascii"),
        (["run", "x", "--batch-size"], "--batch-size"),
        (["report", "x", "--format", "pdf"], "html"),
        (["stop", "a", "b c"], "b c"),
        (["sessions", "--json=1"], "--json"),
        (["prune", "--keep", "all"], "--keep"),
        (["completion", "tcsh"], "zsh"),
        (["stop"], "dlmon sessions lists"),
        (["run"], "dlmon list shows them"),
        (["fetch", "last"], "--host HOST"),
        (["ab", "main", "main", "--", "x"], "both sides are main"),
    ],
)
def test_what_is_wrong_with_the_words_is_one_sentence_that_names_it(arguments, named):
    sentence = refused(*arguments)
    assert named in sentence
    assert sentence.isprintable()
    assert ". " not in sentence


def test_what_was_typed_is_cleaned_and_cut():
    assert "\x1b" not in refused("\x1b[31mrun")
    assert len(refused("x" * 1000)) < 200
    assert len(refused("list", "x" * 1000)) < 200


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_text_alone(name):
    context = click.Context(command_line)
    command = command_line.get_command(context, name) if name else command_line
    text = command.get_help(context)
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("command", ["run", "exec", "attach", "report", "completion", "no-such"])
@pytest.mark.parametrize(
    "words", [["x" * 100_000], ["y" * 1_000] * 200, ["--" + "z" * 100_000]], ids=len
)
def test_what_is_refused_is_repeated_only_as_far_as_a_person_reads(command, words, capsys):
    assert dlmon.cli.main._run([command, *words]) != 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err) < 2_100
