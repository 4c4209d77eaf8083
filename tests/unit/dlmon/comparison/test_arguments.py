import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.comparison.arguments import GIVEN, arguments_of, is_secret

SCRIPT = "train.py"


def differing(base, new):
    """Return what differs: by name, what each side has."""
    ours, theirs = arguments_of([base.split(), new.split()], SCRIPT)
    names = dict.fromkeys([*ours, *theirs])
    found = {name: (ours.get(name), theirs.get(name)) for name in names}
    return {name: sides for name, sides in found.items() if sides[0] != sides[1]}


LONG = "python3 /home/ada/work/experiments/train.py --batch-size 64 --sleep 0.005 --epochs 5"


@pytest.mark.parametrize(
    ("base", "new", "found"),
    [
        # However long the command is.
        (LONG, f"{LONG} --workers 4", {"--workers": (None, "4")}),
        ("python train.py a.csv", "python train.py b.csv", {"argument 1": ("a.csv", "b.csv")}),
        ("python train.py a", "python train.py a b", {"argument 2": (None, "b")}),
        ("python train.py", "python train.py --amp", {"--amp": (None, GIVEN)}),
        ("python train.py a", "python train.py --amp a", {"--amp": (None, GIVEN)}),
        ("python train.py a", "python -u train.py a", {"-u": (None, GIVEN)}),
        ("python train.py", "/opt/env/bin/python3.12 train.py", {}),
        ("env A=1 python train.py", "env A=1 /opt/python train.py", {}),
        ("python train.py", "torchrun train.py", {"program": (None, "torchrun")}),
        ("bash train.py", "sh train.py", {"program": ("bash", "sh")}),
        ("python train.py lr=1", "python train.py lr=2", {"lr": ("1", "2")}),
        ("python train.py --lr -0.1", "python train.py --lr -0.2", {"--lr": ("-0.1", "-0.2")}),
        ("python train.py --l 1 --l 2", "python train.py --l 1", {"--l": ("1, 2", "1")}),
        (
            "torchrun --nproc-per-node 2 train.py --lr 1",
            "torchrun --nproc-per-node 4 train.py --lr 1",
            {"--nproc-per-node": ("2", "4")},
        ),
        ("python train.py --amp --lr 1", "python train.py --lr 1 --amp", {}),
        ("python old/train.py", "python new/train.py", {}),
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


SECRETS = (
    "--api-key --apikey --apiKey --APIKey --api-keys --authToken --wandb_token --hftoken --pass "
    "--auth accessKey --passphrase --pwd env.SECRET --aws-credentials HF_TOKEN --auth-header --key "
    "-key"
)
NO_SECRETS = (
    "--max-tokens --keyboard --monkey --lr --batch-size --num-key-value-heads model.key_dim "
    "pad_token --eos-token --sort-keys --pass-through --"
)


def test_what_is_called_as_secrets_are_is_one_and_nothing_else():
    assert [name for name in SECRETS.split() if not is_secret(name)] == []
    assert [name for name in ("", *NO_SECRETS.split()) if is_secret(name)] == []


@pytest.mark.parametrize("key", ["-abc123", "c2VjcmV0MQ=="])
def test_a_key_that_looks_like_an_option_or_an_assignment_is_a_value_and_no_name(key):
    (found,) = arguments_of([["python", "x.py", "--api-key", key, "--lr", "0.1"]], "x.py")
    assert found == {"--api-key": key, "--lr": "0.1"}
