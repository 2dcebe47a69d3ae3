"""Decoding within the memory budget: large results are leased for as long as anything refers to them.

Decoding begins without a lease, as nearly all batches are small. One that turns out to be large, in bytes or in
records, leases memory. What is more than a share of the budget is never decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.budget import MEMORY
from storage.errors import DecompressedTooLargeError, forget_frames
from storage.record.compression import Codec, decompress
from storage.record.kernel.pinned_buffer import LeasedBuffer

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from storage.budget import Budget, Lease

UNLEASED_BYTES_MAX: Final = 2 * 1024 * 1024
"""How many bytes a result may have without a lease."""
TRIAL_BYTES_MAX: Final = 8 * 1024 * 1024
"""How many bytes are tried without a lease."""
TRIALS: Final = (UNLEASED_BYTES_MAX, TRIAL_BYTES_MAX)
"""What `begin_trial` may return."""
RECORD_BYTES: Final = 112
"""What the object of a record takes, without its data."""
PLACE_BYTES: Final = 4
"""What the place of a record takes in a `RecordSequence`."""
HEADER_BYTES: Final = 128
"""What the objects of a header take, without its value."""
_RECORD_DATA_BYTES_MIN: Final = 7  # each field of an empty record is a byte
_WAY_AROUND: Final = "segments/ and kafkafs dump show the batch"
_TRIALS: Final = [TRIAL_BYTES_MAX] * 4  # each is with one thread, or here


def begin_trial() -> int:
    """Return up to how many bytes the caller may decode without a lease, until it calls `end_trial`.

    A few threads at a time may decode `TRIAL_BYTES_MAX`, so that most large batches are decoded once.
    """
    try:
        return _TRIALS.pop()
    except IndexError:
        return UNLEASED_BYTES_MAX


def end_trial(bytes_max: int) -> None:
    """End a trial. Results above `UNLEASED_BYTES_MAX` need a lease from then on."""
    if bytes_max == TRIAL_BYTES_MAX:
        _TRIALS.append(bytes_max)


def decompress_leased(
    codec: Codec, data: Buffer, *, limit_bytes: int, magic: int = 2, budget: Budget = MEMORY
) -> Buffer:
    """Decompress the data as `decompress` does, up to a share of the budget; what is large is leased."""
    made = None
    tried_bytes = begin_trial()
    try:
        made = decompress(codec, data, limit_bytes=min(tried_bytes, limit_bytes), magic=magic)
    except DecompressedTooLargeError:
        if limit_bytes <= tried_bytes:
            raise
    finally:
        end_trial(tried_bytes)
    if made is not None:
        return made if len(made) <= UNLEASED_BYTES_MAX else LeasedBuffer(made, budget.lease(len(made)))
    share_bytes = min(limit_bytes, budget.share_bytes)
    if tried_bytes < TRIAL_BYTES_MAX < share_bytes:
        try:
            return _decompress_with_lease(codec, data, TRIAL_BYTES_MAX, magic, budget)
        except DecompressedTooLargeError:
            pass
    try:
        return _decompress_with_lease(codec, data, share_bytes, magic, budget)
    except DecompressedTooLargeError as error:
        raise DecompressedTooLargeError(f"{error.reason}; {_WAY_AROUND}") from error


def _decompress_with_lease(codec: Codec, data: Buffer, limit_bytes: int, magic: int, budget: Budget) -> Buffer:
    lease = budget.lease(limit_bytes)
    try:
        made = decompress(codec, data, limit_bytes=limit_bytes, magic=magic)
    except BaseException as error:
        forget_frames(error)  # they keep what was made so far
        lease.end()
        raise
    lease.reduce_to(len(made))
    return LeasedBuffer(made, lease)


def lease_if_large(size_bytes: int) -> Lease | None:
    """Take memory for a result of that size if that needs a lease."""
    return MEMORY.lease(size_bytes) if size_bytes > UNLEASED_BYTES_MAX else None


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
