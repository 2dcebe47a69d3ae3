from collections.abc import Sequence
from typing import TypeAlias

from typing_extensions import Buffer

from storage.record.kernel.decode import Record
from storage.record.kernel.records_data import RecordsData

# Timestamp, key, value, and headers as a list or tuple of name and value.
_Row: TypeAlias = tuple[int, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]]]

def encode_rows(
    rows: Sequence[_Row], *, max_bytes: int, start: int = 0, base_timestamp: int | None = None
) -> RecordsData: ...
def encode_records(
    records: Sequence[Record], *, base_offset: int, base_timestamp: int | None = None
) -> RecordsData: ...
