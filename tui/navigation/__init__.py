"""Which screen is shown: sessions, sweeps and machines, opened, launched and left.

What a screen wants, it posts as a message, and Textual hands it to a method of the app. So each
part is a base class of the app, with the messages that it answers: `NavigatingApp` is all of
them. A part stands on those that it needs, and on `stack`, which holds what several ask for.
"""

from tui.navigation.navigating_app import NavigatingApp

__all__ = ["NavigatingApp"]
