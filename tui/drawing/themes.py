"""dlmon's dark and light themes; Textual's themes can be chosen too.

The colours follow the palette of Okabe and Ito ("Color Universal Design", 2008), which people with
any common kind of colour blindness can distinguish: darker hues for the light theme, lighter ones
for the dark. Backgrounds are close to grey, so that a terminal of 256 colours comes close to them.
"""

from __future__ import annotations

from textual.theme import BUILTIN_THEMES, Theme

DARK, LIGHT = "dlmon-dark", "dlmon-light"

# The hue of each quantity in a chart and of each part of a run's time: for the dark theme, for the
# light theme, and for terminals of 16 colours.
_HUES = {
    "chart-throughput": ("#56b4e9", "#0072b2", "ansi_blue"),
    "chart-cpu": ("#2bc49a", "#00704f", "ansi_green"),
    "chart-gpu": ("#e69f00", "#6b3f00", "ansi_yellow"),
    "chart-memory": ("#cc79a7", "#b0307a", "ansi_magenta"),
    "chart-power": ("#ff7a3d", "#b84a00", "ansi_red"),
    "chart-loss": ("#f0e442", "#7a6a00", "ansi_cyan"),
    "part-compile": ("#c49a6c", "#7d5a2e", "ansi_bright_magenta"),
    "part-validation": ("#a996ff", "#5f48c9", "ansi_bright_cyan"),
    "part-checkpoint": ("#c8e68a", "#00565e", "ansi_bright_green"),
}
_ON_DARK, _ON_LIGHT, ANSI_HUES = (
    dict(zip(_HUES, hues, strict=True)) for hues in zip(*_HUES.values(), strict=True)
)


def _scrollbar(track: str, thumb: str) -> dict[str, str]:
    """Return the colours of a scrollbar as theme variables."""
    tracks = ("background", "background-hover", "background-active", "corner-color")
    return {"scrollbar": thumb, **{f"scrollbar-{part}": track for part in tracks}}


OWN_THEMES = (
    Theme(
        name=DARK,
        primary="#56b4e9",
        secondary="#cc79a7",
        accent="#e69f00",
        warning="#f0e442",
        error="#ff7a3d",
        success="#2bc49a",
        foreground="#dfe4ea",
        background="#121416",
        surface="#1a1d20",
        panel="#262a2e",
        dark=True,
        variables={
            **_ON_DARK,
            "footer-key-foreground": "#e69f00",
            "border-blurred": "#1a1d20",
            **_scrollbar("#1a1d20", "#4a5056"),
        },
    ),
    Theme(
        name=LIGHT,
        primary="#0072b2",
        secondary="#b0307a",
        accent="#9a5a00",
        warning="#7a6a00",
        error="#b84a00",
        success="#00704f",
        foreground="#1d2329",
        background="#f7f8fa",
        surface="#eeeff0",
        panel="#dfe1e3",
        dark=False,
        variables={
            **_ON_LIGHT,
            "footer-key-foreground": "#005a8c",
            "block-cursor-foreground": "#ffffff",
            "border-blurred": "#eeeff0",
            **_scrollbar("#eeeff0", "#b4b8bc"),
        },
    ),
)


def chart_hues(theme: Theme) -> dict[str, str]:
    """Return the chart hues, as variables, for a theme that doesn't define them."""
    if theme.ansi:
        return ANSI_HUES
    return _ON_DARK if theme.dark else _ON_LIGHT


def theme_names() -> list[str]:
    """Return the names of all themes that the user can choose."""
    return [*(theme.name for theme in OWN_THEMES), *BUILTIN_THEMES]
