"""JSON as kafkafs writes it into the files of commits: no fractions, and no integer of more than 64 bits.

What a text says is left to its caller, who takes each value out of it as what it has to be.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from typing import NoReturn

T = TypeVar("T")

_DIGITS_MAX: Final = 20
_SHOWN: Final = 100


def parse_json(data: bytes) -> Any:  # noqa: ANN401 -- the caller checks what it is
    """Return the value of a text in UTF-8; raises `ValueError`, and no other error, for what kafkafs does not write."""
    try:
        return json.loads(data.decode(), parse_int=_integer, parse_float=_refused, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def number_of(value: object, *, least: int = 0, bits: int = 64) -> int:
    """Return the value if it is a signed integer of so many bits; raises `ValueError`."""
    if type(value) is not int or not least <= value < 2 ** (bits - 1):
        raise ValueError(f"{shown(value)} is not an integer from {least} to {2 ** (bits - 1) - 1}")
    return value


def text_of(value: object) -> str:
    """Return the value if it is a text; raises `ValueError`."""
    return _of_kind(value, str, "a text")


def truth_of(value: object) -> bool:
    """Return the value if it is true or false; raises `ValueError`."""
    return _of_kind(value, bool, "true or false")


def list_of(value: object, length: int | None = None) -> list[Any]:
    """Return the value if it is a list, of this length; raises `ValueError`."""
    found = _of_kind(value, list, "a list")
    if length not in {None, len(found)}:
        raise ValueError(f"{shown(value)} is not a list of {length}")
    return found


def object_of(value: object) -> dict[str, Any]:
    """Return the value if it is an object; raises `ValueError`."""
    return _of_kind(value, dict, "an object")


def shown(value: object) -> str:
    """Return a value's beginning for a message, on one line."""
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    return json.dumps(value[:_SHOWN] if isinstance(value, str) else value)


def _of_kind(value: object, kind: type[T], said: str) -> T:
    if isinstance(value, kind):
        return value
    raise ValueError(f"{shown(value)} is not {said}")


def _integer(text: str) -> int:
    if len(text) > _DIGITS_MAX or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"{text[:_SHOWN]} is not an integer of 64 bits")
    return int(text)


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text[:_SHOWN]} is not an integer")
