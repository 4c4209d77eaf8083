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
    ("arguments", "sentence"),
    [
        (["rum"], 'there is no command "rum"; did you mean run?'),
        (["zzz"], 'there is no command "zzz"; dlmon --help lists them'),
        (["run", "x", "--epoch", "3"], 'there is no option "--epoch"; did you mean --epochs?'),
        (["run", "x", "--zz"], 'there is no option "--zz"; dlmon run --help lists them'),
        (["list", "-x"], 'there is no option "-x"; dlmon list --help lists them'),
        (["--asci"], 'there is no option "--asci"; did you mean --ascii?'),
        (["run", "x", "--batch-size"], "--batch-size needs a value"),
        (["report", "x", "--format", "pdf"], "--format takes md, html, csv or json"),
        (
            ["compare", "a", "b", "c"],
            'compare takes two sessions: "c" is too much; join several of one side with commas: '
            "dlmon compare A,B X,Y",
        ),
        (["stop", "a", "b c"], 'stop takes only SESSION: "b c" is too much'),
        (
            ["attach", "a", "–-plain", "b"],
            '"–-plain" begins with another dash than an option does: --',
        ),
        (["list", "all"], 'list takes no arguments: "all" is too much'),
        (["sessions", "--json=1"], "--json takes no value"),
        (["run", "x", "--plain=3"], "--plain takes no value"),
        (["--ascii=1"], "--ascii takes no value"),
        (["attach", "a", "b"], 'attach takes only SESSION: "b" is too much'),
        (
            ["attach", "--host", "gpu1"],
            "say which session: last, or one that dlmon sessions --host gpu1 lists",
        ),
        (
            ["attach", "--host", "gpu1", "--log-dir", "/a b"],
            "say which session: last, or one that dlmon sessions --host gpu1 --log-dir '/a b' "
            "lists",
        ),
        (["stop"], "say which session: last, or one that dlmon sessions lists"),
        (
            ["stop", "--host", "gpu1"],
            "say which session: last, or one that dlmon sessions --host gpu1 lists",
        ),
        (
            ["name", "--log-dir", "/logs"],
            "say which session: last, or one that dlmon sessions --log-dir /logs lists",
        ),
        (
            ["fetch", "--host", "gpu1", "--from-dir", "/there", "--log-dir", "/here"],
            "say which session: last, or one that dlmon sessions --host gpu1 --log-dir /there "
            "lists",
        ),
        (
            ["report", "--host", "gpu1"],
            "say what to report: last, or one that dlmon sessions --host gpu1 lists",
        ),
        (
            ["replay", "--host", "gpu1", "--host", "gpu2", "--log-dir", "/logs"],
            "say what to play: last, or one that dlmon sessions --host gpu1 --host gpu2 "
            "--log-dir /logs lists",
        ),
        (["run"], "say which workload; dlmon list shows them"),
        (["fetch", "last"], "say from which machine: --host HOST, as ssh knows it"),
    ],
)
def test_what_is_wrong_with_the_words_is_said_in_one_way(arguments, sentence):
    assert refused(*arguments) == sentence


def test_what_was_typed_is_cleaned_and_cut():
    assert "\x1b" not in refused("\x1b[31mrun")
    assert len(refused("x" * 1000)) < 150
    assert len(refused("list", "x" * 1000)) < 150


def needs_a_word(name):
    command = command_line.get_command(click.Context(command_line), name)
    return any(each.required for each in command.params)


@pytest.mark.parametrize("name", filter(needs_a_word, COMMANDS))
def test_a_command_without_a_word_says_what_it_needs_in_words_of_ours(name):
    sentence = refused(name)
    assert sentence.startswith("say ")
    assert "Missing" not in sentence


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
