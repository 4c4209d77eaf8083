"""config.toml: what may stand in it, and what is said of what may not."""

import json
import re
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmon.options.run_options import SETTINGS, RunOptions
from dlmon.options.settings import (
    Settings,
    SettingsError,
    check_theme,
    read_settings,
    remember,
    remembered,
    settings_path,
)
from dlmon.protocol.job import Job


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Return a function that writes config.toml where it is looked for."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DLMON_CONFIG", raising=False)

    def write(text):
        path = settings_path()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_without_a_file_or_with_an_empty_one_the_defaults_hold(config):
    assert read_settings() == Settings()
    config("")
    assert read_settings() == Settings()


def test_every_key_is_taken(config):
    run = {
        "device": "gpu:1", "devices": 1, "batch_size": 64, "epochs": 2, "steps": 50, "seconds": 3.0,
        "threads": 4, "cpus": 1, "data": "synthetic", "mode": "inference", "jit": "off",
        "precision": "mixed_float16", "backend": "jax", "python": "/bin/sh", "interval": 2.0,
        "pcie": True, "price": "0.5", "to": "wandb",
    }  # fmt: skip
    assert set(run) == set(SETTINGS)
    text = """
        theme = "dlmon-light"
        ascii = true
        bell = true
        notification = true
        log_dir = "/data/sessions"
        slurm = "-p gpu"

        [hosts]
        lab = ["gpu1", "ada@gpu2", "ssh://gpu3:2222"]
        Cloud-2_b = []

        [metrics]
        serve = "0.0.0.0:9000"

        [run]
        """
    config("\n".join([text, *(f"{name} = {json.dumps(value)}" for name, value in run.items())]))
    assert read_settings() == Settings(
        theme="dlmon-light",
        ascii=True,
        bell=True,
        notification=True,
        log_dir="/data/sessions",
        slurm="-p gpu",
        serve="0.0.0.0:9000",
        hosts={"lab": ("gpu1", "ada@gpu2", "ssh://gpu3:2222"), "Cloud-2_b": ()},
        run=RunOptions(**run),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("themes = 'nord'", "there is no key themes; did you mean theme?"),
        ("colour = 1", "there is no key colour; known are theme, ascii, bell"),
        ("[run]\nepoch = 2", "there is no key run.epoch; did you mean run.epochs?"),
        ("[run]\ndetach = true", "there is no key run.detach"),
        ("ascii = 'yes'", "ascii must be true or false, not 'yes'"),
        ("theme = 3", "theme must be text in quotes, not 3"),
        ("[run]\nepochs = 2.5", "run.epochs must be a whole number, not 2.5"),
        ("[run]\nepochs = true", "run.epochs must be a whole number, not True"),
        ("[run]\ninterval = '1'", "run.interval must be a number, not '1'"),
        ("[run]\nepochs = 0", "in [run], the number of epochs must be from 1 to 1,000,000,000"),
        ("[run]\ninterval = nan", "in [run], the interval must be from"),
        ("[run]\nprecision = 'fp8'", 'in [run], there is no precision "fp8"'),
        ("[run]\ncpus = 0", "in [run], the number of CPUs must be at least 1, not 0"),
        ("[run]\nprice = 0.5", "run.price must be text in quotes, not 0.5"),
        ("run = 3", "run must be a table"),
        ("metrics = 3", "metrics must be a table: write [metrics], and serve below it"),
        ("[metrics]\nserve = 9817", "metrics.serve must be text in quotes, not 9817"),
        ("[metrics]\nserve = 'gpu1'", "metrics.serve: metrics are served at ADDRESS:PORT, as"),
        ("[metrics]\nport = 1", "there is no key metrics.port; known are serve"),
        ("host = 3", "there is no key host; did you mean hosts?"),
        ("hosts = ['gpu1']", "hosts must be a table: write [hosts], and a group a line below it"),
        ("[hosts]\nlab = 'gpu1'", "hosts.lab must be a list of hosts in quotes, not 'gpu1'"),
        ("[hosts]\nlab = [1]", "hosts.lab must be a list of hosts in quotes, not [1]"),
        ("[hosts]\nlab.x = ['a']", "hosts.lab must be a list of hosts in quotes, not {'x'"),
        ("[hosts]\nlab = ['-x']", 'hosts.lab: "-x" is not a host: write NAME'),
        ("[hosts]\nlab = ['@x']", 'hosts.lab: "@x" is not a host: a group can\'t stand here'),
        ("[hosts]\nlab = ['a', 'a']", 'hosts.lab: "a" is named twice'),
        ("[hosts]\n'my lab' = ['a']", 'hosts can\'t be grouped as "my lab": name a group with'),
        ('[hosts]\n"l\\u001bab" = []', "hosts can't be grouped as"),
        ("[run]\nepochs = 1" + "0" * 5000, "config.toml"),
        ('log_dir = ""', "log_dir"),
        ("theme = ", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence_that_names_the_file(config, text, said):
    path = config(text)
    with pytest.raises(SettingsError) as refused:
        read_settings()
    assert str(refused.value).startswith(f"{path}: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@given(text=st.text(max_size=80))
def test_whatever_stands_in_the_file_is_followed_or_refused(text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        read = read_settings(path)
    except SettingsError as refused:
        message = str(refused)
        assert message.startswith(f"{path}")
    else:
        assert isinstance(read, Settings)


def test_what_only_this_machine_lacks_is_left_to_what_runs_something(config):
    config("[run]\ncpus = 100_000\npython = '/no/python'")
    assert read_settings().run == RunOptions(cpus=100_000, python="/no/python")


def test_without_a_home_directory_the_defaults_hold(no_home):
    assert read_settings() == Settings()
    assert remembered("theme") == ""
    with pytest.raises(OSError, match="set HOME or XDG_STATE_HOME"):
        remember("theme", "nord")


def test_another_place_can_be_named_and_one_that_is_missing_is_shown_in_part(tmp_path, monkeypatch):
    path = tmp_path / "mine.toml"
    path.write_text("bell = true")
    monkeypatch.setenv("DLMON_CONFIG", str(path))
    assert read_settings().bell
    for name in ("gone.toml", "nowhere/" * 200, "x" * 4000):
        monkeypatch.setenv("DLMON_CONFIG", f"/{name}")
        with pytest.raises(SettingsError) as error:
            read_settings()
        assert ("which does not exist" if name == "gone.toml" else "…") in str(error.value)
        assert len(str(error.value)) < 300


def test_what_can_not_be_read_is_shown(config):
    path = config("")
    path.write_bytes(b"theme = '\xff'")
    with pytest.raises(SettingsError, match="can't be read"):
        read_settings()
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingsError, match="can't be read"):
        read_settings()


def test_a_place_that_can_not_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "dlmon").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(OSError, match="dlmon"):
        remember("theme", "nord")
    assert stat.S_ISREG((tmp_path / "dlmon").stat().st_mode)


def test_alerts_are_taken_with_one_address_or_several(config):
    config(
        '[alerts]\nurl = "https://ntfy.sh/x"\ncommand = ["tell", "me"]\ndesktop = true\n'
        'detail = "full"\nevents = ["failed"]\nstalled_s = 5\nslower_pct = 50.5\n'
    )
    alerts = read_settings().alerts
    assert alerts.url == ("https://ntfy.sh/x",)
    assert (alerts.command, alerts.desktop, alerts.detail) == (("tell", "me"), True, "full")
    assert (alerts.events, alerts.stalled_s, alerts.slower_pct) == (("failed",), 5.0, 50.5)
    config('[alerts]\nurl = ["https://a/1", "tgram://b/2"]\n')
    assert read_settings().alerts.url == ("https://a/1", "tgram://b/2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alerts = 3", "alerts must be a table"),
        ('[alerts]\nurl = ["https://s3cret", 3]', "alerts.url must be a list of texts in quotes"),
        ('[alerts]\ncommand = "s3cret"', "alerts.command must be a list of texts in quotes"),
        ('[alerts]\nurl = "s3cret"', "in [alerts], an alert needs an address"),
        ("[alerts]\nstalled_s = -1", "in [alerts], alerts.stalled_s must be from 0"),
        ("[alerts]\nstalled = 1", "there is no key alerts.stalled; did you mean alerts.stalled_s?"),
        ('[alerts]\nhost = "x"', "there is no key alerts.host"),
        ('[alerts]\nevents = ["end"]', "alerts.events has one that isn't known"),
    ],
)
def test_wrong_alerts_are_refused_in_a_sentence_without_the_address(config, text, said):
    config(text)
    with pytest.raises(SettingsError) as refused:
        read_settings()
    assert said in str(refused.value)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nrod", 'there is no theme "nrod"; did you mean nord?'),
        ("xyzzy", 'there is no theme "xyzzy"; t in dlmon lists'),
    ],
)
def test_a_theme_that_no_screen_has_is_refused(name, sentence):
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        check_theme(name, ["nord", "dracula"])


def test_a_session_of_this_machine_gets_what_the_settings_say_of_such():
    job = Settings(end_with_terminal=True, serve="9000").applied_to(Job("", (), {}, "logs"))
    assert (job.ends_with_terminal, job.serve) == (True, "9000")
    assert Settings().applied_to(job) == Job("", (), {}, "logs")
