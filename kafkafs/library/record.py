"""Records as the library gives and takes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from storage.record import Record as DecodedRecord

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Record(NamedTuple):
    """One record. Use its fields by name: a later version may add some.

    `timestamp` is milliseconds since 1970, or -1 for none; `timestamp_type` 0 if the producer set it, 1 if the broker
    did when it appended the record, -1 for none. A header's name that is not UTF-8 has lone surrogates in it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def time(self) -> datetime | None:
        """The timestamp in UTC; None if there is none. Raises `OverflowError` for one after the year 9999."""
        return None if self.timestamp < 0 else _EPOCH + timedelta(milliseconds=self.timestamp)


class Row(TypedDict, total=False):
    """A record to be appended. What is left out is null, or empty, or for the timestamp the time of the call."""

    value: bytes | None
    key: bytes | None
    headers: Iterable[tuple[str, bytes | None]]
    timestamp: int | datetime


def given(topic: str, partition: int, records: Sequence[DecodedRecord]) -> Iterator[Record]:
    """Make the library's records of a batch's, one by one: the objects of all of them may take many times its bytes.

    They hold on to nothing that was read.
    """
    make = tuple.__new__  # half of what calling the class costs
    for r in records:
        yield make(Record, (topic, partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers))
