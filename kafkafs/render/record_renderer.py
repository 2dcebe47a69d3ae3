"""A record, or a run of records, in the form that the suffix of its name asks for.

A run has each record's form after the other. So that they can be told apart there, a value and a key have a newline
after them, and a null is an empty line; the header lines of each record have an empty line after them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkafs.locator.formats import Format
from kafkafs.render.chunks import chunks
from kafkafs.render.envelope import Envelope
from kafkafs.render.header_lines import header_lines
from kafkafs.render.hex_dump import hex_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from storage.record import Record

_ENDS: Final = {Format.VALUE: b"\n", Format.KEY: b"\n", Format.HEADERS: b"\n"}


class RecordRenderer:
    """The records of one partition, in one form; `BATCH`, which is made of no records, is not among them."""

    def __init__(self, form: Format, topic: str, partition: int) -> None:
        self.envelope = Envelope(topic, partition)
        self._end = _ENDS.get(form, b"")
        self._piece = _piece_of(form, self.envelope)

    def one(self, record: Record) -> bytes:
        """A record by itself, without what its file says of the batch; a null value or key is no bytes."""
        return self._piece(record) or b""

    def run(self, records: Iterable[Record]) -> Iterator[bytes]:
        """The records one after another, in chunks; at most a chunk and a record are held."""
        return chunks(map(self._piece, records), end=self._end)


def _piece_of(form: Format, envelope: Envelope) -> Callable[[Record], bytes | None]:
    match form:
        case Format.VALUE:
            return attrgetter("value")
        case Format.KEY:
            return attrgetter("key")
        case Format.HEADERS:
            return header_lines
        case Format.JSON:
            return envelope.indented
        case Format.JSONL:
            return envelope.line
        case Format.HEX:
            return lambda record: hex_dump(record.value)
        case Format.BATCH:
            raise ValueError("the raw bytes of batches are not made of records")
