"""Decoding within the memory budget: large results are leased for as long as anything refers to them.

Decoding begins without a lease, as nearly all batches are small. One that turns out to be large, in bytes or in
records, leases memory first. What is more than a share of the budget is never decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.budget import MEMORY, SHARES
from storage.errors import DecompressedTooLargeError
from storage.record.compression import Codec, decompress
from storage.record.kernel.pinned_buffer import LeasedBuffer

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.budget import Budget

UNLEASED_BYTES_MAX: Final = 8 * 1024 * 1024
RECORD_BYTES: Final = 112
"""What the object of a record takes, without its data."""
PLACE_BYTES: Final = 4
"""What the place of a record takes in a `RecordSequence`."""
HEADER_BYTES: Final = 128
"""What the objects of a header take, without its value."""
_COPIES: Final = 2  # codecs make parts and join them
_RECORD_DATA_BYTES_MIN: Final = 7  # each field of an empty record is a byte
_WAY_AROUND: Final = "segments/ and kafkafs dump show the batch"

assert SHARES >= _COPIES


def decompress_leased(
    codec: Codec, data: Buffer, *, limit_bytes: int, magic: int = 2, budget: Budget = MEMORY
) -> Buffer:
    """Decompress the data as `decompress` does, up to a share of the budget; what is large is leased."""
    if limit_bytes <= UNLEASED_BYTES_MAX:
        return decompress(codec, data, limit_bytes=limit_bytes, magic=magic)
    try:
        return decompress(codec, data, limit_bytes=UNLEASED_BYTES_MAX, magic=magic)
    except DecompressedTooLargeError:
        pass
    share_bytes = min(limit_bytes, budget.share_bytes)
    lease = budget.lease(share_bytes * _COPIES)
    try:
        made = decompress(codec, data, limit_bytes=share_bytes, magic=magic)
    except DecompressedTooLargeError as error:
        lease.end()
        raise DecompressedTooLargeError(f"{error.reason}; {_WAY_AROUND}") from error
    lease.reduce_to(len(made))
    return LeasedBuffer(made, lease)


def with_objects(data: Buffer, count: int, *, bytes_each: int = RECORD_BYTES, budget: Budget = MEMORY) -> Buffer:
    """Return the data of so many records, with a lease for what is made of them if they are many."""
    size_bytes = objects_bytes(data, count, bytes_each)
    if size_bytes <= UNLEASED_BYTES_MAX:
        return data
    check_share(size_bytes, f"the batch's {count} records", budget=budget)
    return LeasedBuffer(data, budget.lease(size_bytes))


def objects_bytes(data: Buffer, count: int, bytes_each: int = RECORD_BYTES) -> int:
    """Return how many bytes the objects of so many records take, or of as many as the data can hold."""
    return min(count, memoryview(data).nbytes // _RECORD_DATA_BYTES_MIN + 1) * bytes_each


def check_share(size_bytes: int, what: str, *, budget: Budget = MEMORY) -> None:
    """Raise `DecompressedTooLargeError` if so many bytes of memory are more than a share of the budget."""
    if size_bytes > budget.share_bytes:
        raise DecompressedTooLargeError(
            f"{what} take about {size_bytes} bytes of memory, and of the budget no batch is given more than "
            f"{budget.share_bytes}; {_WAY_AROUND}"
        )
