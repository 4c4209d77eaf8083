import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.arguments import GIVEN, arguments_of, is_secret

LOOP = "python3 /home/ada/work/experiments/torch_loop.py --batch-size 64 --sleep 0.005 --epochs 5"


def differing(base, new, script="torch_loop.py"):
    """Return what differs: by name, what each side has."""
    ours, theirs = arguments_of([base.split(), new.split()], script)
    names = dict.fromkeys([*ours, *theirs])
    found = {name: (ours.get(name), theirs.get(name)) for name in names}
    return {name: sides for name, sides in found.items() if sides[0] != sides[1]}


def test_an_option_that_one_side_lacks_differs_however_long_the_command_is():
    assert differing(LOOP, f"{LOOP} --workers 4") == {"--workers": (None, "4")}


@pytest.mark.parametrize(
    ("base", "new", "found"),
    [
        (
            "python torch_loop.py a.csv",
            "python torch_loop.py b.csv",
            {"argument 1": ("a.csv", "b.csv")},
        ),
        ("python torch_loop.py a", "python torch_loop.py a b", {"argument 2": (None, "b")}),
        ("python torch_loop.py", "python torch_loop.py --amp", {"--amp": (None, GIVEN)}),
        ("python torch_loop.py a", "python torch_loop.py --amp a", {"--amp": (None, GIVEN)}),
        ("python torch_loop.py a", "python -u torch_loop.py a", {"-u": (None, GIVEN)}),
        ("python torch_loop.py", "/opt/env/bin/python3.12 torch_loop.py", {}),
        ("env A=1 python torch_loop.py", "env A=1 /opt/python torch_loop.py", {}),
        ("python torch_loop.py", "torchrun torch_loop.py", {"program": (None, "torchrun")}),
        ("bash torch_loop.py", "sh torch_loop.py", {"program": ("bash", "sh")}),
        ("python torch_loop.py lr=1", "python torch_loop.py lr=2", {"lr": ("1", "2")}),
        (
            "python torch_loop.py --lr -0.1",
            "python torch_loop.py --lr -0.2",
            {"--lr": ("-0.1", "-0.2")},
        ),
        (
            "python torch_loop.py --layer 1 --layer 2",
            "python torch_loop.py --layer 1",
            {"--layer": ("1, 2", "1")},
        ),
        (
            "torchrun --nproc-per-node 2 torch_loop.py --lr 1",
            "torchrun --nproc-per-node 4 torch_loop.py --lr 1",
            {"--nproc-per-node": ("2", "4")},
        ),
        (
            "python torch_loop.py --amp --lr 1",
            "python torch_loop.py --lr 1 --amp",
            {},
        ),
        ("python old/torch_loop.py", "python new/torch_loop.py", {}),
        ("python -m pkg.train a", "python -m pkg.train b", {"argument 1": ("a", "b")}),
    ],
)
def test_what_differs_is_named(base, new, found):
    assert differing(base, new) == found


WORDS = st.lists(st.text(max_size=8) | st.sampled_from(["--a", "-b", "--c=1", "x", "--", "d=2"]))


@given(WORDS)
def test_a_command_differs_in_nothing_from_itself(words):
    ours, theirs = arguments_of([words, words], "x")
    assert ours == theirs


@pytest.mark.parametrize(
    "name",
    [
        *("--api-key", "--apikey", "--apiKey", "--APIKey", "--api-keys", "--authToken"),
        *("--wandb_token", "--hftoken", "--pass", "--auth", "accessKey", "--passphrase", "--pwd"),
        *("env.SECRET", "--aws-credentials", "HF_TOKEN", "--auth-header", "--key", "-key"),
    ],
)
def test_what_is_called_as_secrets_are_is_one(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("--max-tokens", "--keyboard", "--monkey", "--lr", "--batch-size"),
        *(
            "--num-key-value-heads",
            "model.key_dim",
            "pad_token",
            "--eos-token",
            "--sort-keys",
            "--pass-through",
            "--",
            "",
        ),
    ],
)
def test_what_is_called_otherwise_is_no_secret(name):
    assert not is_secret(name)


def test_a_key_that_begins_as_a_short_option_does_is_a_value_and_no_name():
    (found,) = arguments_of([["python", "x.py", "--api-key", "-abc123", "--lr", "0.1"]], "x.py")
    assert found["--api-key"] == "-abc123"
    assert "-abc123" not in found
    assert found["--lr"] == "0.1"


def test_a_key_that_ends_as_an_assignment_does_is_a_value_and_no_name():
    command = "python torch_loop.py --api-key c2VjcmV0MQ== --lr 0.1"
    found = differing(command, command.replace("MQ==", "Mg=="))
    assert found == {"--api-key": ("c2VjcmV0MQ==", "c2VjcmV0Mg==")}
