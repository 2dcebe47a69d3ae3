"""What is looked for in records, as a command line or a program gives it.

All that is given has to hold of a record. The kernel tests all of it but the regular expression; of that it is found
out for many records at once that none of them matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from storage.record import NO_PRODUCER_ID, Criteria

if TYPE_CHECKING:
    from storage.record import Batch, Record

_VALUE_BYTES_MAX: Final = 2**31
# What may match in a value by itself, and not among others with newlines between them.
_LOOKS_AROUND: Final = re.compile(rb"\\[AZ]|\(\?[=!<]")


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
    pattern: re.Pattern[bytes] | None = None

    @property
    def is_of_pattern_alone(self) -> bool:
        """True if nothing but the regular expression is given, and it can be looked for in many values at once."""
        pattern = self.pattern
        return pattern is not None and self == Query(pattern=pattern) and _LOOKS_AROUND.search(pattern.pattern) is None

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
        return self.pattern is None or (record.value is not None and self.pattern.search(record.value) is not None)

    def _has_header(self, record: Record) -> bool:
        return any(
            name.encode("utf-8", "surrogateescape") == self.header_name
            and (not self.header_value or value == self.header_value[0])
            for name, value in record.headers
        )
