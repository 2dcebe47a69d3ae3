"""Counts the records of each key in bounded memory: exactly while there are few keys, else only the frequent ones.

Counts have a lower and an upper bound, also those of keys that are not kept. The bounds of parts add up: a key's bounds
over all records are the sums of its bounds in each part. Keys are counted as Arrow columns, never one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

KEYS_MAX: Final = 8192
KEY_BYTES_MAX: Final = 32 * 1024 * 1024
_WAITING_MAX: Final = 64 * 1024
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "key": pa.binary(),
    "records": pa.int64(),
    "data_bytes": pa.int64(),
    "over": pa.int64(),
}
COUNTED_KEYS: Final = pa.schema(_TYPES)
"""The columns of counted keys. A key, null for records without one, occurs in `records` records or in up to `over`
more; `data_bytes` are those of the keys and values of the counted records."""


class HotKeys:
    """Counts keys, and keeps up to `keys_max` of them with up to `bytes_max` bytes.

    When there are more, the rarest half is dropped. A key that is not kept occurs in up to `floor` records: 0 while all
    are kept, and never more than all records divided by half of `keys_max`, unless keys are very long.
    """

    def __init__(self, keys_max: int = KEYS_MAX, bytes_max: int = KEY_BYTES_MAX) -> None:
        self.floor = 0
        self._keys_max = keys_max
        self._bytes_max = bytes_max
        self._kept = COUNTED_KEYS.empty_table()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_records = self._waiting_bytes = 0

    def add(self, keys: pa.Array[Any], data_bytes: pa.Array[Any]) -> None:
        """Count records with these keys, each with so many bytes of key and value."""
        ones = pa.array(np.ones(len(keys), np.int64))
        overs = pa.array(np.full(len(keys), self.floor, np.int64))
        self._waiting.append(pa.RecordBatch.from_arrays([keys, ones, data_bytes, overs], schema=COUNTED_KEYS))
        self._waiting_records += len(keys)
        self._waiting_bytes += keys.nbytes
        if self._waiting_records > _WAITING_MAX or self._waiting_bytes > self._bytes_max:
            self._merge()

    def counted(self) -> pa.Table:
        """Return the keys that are kept, in no order; `floor` is right afterwards."""
        self._merge()
        return self._kept

    def _merge(self) -> None:
        """Add the waiting records to the keys that are kept."""
        if not self._waiting:
            return
        both = pa.concat_tables([self._kept, pa.Table.from_batches(self._waiting)])
        self._waiting, self._waiting_records, self._waiting_bytes = [], 0, 0
        # A key that was kept has been missed by less than one that comes now may have been.
        by_key = both.group_by("key", use_threads=False)
        summed = by_key.aggregate([("records", "sum"), ("data_bytes", "sum"), ("over", "min")])
        self._kept = summed.select(["key", "records_sum", "data_bytes_sum", "over_min"]).rename_columns(
            COUNTED_KEYS.names
        )
        self._prune()

    def _prune(self) -> None:
        """Drop the rarest keys, and all that may be as rare, if there are too many."""
        kept = self._kept
        key_bytes = _numbers(pc.binary_length(kept.column("key")).fill_null(0))
        if kept.num_rows <= self._keys_max and int(key_bytes.sum()) <= self._bytes_max:
            return
        most = _numbers(pc.add(kept.column("records"), kept.column("over")))
        order = np.argsort(-most, kind="stable")
        fitting = int(np.searchsorted(np.cumsum(key_bytes[order]), self._bytes_max // 2, side="right"))
        self.floor = int(most[order[min(fitting, self._keys_max // 2)]])
        self._kept = kept.filter(pa.array(most > self.floor)).combine_chunks()


def _numbers(column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    return np.asarray(column.cast(pa.int64()))
