"""dlmon's own themes: legible, and the same for people who are colour-blind."""

from itertools import combinations, pairwise

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from dlmon.records import TimePart
from tui.drawing.step_parts import PART_STYLES, TIME_STYLES
from tui.drawing.themes import DARK, LIGHT, OWN_THEMES, chart_hues, theme_names

THEMES = {theme.name: theme for theme in OWN_THEMES}

# Full deuteranopia, protanopia and tritanopia on linear RGB: Machado, Oliveira and
# Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009).
SIGHT = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def linear(color):
    values = (part / 255 for part in Color.parse(color).rgb)
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def seen(color, sight):
    """Return a colour in CIE Lab as an eye sees it."""
    channels = linear(color)
    red, green, blue = (
        min(1.0, max(0.0, sum(weight * part for weight, part in zip(row, channels, strict=True))))
        for row in SIGHT[sight]
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def difference(one, other, sight):
    pairs = zip(seen(one, sight), seen(other, sight), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def contrast(one, other):
    light, dark = sorted(
        (0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(linear, (one, other))),
        reverse=True,
    )
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", [DARK, LIGHT])
def test_this_run_and_earlier_ones_and_what_is_shaded_can_be_distinguished(name, sight):
    """A difference of 10 in CIE Lab is seen at a glance."""
    theme = THEMES[name]
    roles = ("primary", "accent", "secondary")
    for one, other in combinations(roles, 2):
        assert difference(getattr(theme, one), getattr(theme, other), sight) > 15, (one, other)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", [DARK, LIGHT])
def test_good_and_bad_can_be_distinguished(name, sight):
    theme = THEMES[name]
    assert difference(theme.success, theme.error, sight) > 15
    assert difference(theme.success, theme.warning, sight) > 15


QUANTITIES = ("throughput", "cpu", "gpu", "memory", "power", "loss")


@pytest.mark.parametrize("name", [DARK, LIGHT])
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_hue_of_each_quantity_can_be_read_on_the_background(name, quantity):
    theme = THEMES[name]
    assert contrast(theme.variables[f"chart-{quantity}"], theme.background) >= 4.5


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", [DARK, LIGHT])
def test_the_quantities_that_stand_beside_each_other_can_be_distinguished(name, sight):
    variables = THEMES[name].variables
    hues = [variables[f"chart-{quantity}"] for quantity in ("throughput", "cpu", "gpu", "memory")]
    for one, other in combinations(hues, 2):
        assert difference(one, other, sight) > 10, (one, other)


def hue(style, theme):
    """Return the colour of a style of parts: a variable or a role, perhaps paler."""
    role, _, share = style.removeprefix("$").partition(" ")
    colour = theme.variables.get(role) or getattr(theme, role.removeprefix("text-"))
    if not share:
        return colour
    return Color.parse(theme.background).blend(Color.parse(colour), int(share[:-1]) / 100).hex


# A step may lack its copy and its collectives, and the time of a run most of its parts.
BESIDE = [
    *pairwise(PART_STYLES[name] for name in PART_STYLES if name != "collective_us"),
    *pairwise(PART_STYLES.values()),
    *((PART_STYLES["wait_us"], PART_STYLES["forward_us"]),),
    *combinations(dict.fromkeys(style for style in TIME_STYLES.values() if " " not in style), 2),
]


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("name", [DARK, LIGHT])
def test_parts_that_stand_beside_each_other_can_be_distinguished(name, sight):
    theme = THEMES[name]
    for one, other in BESIDE:
        assert difference(hue(one, theme), hue(other, theme), sight) > 9, (one, other)


@pytest.mark.parametrize("name", [DARK, LIGHT])
def test_the_bar_of_each_part_stands_out_from_the_background(name):
    """WCAG 2.1 asks for 3 to 1 of what is drawn; the rest, which is named last, may be paler."""
    theme = THEMES[name]
    styles = {*PART_STYLES.values(), *TIME_STYLES.values()} - {TIME_STYLES[TimePart.UNKNOWN]}
    faint = {s: contrast(hue(s, theme), theme.background) for s in styles}
    assert min(faint.values()) >= 3, faint


@pytest.mark.parametrize("name", theme_names())
def test_every_theme_has_a_hue_for_each_quantity(name):
    theme = {**BUILTIN_THEMES, **THEMES}[name]
    hues = chart_hues(theme)
    parts = {"part-compile", "part-validation", "part-checkpoint"}
    assert set(hues) == {f"chart-{quantity}" for quantity in QUANTITIES} | parts
    assert len(set(hues.values())) == len(hues)
    assert all(Color.parse(hue) for hue in hues.values())
    if not theme.ansi:
        assert all(contrast(hue, theme.background or "#1e1e1e") > 2 for hue in hues.values())
