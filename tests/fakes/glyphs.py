"""The characters that a test draws with."""

from contextlib import contextmanager

from dlmon.figures.glyphs import ASCII, UNICODE, glyphs_in_use, use_glyphs

GLYPHS = {False: UNICODE, True: ASCII}
"""By whether they are ASCII."""


@contextmanager
def drawn_in_ascii(ascii=True):
    """Have everything drawn with plain characters meanwhile."""
    before = glyphs_in_use()
    use_glyphs(GLYPHS[ascii])
    try:
        yield
    finally:
        use_glyphs(before)
