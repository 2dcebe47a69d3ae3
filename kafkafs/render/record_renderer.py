"""A record, or a run of records, in the form that the suffix of its name asks for.

A run has each record's form after the other. So that they can be told apart there, a value and a key have a newline
after them, and a null is an empty line; the header lines of each record have an empty line after them.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkafs.locator.formats import Format
from kafkafs.render.chunks import chunks
from kafkafs.render.envelope import Envelope
from kafkafs.render.header_lines import header_lines
from kafkafs.render.hex_dump import hex_dump
from kafkafs.render.record_cost import rendered_within_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from storage.record import LeasedBuffer, Record

_ENDS: Final = {Format.VALUE: b"\n", Format.KEY: b"\n", Format.HEADERS: b"\n"}
_SIZES: Final[Mapping[Format, Callable[[Record], int]]] = {
    Format.VALUE: attrgetter("value_size"),
    Format.KEY: attrgetter("key_size"),
}


class RecordRenderer:
    """The records of one partition, in one form; `BATCH`, which is made of no records, is not among them.

    A record that takes more memory than a batch is given is a `DecompressedTooLargeError`.
    """

    def __init__(self, form: Format, topic: str, partition: int) -> None:
        self.envelope = Envelope(topic, partition)
        self._form = form
        self._end = _ENDS.get(form, b"")
        self.one = partial(rendered_within_memory, form, _piece_of(form, self.envelope))
        """A record by itself, without what its file says of the batch; a null value or key is no bytes."""

    def run_bytes(self, records: Iterable[Record]) -> int | None:
        """How many bytes a run has, if that is known without making them."""
        size_of = _SIZES.get(self._form)
        return None if size_of is None else sum(max(size_of(record), 0) + len(self._end) for record in records)

    def run(self, records: Iterable[Record]) -> Iterator[bytes | LeasedBuffer]:
        """The records one after another, in chunks; at most a chunk and a record are held."""
        return chunks(map(self.one, records), end=self._end)


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
