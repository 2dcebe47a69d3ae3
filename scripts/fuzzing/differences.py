"""Where the package and the oracle differ on purpose, each with its reason. Any other difference is a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzzing.corpus import ATTRIBUTES_AT, HEADER_BYTES, MAGIC_AT
from fuzzing.findings import Finding
from storage.errors import StorageError
from storage.testing.codec import CODEC_MASK, GZIP, NONE, batch_spans, compress, decompress, resealed

if TYPE_CHECKING:
    from collections.abc import Callable

KEY_SIZE_AT = {0: 18, 1: 26}
SIZE_BYTES = 4


def only_oracle_refuses(unit: bytes, error: StorageError) -> str:
    """Return why the package reads what the oracle refuses, or raise `Finding` if there is no reason for it."""
    for reason, holds in READ_BY_PACKAGE.items():
        if holds(unit, error):
            return reason
    raise Finding("only the oracle refuses a batch", error)


def only_package_refuses(unit: bytes, error: StorageError) -> str:
    """Return why the package refuses what the oracle reads, or raise `Finding` if there is no reason for it."""
    for reason, holds in READ_BY_ORACLE.items():
        if holds(unit):
            return reason
    raise Finding("only the package refuses a batch", error)


def with_inner_checksums(unit: bytes) -> bytes:
    """Return a wrapper whose entries have right checksums: the package gives them with wrong ones, and says so."""
    records_data = _inner_section(unit)
    if not records_data:
        return unit
    parts, end = [], 0
    try:
        for start, end in batch_spans(records_data):
            parts.append(resealed(records_data[start:end]))
    except StorageError:
        pass  # what cannot be framed stays as it is
    right = b"".join((*parts, records_data[end:]))
    if right == records_data:
        return unit
    value = compress(_codec(unit), right, magic=unit[MAGIC_AT])
    return resealed(unit[: _stored_at(unit) - SIZE_BYTES] + len(value).to_bytes(SIZE_BYTES, "big") + value)


def _codec(unit: bytes) -> int:
    return unit[ATTRIBUTES_AT[unit[MAGIC_AT]]] & CODEC_MASK


def _stored_at(unit: bytes) -> int:
    """Where the section of a batch or the value of an entry begins, by the lengths before it."""
    key_size_at = KEY_SIZE_AT.get(unit[MAGIC_AT])
    if key_size_at is None:
        return HEADER_BYTES
    return key_size_at + SIZE_BYTES + max(_size(unit, key_size_at), 0) + SIZE_BYTES


def _size(unit: bytes, position: int) -> int:
    return int.from_bytes(unit[position : position + SIZE_BYTES], "big", signed=True)


def _inner_section(unit: bytes) -> bytes:
    """The entries in a wrapper; nothing if there are none, or it is no wrapper."""
    if unit[MAGIC_AT] not in KEY_SIZE_AT or _codec(unit) == NONE:
        return b""
    start = _stored_at(unit)
    size = _size(unit, start - SIZE_BYTES)
    if not 0 <= size <= len(unit) - start:
        return b""
    try:
        return decompress(_codec(unit), unit[start : start + size], magic=unit[MAGIC_AT])
    except StorageError:
        return b""


def _ends_within_inner_entry(unit: bytes) -> bool:
    records_data = _inner_section(unit)
    return len(records_data) > max((end for _, end in batch_spans(records_data)), default=0)


def _has_reserved_gzip_flags(unit: bytes, error: StorageError) -> bool:
    return _codec(unit) == GZIP and "unknown header flags" in str(error.__cause__)


READ_BY_PACKAGE: dict[str, Callable[[bytes, StorageError], bool]] = {
    "as on the JVM, reserved flags in the header of a gzip member mean nothing": _has_reserved_gzip_flags,
}
READ_BY_ORACLE: dict[str, Callable[[bytes], bool]] = {
    "a wrapper that ends within an entry has lost records, which Kafka's readers pass over": _ends_within_inner_entry,
}
