"""What is looked for in records, as a command line or a program gives it.

All that is given has to hold of a record. The kernel tests all of it but the regular expression; of that it is found
out for many records at once that none of them matches.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from storage.record import NO_PRODUCER_ID, Criteria

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.record import Batch, Record

_VALUE_BYTES_MAX: Final = 2**31
_SPECIAL: Final = re.compile(r"[\\.^$*+?{}\[\]|()]")
# What may match in a value by itself, and not among others with newlines between them: the ends of all text, looking
# around, atomic groups, possessive quantifiers, and flags that are taken away.
_LOOKS_AROUND: Final = re.compile(r"\\[AZ]|\(\?(?!:|P[<=]|[aimsux]+[:)])|[*+?}]\+")


@dataclass(frozen=True, slots=True)
class ValuePattern:
    """A regular expression for values: for their text where they are UTF-8, and for their bytes where they are not.

    `of_bytes` is the expression's own UTF-8. It is None where bytes can have no such expression, and then matches none.
    """

    of_text: re.Pattern[str]
    of_bytes: re.Pattern[bytes] | None

    @classmethod
    def of(cls, text: str, *, ignores_case: bool = False) -> Self:
        """Compile an expression, in which `^` and `$` match at lines, as grep's do; raises `re.error`."""
        flags = re.MULTILINE | (re.IGNORECASE if ignores_case else 0)
        of_text, of_bytes = re.compile(text, flags), None
        with suppress(re.error, ValueError):  # such as one that names a character by its number
            of_bytes = re.compile(text.encode("utf-8", "surrogateescape"), flags)
        return cls(of_text, of_bytes)

    @property
    def fits_many_values(self) -> bool:
        """True if a match in a value is also one among others with newlines between them."""
        return _LOOKS_AROUND.search(self.of_text.pattern) is None

    @property
    def _is_literal(self) -> bool:
        """True for characters that stand for themselves. UTF-8 has them where their bytes are, and nowhere else."""
        return not self.of_text.flags & re.IGNORECASE and _SPECIAL.search(self.of_text.pattern) is None

    def matches(self, value: bytes) -> bool:
        """Return True if the expression matches in the value."""
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return self.of_bytes is not None and self.of_bytes.search(value) is not None
        return self.of_text.search(text) is not None

    def may_match(self, values: Buffer) -> bool:
        """Return False only if the expression matches in none of these values, which have newlines between them."""
        if self.of_bytes is not None and self._is_literal:
            return self.of_bytes.search(values) is not None
        try:
            return self.of_text.search(str(values, "utf-8")) is not None
        except UnicodeDecodeError:  # of some value; those that are UTF-8 are the same text among them
            text = str(values, "utf-8", "surrogateescape")
        is_in_bytes = self.of_bytes is not None and self.of_bytes.search(values) is not None
        return is_in_bytes or self.of_text.search(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The records that match: by key, header, value, producer, transaction. A key or a value of None is a null.

    `key` is in a tuple of one, which is empty if every key matches; so is `header_value`. A record with several headers
    of a name matches by any of them. A null value has fewer bytes than any other: `value_bytes_max` of -1 wants nulls.
    """

    key: tuple[bytes | None, ...] = ()
    header_name: bytes | None = None
    header_value: tuple[bytes | None, ...] = ()
    value_bytes_min: int = -1
    value_bytes_max: int = _VALUE_BYTES_MAX
    producer_id: int | None = None
    of_transactions: bool = False
    pattern: ValuePattern | None = None

    @property
    def is_of_pattern_alone(self) -> bool:
        """True if nothing but the regular expression is given, and it can be looked for in many values at once."""
        pattern = self.pattern
        return pattern is not None and self == Query(pattern=pattern) and pattern.fits_many_values

    def criteria(self, first_offset: int, end_offset: int) -> Criteria:
        """Return what the kernel tests, of the records from an offset up to another one, excluded."""
        return Criteria(
            first_offset,
            end_offset,
            key=self.key,
            header_name=self.header_name,
            header_value=self.header_value,
            value_bytes_min=self.value_bytes_min,
            value_bytes_max=self.value_bytes_max,
            producer_id=self.producer_id,
            of_transactions=self.of_transactions,
        )

    def matches_but_pattern(self, record: Record, batch: Batch) -> bool:
        """Return True if all but the regular expression holds of a record."""
        if not self.value_bytes_min <= max(record.value_size, -1) <= self.value_bytes_max:
            return False
        if self.key and record.key != self.key[0]:
            return False
        producer_id = NO_PRODUCER_ID if batch.producer_id is None else batch.producer_id
        if self.producer_id is not None and producer_id != self.producer_id:
            return False
        if self.of_transactions and not batch.is_transactional:
            return False
        return self.header_name is None or self._has_header(record)

    def matches_pattern(self, record: Record) -> bool:
        """Return True if the regular expression matches in the value, or none is given."""
        return self.pattern is None or (record.value is not None and self.pattern.matches(record.value))

    def _has_header(self, record: Record) -> bool:
        return any(
            name.encode("utf-8", "surrogateescape") == self.header_name
            and (not self.header_value or value == self.header_value[0])
            for name, value in record.headers
        )
