"""The keys of control records, and the values of the two that end transactions."""

from __future__ import annotations

import struct

from storage.errors import MalformedRecordsError

ABORT, COMMIT = 0, 1
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(2, 7)

CONTROL_KEY = struct.Struct(">hh")
END_TRANSACTION = struct.Struct(">hi")


def encode_control_key(control_type: int, *, version: int = 0) -> bytes:
    """Return the key of a control record."""
    return CONTROL_KEY.pack(version, control_type)


def decode_control_key(key: bytes | None) -> tuple[int, int]:
    """Return the version and the type; the caller must skip types that it does not know."""
    version, control_type = _unpacked(CONTROL_KEY, key)
    return version, control_type


def encode_end_transaction(coordinator_epoch: int, *, version: int = 0) -> bytes:
    """Return the value of an ABORT or COMMIT record."""
    return END_TRANSACTION.pack(version, coordinator_epoch)


def decode_end_transaction(value: bytes | None) -> tuple[int, int]:
    """Return the version and the coordinator's epoch."""
    version, coordinator_epoch = _unpacked(END_TRANSACTION, value)
    return version, coordinator_epoch


def _unpacked(layout: struct.Struct, data: bytes | None) -> tuple[int, int]:
    # Later versions may be longer, and are read as far as this one goes.
    if data is None or len(data) < layout.size:
        raise MalformedRecordsError(f"a control record's field is shorter than {layout.size} bytes")
    version, number = layout.unpack_from(data)
    if version < 0:
        raise MalformedRecordsError(f"a control record's field has version {version}")
    return version, number
