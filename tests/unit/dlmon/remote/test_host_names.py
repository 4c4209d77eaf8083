"""Which hosts ssh may be given, what a group stands for, and what ~/.ssh/config names."""

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlmon.records.sanitize import clean
from dlmon.remote.host_names import HostError, check_host, configured_hosts, hosts_from

# ---- one host ----


@pytest.mark.parametrize(
    "host",
    [
        "gpu1",
        "gpu-1.lab.example",
        "lab@gpu1",
        "LAB\\ada@gpu1",
        "ada@lab.example@gpu1",
        "ssh://gpu1",
        "ssh://gpu1:2222",
        "ssh://lab@gpu1:2222",
        "ssh://lab@[::1]:22",
        "[::1]",
        "lab@[fe80::1%eth0]",
        "::1",
        "10.0.0.7",
        "bücher",
        "x" * 255,
    ],
)
def test_a_host_is_returned_as_it_was_given(host):
    assert check_host(host) == host


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", '"" is not a host: write NAME, USER@NAME or ssh://USER@NAME:PORT'),
        ("@lab", '"@lab" is not a host: a group can\'t stand here; name one host'),
        ("gpu1:2222", "with a port, write ssh://gpu1:2222"),
        ("lab@gpu1:2222", "with a port, write ssh://lab@gpu1:2222"),
        *(
            (text, "write NAME, USER@NAME or ssh://USER@NAME:PORT")
            for text in (
                *("-oProxyCommand=x", "lab@-oProxyCommand=x", "-l@gpu1", "ssh://-x"),
                *("ssh://-l@gpu1", "gpu 1", "gpu1\n", "gpu\u00a01", "gpu\x1b[31m1"),
                *("gpu\u202e1", "gpu\udc801", "x" * 256, "ssh://@gpu1", "lab@", "gpu1;ls"),
                *("gpu$(ls)", "a`b@gpu1", "ssh://", "ssh://gpu1/home", "ssh://gpu1:x"),
                *("ssh://a%0ab@gpu1", "ssh://gpu1:655360", "[::1", "gpu[1]"),
            )
        ),
    ],
)
def test_what_is_no_host_is_refused_in_one_sentence(text, said):
    with pytest.raises(HostError) as refused:
        check_host(text)
    assert said in str(refused.value)
    assert str(refused.value) == clean(str(refused.value))


@given(st.text(max_size=300))
def test_no_host_is_an_option_or_more_than_one_word(text):
    try:
        host = check_host(text)
    except HostError as refused:
        reason = str(refused)
        assert "is not a host: " in reason
        assert "\n" not in reason
        assert len(reason) < 200
    else:
        assert host == text
        assert not host.startswith("-")
        assert host.split() == [host]
        assert host.isprintable()


# ---- groups of hosts ----

GROUPS = {"lab": ("gpu1", "gpu2"), "cloud": ("ada@box",), "none": ()}


def test_a_group_stands_for_its_hosts_in_order():
    assert hosts_from([], GROUPS) == []
    assert hosts_from(["gpu0", "@lab", "gpu9"], GROUPS) == ["gpu0", "gpu1", "gpu2", "gpu9"]
    assert hosts_from(["@cloud", "@lab"], GROUPS) == ["ada@box", "gpu1", "gpu2"]


@pytest.mark.parametrize(
    ("words", "groups", "said"),
    [
        (["@labs"], GROUPS, 'there is no group "@labs"; known are @lab, @cloud, @none'),
        (["@"], GROUPS, 'there is no group "@"; known are @lab, @cloud, @none'),
        (["@lab"], {}, 'there is no group "@lab"; the settings name none'),
        (["@none"], GROUPS, 'the group "@none" is empty: list its hosts in the settings'),
        (["gpu1", "gpu1"], GROUPS, '"gpu1" is named twice: name each host once'),
        (["@lab", "gpu2"], GROUPS, '"gpu2" is named twice: name each host once'),
        (["-x"], GROUPS, '"-x" is not a host: write NAME'),
        (["@bad"], {"bad": ["-x"]}, '"-x" is not a host: write NAME'),
    ],
)
def test_hosts_that_can_not_be_meant_are_one_sentence(words, groups, said):
    with pytest.raises(HostError) as refused:
        hosts_from(words, groups)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


# ---- the hosts that ssh is configured for ----


@pytest.fixture
def configure(tmp_path, monkeypatch):
    """Return a function that writes files below ~/.ssh."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def write(text, name="config"):
        path = tmp_path / ".ssh" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("line", "hosts"),
    [
        ("HOST a b", ["a", "b"]),
        ("host=a b", ["a", "b"]),
        ("Host = a", ["a"]),
        ("Host\ta\t b ", ["a", "b"]),
        ("Host a\r", ["a"]),
        ("Host a # don't", ["a"]),
        ("Host \"a\" 'b'", ["a", "b"]),
        ('Host "a', []),
        ('Host "a b" c', ["c"]),
        ("Host", []),
        ("Hostname a", []),
        ("Host * ?a b* !c d", ["d"]),
        ("Host gpu1 gpu2 !gpu1", ["gpu2"]),
        ("Host -oProxyCommand=x a;b $(x) c", ["c"]),
        ("Host ada@a ssh://a b", ["b"]),
    ],
)
def test_a_line_is_read_as_ssh_reads_it(configure, line, hosts):
    configure(line)
    assert configured_hosts() == hosts


def test_included_files_are_read_where_they_stand_and_each_host_is_named_once(configure):
    configure("# Host x\nHost first\n  User ada\nInclude more conf.d/* ~/else\nHost last a\n")
    configure("Host more", "more")
    configure("Host b", "conf.d/2")
    configure("Host a", "conf.d/1")
    configure("Host hidden", "conf.d/.3")
    configure("Host second first", "../else")
    assert configured_hosts() == ["first", "more", "a", "b", "second", "last"]


@pytest.mark.parametrize(
    "content",
    [b"Host a\0b\n", b"\0", b"#" * (1 << 20) + b"\nHost a\n", b"Host a\xff\n"],
    ids=["binary", "zero", "huge", "no text"],
)
def test_a_file_that_is_none_of_ssh_names_no_host(configure, content):
    configure(content, "odd")
    configure("Include odd\nHost b")
    assert configured_hosts() == ["b"]


def test_only_regular_files_are_read(configure, tmp_path):
    configure("Include pipe folder endless gone circle\nHost a")
    os.mkfifo(tmp_path / ".ssh" / "pipe")
    (tmp_path / ".ssh" / "folder").mkdir()
    (tmp_path / ".ssh" / "endless").symlink_to("/dev/zero")
    (tmp_path / ".ssh" / "circle").symlink_to("circle")
    assert configured_hosts() == ["a"]


def test_without_a_file_or_a_home_directory_there_is_no_host(tmp_path, monkeypatch, no_home):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~" / ".ssh").mkdir(parents=True)
    (tmp_path / "~" / ".ssh" / "config").write_text("Host a")
    assert configured_hosts() == []
    monkeypatch.setenv("HOME", str(tmp_path))
    assert configured_hosts() == []


def _lines():
    words = st.sampled_from(
        ["a", "b*", "!a", '"', "'", "\\", "#", "-x", "=", "[", "[z-a]*", "~", "~x/", "more", "*"]
    )
    texts = st.lists(words | st.text(max_size=8), max_size=5).map(" ".join)
    keywords = st.sampled_from(["Host ", "host=", "Include ", "Match ", "", "#"])
    return st.lists(st.tuples(keywords, texts).map("".join)).map("\n".join)


@given(text=st.text() | _lines())
@example(text="Include [z-a] /dev/zero /dev/stdin ~\nHost a")
@example(text="Host " + "a" * 300 + " [::1] [x")
def test_whatever_stands_in_the_file_only_hosts_come_of_it(text, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "any" / ".ssh"
    folder.mkdir(parents=True, exist_ok=True)
    content = text.encode("utf-8", "surrogatepass")
    for name in ("config", "more"):
        (folder / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder.parent))
        hosts = configured_hosts()
    assert [check_host(host) for host in hosts] == hosts
    assert len(set(hosts)) == len(hosts)
