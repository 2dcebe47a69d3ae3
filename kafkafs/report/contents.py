"""What is in batches: their codecs, what they take compressed and plain, and whose keys their records have."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkafs.report.facts import CodecFacts
from kafkafs.report.keys import KeyCounts
from storage.errors import CorruptBatchError, FramingError
from storage.record import BATCH_HEADER_BYTES, RecordBatch, RecordIterator

if TYPE_CHECKING:
    from collections.abc import Iterable

    from storage.record import Batch, Record

_UNKNOWN_CODEC: Final = "unknown"
_COUNTED_AT_ONCE: Final = 65_536
_key: Final = attrgetter("key")


class Contents:
    """What was found in the batches that it took; of each up to `records_max` records are looked at for their keys."""

    def __init__(self, *, has_keys: bool, records_max: int | None = None) -> None:
        self.batches = 0
        self.codecs: dict[str, CodecFacts] = {}
        self.keys = KeyCounts()
        self._has_keys = has_keys
        self._records_max = records_max

    def take(self, batch: Batch) -> None:
        """Look into a batch; raises a `CorruptBatchError` if it does not decode, after its header was counted."""
        self.batches += 1
        facts = self.codecs.setdefault(codec_label(batch), CodecFacts())
        facts.batches += 1
        facts.size_bytes += batch.size_bytes
        if not isinstance(batch, RecordBatch):
            if self._has_keys:
                self._count(batch.records())
            return
        data = batch.records_data()
        facts.stored_bytes += batch.size_bytes - BATCH_HEADER_BYTES
        facts.plain_bytes += memoryview(data).nbytes
        if self._has_keys and not batch.is_control:
            self._count(RecordIterator(batch, data))

    def take_checked(self, batch: Batch, path: str | None) -> Batch:
        """Check the checksum of a batch, look into it and return it; errors tell the path of its log."""
        try:
            batch.check_crc()
            self.take(batch)
        except CorruptBatchError as error:
            raise error.located(path=path) from None
        return batch

    def _count(self, records: Iterable[Record]) -> None:
        keys = map(_key, islice(records, self._records_max))
        # Counter counts in C, a bounded number of keys at a time.
        while counted := Counter(islice(keys, _COUNTED_AT_ONCE)):
            for key, number in counted.items():
                self.keys.add(key, number)


def codec_label(batch: Batch) -> str:
    """Return the name of a batch's codec; `unknown` for what is no codec's number."""
    try:
        return batch.codec.label
    except FramingError:
        return _UNKNOWN_CODEC
