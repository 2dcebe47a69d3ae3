"""What it takes to render a record or a batch: memory from the budget, or an error if that is more than a share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.locator.formats import Format
from storage.budget import MEMORY
from storage.record import UNLEASED_BYTES_MAX, LeasedBuffer, check_share

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from storage.record import Batch, Record

    _Costs: TypeAlias = tuple[int, int, int, int]

# How many bytes of memory rendering takes for each byte of a record's key, value and headers, and for each header.
_COSTS: Final[Mapping[Format, _Costs]] = {
    Format.VALUE: (0, 1, 0, 0),
    Format.KEY: (1, 0, 0, 0),
    Format.HEADERS: (0, 0, 16, 256),
    Format.HEX: (0, 8, 0, 0),
}
_COST_OF_TEXT: Final[_Costs] = (16, 16, 16, 1024)  # in which a byte may become six


def rendered_within_memory(
    form: Format, render: Callable[[Record], bytes | None], record: Record
) -> bytes | LeasedBuffer:
    """Render a record with memory for what that takes; a large result is leased. A null key or value is no bytes.

    Raises `DecompressedTooLargeError` if it takes more memory than a batch is given.
    """
    of_key, of_value, of_headers, of_header = _COSTS.get(form, _COST_OF_TEXT)
    size_bytes = (
        of_key * max(record.key_size, 0)
        + of_value * max(record.value_size, 0)
        + of_headers * record.headers_size
        + of_header * record.header_count
    )
    if size_bytes > UNLEASED_BYTES_MAX:
        check_share(size_bytes, f"making {record.offset}{form.value} would")
    return _leased(lambda: render(record) or b"", size_bytes)


def stored_bytes(batch: Batch) -> bytes | LeasedBuffer:
    """Copy a batch as it is stored, with memory for that."""
    return _leased(lambda: bytes(batch.view(0, batch.size_bytes)), batch.size_bytes)


def _leased(make: Callable[[], bytes], size_bytes: int) -> bytes | LeasedBuffer:
    """Make something with so many bytes of memory, which it keeps as far as it is large."""
    if size_bytes <= UNLEASED_BYTES_MAX:
        return make()
    lease = MEMORY.lease(size_bytes)
    made = make()
    if len(made) <= UNLEASED_BYTES_MAX:
        lease.end()
        return made
    lease.reduce_to(len(made))
    return LeasedBuffer(made, lease)
