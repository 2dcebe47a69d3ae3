"""The blobs that members of a classic group of consumers exchange: their subscriptions and their assignments.

They are the `subscription` and `assignment` of a group metadata record's members where its `protocolType` is
`consumer`; other protocols have blobs of their own. A member may write a newer version than is known here, with more at
its end: it is read as the newest known one, as Kafka reads it, and `rest` has the remaining bytes.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from storage.internal.definitions import table
from storage.internal.outcome import Outcome, Raw, read

if TYPE_CHECKING:
    from storage.internal.definitions import Definition

PROTOCOL_TYPE: Final = "consumer"

_NUMBER: Final = struct.Struct(">h")


def decode_subscription(data: bytes) -> Outcome:
    """Decode a member's subscription; never raises for any bytes."""
    return _decode(_definition("ConsumerProtocolSubscription"), data)


def decode_assignment(data: bytes) -> Outcome:
    """Decode a member's assignment; never raises for any bytes."""
    return _decode(_definition("ConsumerProtocolAssignment"), data)


@cache
def _definition(name: str) -> Definition:
    return next(definition for definition in table("consumer_protocol") if definition.name == name)


def _decode(definition: Definition, data: bytes) -> Outcome:
    if len(data) < _NUMBER.size:
        return Raw(data, None, None, "the blob is shorter than its version")
    (version,) = _NUMBER.unpack_from(data)
    if version < 0:
        return Raw(data, None, version, f"{definition.name} has no version {version}")
    schema = definition.schema(min(version, definition.newest_version))
    return read(definition, schema, version, data, _NUMBER.size)
