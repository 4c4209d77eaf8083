"""The notes below the processes: each is whole, or not there."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.machine.process_list import notes_with_room

NOTES = ("as they were last read", "", "● this run", "those on GPUs")


def test_a_note_without_room_is_left_out():
    whole = "as they were last read  ● this run  those on GPUs"
    assert notes_with_room(NOTES, len(whole)) == whole
    assert notes_with_room(NOTES, len(whole) - 1) == "as they were last read  ● this run"
    assert notes_with_room(NOTES, 13) == "● this run"
    assert notes_with_room(NOTES, 0) == ""


@given(st.lists(st.text("ab 漢", max_size=9), max_size=5), st.integers(0, 60))
def test_notes_never_take_more_than_their_room(notes, room):
    assert cell_len(notes_with_room(notes, room)) <= room
