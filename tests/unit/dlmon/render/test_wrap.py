"""How texts are broken into lines."""

from dlmon.render.wrap import between_words, wrapped


def test_a_sentence_is_broken_between_words_but_in_no_command_and_no_path():
    assert between_words("it is kept; dlmon attach last shows it", 30) == [
        "it is kept;",
        "dlmon attach last shows it",
    ]
    assert between_words("it is recorded in /a/path/of/it today", 20) == [
        "it is recorded in",
        "/a/path/of/it today",
    ]
    # The terminal breaks what is longer, and a person copies it in one piece.
    assert between_words("kept in /a/very/long/path/of/it today", 20) == [
        "kept in /a/very/long/path/of/it",
        "today",
    ]
    assert between_words("short", 20) == ["short"]


def test_a_long_path_is_broken_after_a_slash():
    assert wrapped("/home/ada/resnet/train_resnet.py:88", 20) == [
        "/home/ada/resnet/",
        "train_resnet.py:88",
    ]
    assert wrapped("a/bcdefghijkl", 5) == ["a/bcd", "efghi", "jkl"]
