"""The kinds of values that settings have: how their text is read and written, and which values are allowed.

Each kind takes the texts that Kafka takes for the same type and gives them back as Kafka prints them. Three liberties
of the JVM are not taken over: digits of other scripts, `NaN`, and floating-point texts in hexadecimal or with a
type's letter after them.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

INT_MAX: Final = 2**31 - 1
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS_MAX: Final = 1000
"""A number of more characters is refused, as reading it would make other threads wait."""
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Between these the JVM prints a double without an exponent.
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7


class ValueKind(ABC, Generic[T]):
    """The texts that a setting may have, and the value of each. Texts come without blanks around them."""

    __slots__ = ()

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The allowed values, worded to follow "it must be"."""

    @abstractmethod
    def read(self, text: str) -> T:
        """Return the value of a text; raises `ValueError` if it is not allowed."""

    @abstractmethod
    def write(self, value: T) -> str:
        """The text of an allowed value, as Kafka prints it."""


@dataclass(frozen=True, slots=True)
class Integer(ValueKind[int]):
    """A whole number within bounds, or the one value `also`. Its text counts in `unit`s."""

    minimum: int
    maximum: int = LONG_MAX
    also: int | None = None
    unit: int = 1

    @property
    def allowed(self) -> str:
        """The bounds, as they hold for the text."""
        bounds = f"a whole number from {self.minimum} to {self.maximum}"
        return bounds if self.also is None else f"{bounds}, or {self.also}"

    def read(self, text: str) -> int:
        """The number in its smallest unit."""
        if len(text) > _DIGITS_MAX or not _WHOLE.fullmatch(text):
            raise ValueError(text)
        number = int(text)
        if number != self.also and not self.minimum <= number <= self.maximum:
            raise ValueError(text)
        return number * self.unit

    def write(self, value: int) -> str:
        """The number in the unit of the text."""
        return str(value // self.unit)


class RetentionLimit(Integer):
    """A retention limit among a broker's settings; every negative number means no limit."""

    __slots__ = ()

    def read(self, text: str) -> int:
        """The limit in its smallest unit, -1 for none."""
        return max(super().read(text), -1)


@dataclass(frozen=True, slots=True)
class Real(ValueKind[float]):
    """A finite number within bounds."""

    minimum: float
    maximum: float

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a number from {self.minimum:g} to {self.maximum:g}"

    def read(self, text: str) -> float:
        """The nearest double."""
        if len(text) > _DIGITS_MAX or not _DECIMAL.fullmatch(text):
            raise ValueError(text)
        number = float(text)
        if not (math.isfinite(number) and self.minimum <= number <= self.maximum):
            raise ValueError(text)
        return number

    def write(self, value: float) -> str:
        """Return the shortest text of the same double, in the JVM's form."""
        if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
            return repr(float(value))
        from decimal import Decimal

        sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
        assert isinstance(exponent, int), "an allowed value is finite"
        first, *rest = map(str, digits)
        return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


@dataclass(frozen=True, slots=True)
class Boolean(ValueKind[bool]):
    """True or false, in letters of any case."""

    @property
    def allowed(self) -> str:
        """Both values."""
        return "true or false"

    def read(self, text: str) -> bool:
        """Return True for `true`."""
        word = text.lower()
        if word not in {"true", "false"}:
            raise ValueError(text)
        return word == "true"

    def write(self, value: bool) -> str:
        """The word in small letters."""
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Choice(ValueKind[T]):
    """One of a few names, each with a value of its own."""

    values: Mapping[str, T]

    @property
    def allowed(self) -> str:
        """All names."""
        return f"one of {', '.join(self.values)}"

    def read(self, text: str) -> T:
        """Return the value of the name."""
        if text not in self.values:
            raise ValueError(text)
        return self.values[text]

    def write(self, value: T) -> str:
        """The value's name."""
        return next(name for name, named in self.values.items() if named == value)


@dataclass(frozen=True, slots=True)
class NameSet(ValueKind[frozenset[str]]):
    """Any of a few names with commas between them; none at all is allowed, and the order means nothing."""

    names: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """All names."""
        return f"a list of {', '.join(self.names)} with commas between them, or nothing"

    def read(self, text: str) -> frozenset[str]:
        """The names in the list."""
        found = frozenset(_listed(text) if text else ())
        if not found.issubset(self.names):
            raise ValueError(text)
        return found

    def write(self, value: frozenset[str]) -> str:
        """The names in the order in which the kind has them."""
        return ",".join(name for name in self.names if name in value)


@dataclass(frozen=True, slots=True)
class Pattern(ValueKind[str]):
    """A text of a certain form, which is its own value; blanks around its commas are dropped."""

    form: re.Pattern[str]
    described: str

    @property
    def allowed(self) -> str:
        """The form in words."""
        return self.described

    def read(self, text: str) -> str:
        """The text, less the blanks."""
        normal = ",".join(_listed(text))
        if not self.form.fullmatch(normal):
            raise ValueError(text)
        return normal

    def write(self, value: str) -> str:
        """The text."""
        return value


@dataclass(frozen=True, slots=True)
class Directories(ValueKind[tuple[str, ...]]):
    """At least one directory, with commas between several."""

    @property
    def allowed(self) -> str:
        """The form in words."""
        return "the path of a directory, or several with commas between them"

    def read(self, text: str) -> tuple[str, ...]:
        """The directories in their order."""
        paths = tuple(path for path in _listed(text) if path)
        if not paths:
            raise ValueError(text)
        return paths

    def write(self, value: tuple[str, ...]) -> str:
        """The directories in their order."""
        return ",".join(value)


def _listed(text: str) -> list[str]:
    """Return the parts between commas, without the blanks around each, in time that is linear in the text's length."""
    return [part.strip() for part in text.split(",")]
