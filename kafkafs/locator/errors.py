"""The ways in which a name can be wrong."""

from __future__ import annotations

from typing import Final

_SHOWN_CHARACTERS_MAX: Final = 100


class BadNameError(ValueError):
    """A name is outside of the grammar; the text is one sentence that says what would have been in it.

    A mount answers that there is no such file, and the command line prints the sentence.
    """

    def __init__(self, name: str, expected: str) -> None:
        shown = name if len(name) <= _SHOWN_CHARACTERS_MAX else f"{name[:_SHOWN_CHARACTERS_MAX]}..."
        super().__init__(f"{shown!r} is not {expected}")
        self.name = name


class AmbiguousNameError(BadNameError):
    """A name that has been refused because it may well be meant otherwise than it would be read.

    The text says how else it may be meant. A mount logs it, as the reader only sees that there is no such file.
    """
