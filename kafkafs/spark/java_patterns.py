"""Regular expressions of Java, as `subscribePattern` has them, looked for in the names of topics.

Java's and Python's expressions have a large part in common. What only Java has, or what means something else there, is
refused by its name: no topic is ever found that Java would not find, and none is left out. Names of topics have ASCII
characters only, and no line breaks, which takes away most of the differences.
"""

from __future__ import annotations

import re
from typing import Final

from kafkafs.spark.errors import OptionError

_ESCAPES: Final = re.compile(r"\\(?:[dDwWsSbBAafnrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^A-Za-z0-9])")
_CLASS_ESCAPES: Final = re.compile(r"\\(?:[dDwWsSafnrt]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^A-Za-z0-9])")
_JAVAS_ESCAPE: Final = re.compile(r"\\(?:[pPNx]\{[^}]*\}?|k<[^>]*>?|c.|0[0-7]*|[0-9]+|.)?", re.DOTALL)
_GROUP: Final = re.compile(r"\(\?(?:[:=!>]|<[=!]|[ims]+:)")
_LEADING_FLAGS: Final = re.compile(r"(?:\(\?[ims]+\))+")
_JAVAS_GROUP: Final = re.compile(r"\(\?(?:P?<\w*>?|[A-Za-z-]+[:)]?|.)?")
_REPETITION: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return a pattern that is found in just those names in which Java finds it; raises `OptionError` for any other."""
    position = found.end() if (found := _LEADING_FLAGS.match(text)) else 0
    while position < len(text):
        position = _class_end(text, position) if text[position] == "[" else _piece_end(text, position)
    try:
        return re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(
            f"the option subscribePattern is no regular expression that kafkafs knows: {error}, in '{text}'"
        ) from None


def _piece_end(text: str, position: int) -> int:
    """Return where a piece ends that is not a class of characters."""
    match text[position]:
        case "\\":
            if found := _ESCAPES.match(text, position):
                return found.end()
            raise _refusal(text, _JAVAS_ESCAPE.match(text, position))
        case "(" if text.startswith("(?", position):
            if found := _GROUP.match(text, position):
                return found.end()
            raise _refusal(text, _JAVAS_GROUP.match(text, position))
        case "{":
            if found := _REPETITION.match(text, position):
                return found.end()
            raise _refused(text, "{")
        case _:
            return position + 1


def _class_end(text: str, start: int) -> int:
    """Return where a class of characters ends, or the text."""
    position = start + (2 if text.startswith("[^", start) else 1)
    first = position
    while position < len(text):
        match text[position]:
            case "]" if position > first:
                return position + 1
            case "]" | "[":
                raise _refused(text, f"{text[position]} in a class")
            case "&" if text.startswith("&&", position):
                raise _refused(text, "&&")
            case "-" | "~" | "|" if text[position] * 2 == text[position : position + 2]:
                raise _refused(text, text[position] * 2)
            case "\\":
                if not (found := _CLASS_ESCAPES.match(text, position)):
                    raise _refusal(text, _JAVAS_ESCAPE.match(text, position))
                position = found.end()
            case _:
                position += 1
    return position


def _refusal(text: str, found: re.Match[str] | None) -> OptionError:
    assert found is not None
    return _refused(text, found[0])


def _refused(text: str, construct: str) -> OptionError:
    return OptionError(
        f"the option subscribePattern has {construct}, which kafkafs does not match as Java does; write it out, as "
        f"[a-z] for \\p{{Lower}}, or name the topics with subscribe: '{text}'"
    )
