from collections.abc import Callable
from typing import overload

from storage.record.kernel.decode import Record
from storage.record.kernel.pinned_buffer import LeasedBuffer

@overload
def record_line(
    record: Record, timestamp_type: int, integrity: bytes | None, with_data: bool, lease: None = None
) -> bytes: ...
@overload
def record_line(
    record: Record,
    timestamp_type: int,
    integrity: bytes | None,
    with_data: bool,
    lease: Callable[[int], object],
) -> bytes | LeasedBuffer: ...
