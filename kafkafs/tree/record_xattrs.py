"""A record's extended attributes, as far as they fit: `user.kafka.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.record import NO_TIMESTAMP, TimestampType
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.tree.visible_log import Found

_PREFIX: Final = "user.kafka."
# Limits of Linux: of a name, of a value, and of all names with a NUL after each.
_NAME_BYTES_MAX: Final = 255
_VALUE_BYTES_MAX: Final = 64 * 1024
_LIST_BYTES_MAX: Final = 64 * 1024
HEADERS_MAX: Final = 10_000


def record_xattrs(found: Found) -> dict[str, bytes]:
    """Return the attributes of a record, without those that are null, missing or too large.

    Of headers with the same name the last one counts. More headers than `HEADERS_MAX` are none of them listed.
    """
    xattrs = {}
    left_bytes = _LIST_BYTES_MAX
    for name, value in _facts(found):
        name_bytes = len(name.encode("utf-8", "surrogateescape"))
        if name_bytes > _NAME_BYTES_MAX or len(value) > _VALUE_BYTES_MAX or "\0" in name:
            continue
        left_bytes -= name_bytes + 1
        if left_bytes < 0:
            break
        xattrs[name] = value
    return xattrs


def _facts(found: Found) -> Iterator[tuple[str, bytes]]:
    record, batch, segment, _ = found
    if record.value_size < 0:
        yield f"{_PREFIX}null", b"1"
    if (key := record.key) is not None:
        yield f"{_PREFIX}key", key
    if record.timestamp != NO_TIMESTAMP:
        yield f"{_PREFIX}timestamp", b"%d" % record.timestamp
    yield f"{_PREFIX}timestamp_type", TimestampType(record.timestamp_type).label.encode()
    yield f"{_PREFIX}codec", batch.codec.label.encode()
    if batch.producer_id >= 0:
        yield f"{_PREFIX}producer_id", b"%d" % batch.producer_id
    yield f"{_PREFIX}segment", segment.name(Kind.LOG).encode()
    yield f"{_PREFIX}position", b"%d" % batch.position
    if record.header_count > HEADERS_MAX:
        return
    for name, value in dict(record.headers).items():
        if value is not None:
            yield f"{_PREFIX}header.{name}", value
