import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dlmon.records.sanitize import SHOWN_LENGTH, clean, quoted

# Every kind of piece that a sequence is made of, so that they meet in any order.
PIECES = st.sampled_from(
    [
        *("\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b_", "\x1b\\", "\x07", "\x90", "\x9b", "\x9c"),
        *("\x9d", "\x18", "\x1a", "0", "31", ";", "8;;", "52;c;", "m", "h", " ", "(", "B"),
        *("\n", "\r", "\t", "\b", "é", "漢", "\u202e", "\u200b", "\u2066", "\ud800", "text"),
    ]
)
FOREIGN = st.one_of(
    st.lists(PIECES, max_size=30).map("".join), st.text(st.characters(), max_size=60)
)

BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ZERO_WIDTH = re.compile("[\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2064\ufeff]")


def visible(character: str) -> bool:
    """Decide by Unicode's own categories; the Arabic and Egyptian signs of Cf have a glyph."""
    if unicodedata.category(character) == "Cf":
        return any(word in unicodedata.name(character) for word in ("ARABIC", "SYRIAC", "EGYPTIAN"))
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")


@given(FOREIGN)
@example("\x1b" * 5)
@example("\x1b]0;\x1b[31\x9b\x9d")
def test_the_result_is_one_visible_line_without_anything_that_a_terminal_obeys(text):
    cleaned = clean(text)
    assert all(visible(c) or unicodedata.name(c).startswith("KAITHI") for c in cleaned)
    assert len(cleaned.splitlines()) <= 1
    assert not BIDI.search(cleaned)
    assert not ZERO_WIDTH.search(cleaned)
    cleaned.encode("utf-8")


def test_every_single_control_and_invisible_character_goes():
    for point in range(0x110000):
        character = chr(point)
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character != "\t":
            assert clean(f"a{character}") == "a", hex(point)
    for point in (*range(0xE0000, 0xE1000), 0x115F, 0x3164, 0xFFA0, 0x180B, 0x1D173):
        assert clean(chr(point)) == "", hex(point)


@given(FOREIGN, st.integers(0, 40))
def test_cleaning_twice_changes_nothing_more(text, limit):
    assert clean(clean(text)) == clean(text)
    assert clean(clean(text, limit), limit) == clean(text, limit)


@given(FOREIGN, st.integers(0, 40))
def test_the_limit_holds_and_a_cut_is_marked(text, limit):
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    if limit and (len(text) > limit or len(clean(text)) > limit):
        assert cleaned.endswith("…")
    else:
        assert cleaned == (clean(text) if limit else "")


@pytest.mark.parametrize(
    "text",
    [
        "plain ASCII, with [brackets] and 100 %",
        "深層学習のベンチマーク, 한국어, 中文",
        "Größe naïve Ångström ñ",
        "e\u0301 combining, नमस्ते, ไทย, עברית, العربية",
        "🚀 🔥 ❤️ 👍🏽 🇩🇪 1️⃣",
        "⡠⠤⠄ ━━╸ ▁▂▃ → × ± ° µ",
        "no\u00a0break",
        "",
    ],
)
def test_plain_text_of_any_language_is_untouched(text):
    assert clean(text) == text


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[31m",
        "\x1b[38;2;255;0;0m",
        "\x1b[?1049h",
        "\x1b[2J",
        "\x1b[6n",
        "\x1b[!p",
        "\x9b1;31m",
        "\x1b]0;title\x07",
        "\x1b]0;Titel mit Ü\x1b\\",
        "\x9d0;title\x9c",
        "\x1b]52;c;cm0gLXJmIC8K\x07",
        "\x1b]8;;https://example.org\x1b\\",
        "\x1b]1337;File=inline=1:AAAA\nBBBB\x07",
        "\x1bPq#0;2;0;0;0\n#0~~@@vv\x1b\\",
        "\x90q~~\x9c",
        "\x1b_Gf=100;AAAA\x1b\\",
        "\x1b^private\x1b\\",
        "\x1bXstart of string\x1b\\",
        "\x1bPtmux;\x1b\x1b]52;c;AAAA\x07\x1b\\",
        "\x1b(B",
        "\x1b7",
        "\x1bc",
    ],
)
def test_an_escape_sequence_vanishes_whole(sequence):
    assert clean(f"before{sequence} after") == "before after"


@pytest.mark.parametrize("start", ["\x1b]0;", "\x9d0;", "\x1bPq", "\x1b_", "\x1b^", "\x1bX"])
@pytest.mark.parametrize(
    ("then", "left"),
    [
        ("lost\nkept", "kept"),
        ("lost\rkept", "kept"),
        ("lost\x18kept", "kept"),
        ("lost\x1akept", "kept"),
        ("lost\x1b[0mkept", "kept"),
        ("lost\x1b]0;x\x07kept", "kept"),
        ("lost to the end of the line", ""),
    ],
)
def test_a_string_without_its_terminator_ends_with_its_line_or_at_the_next_sequence(
    start, then, left
):
    assert clean(f"before {start}{then}") == f"before {left}"


# Cleaning starts again at every introducer, so the work is a sum over the pieces
# between them: this is what keeps a text full of unterminated sequences linear.
# Were any of these quadratic, it would take 2**35 steps, minutes even of a fast machine.
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        *("\x9d\n", "\x1b]", "\x1b]\n", "\x1bP\r", "\x90", "\x1b[", "\x9b0", "\x1b", "\x1b "),
        *("\t", "0", " ", "\u202e", "\x1b]a\x18"),
    ],
)
@pytest.mark.parametrize("start", ["", "\x1b]", "\x1b[", "\x1b"])
def test_a_lot_of_hostile_text_is_cleaned(start, piece):
    length = 2**18
    text = (start + piece * length)[:length]
    assert len(clean(text, length)) <= length


@pytest.mark.parametrize("text", ["x" * 100_000, "\x1b[31m" * 20_000, "日" * 50_000])
def test_what_somebody_typed_is_repeated_clean_and_short(text):
    reported = quoted(text)
    assert len(reported) <= SHOWN_LENGTH + 2
    assert reported == f'"{reported[1:-1]}"'
    assert "\x1b" not in reported
