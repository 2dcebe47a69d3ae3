"""The dump of a transaction index (`.txnindex`): the aborted transactions, one a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.dump.entry_dump import Entry
from kafkafs.dump.slot_dump import SlotDump
from storage.errors import CorruptIndexError, StorageError
from storage.segment.index import TRANSACTION_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES: Final = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
_VERSION: Final = 0


class TransactionIndexDump(SlotDump):
    """One transaction index's dump."""

    slot = TRANSACTION_ENTRY

    def _parts(self) -> Iterator[Entry | StorageError]:
        for _, values in self._slots():
            yield self._part(values)

    def _part(self, values: tuple[int, ...]) -> Entry | StorageError:
        if values[0] != _VERSION:
            reason = f"the entry has version {values[0]}, and only {_VERSION} is known"
            return CorruptIndexError(reason, position=self.position)
        fields = dict(zip(_NAMES, values, strict=True))
        return Entry("abortedTransaction", fields, " ".join(f"{name}: {value}" for name, value in fields.items()))
