"""The blobs that members of a classic group of consumers write, which kafkafs only reads."""

from __future__ import annotations

import struct
from typing import Any

from storage.internal.definitions import table
from storage.record.kernel.message_writer import write_message


def encode_subscription(version: int, fields: dict[str, Any]) -> bytes:
    """Return the bytes of a subscription."""
    return _encode("ConsumerProtocolSubscription", version, fields)


def encode_assignment(version: int, fields: dict[str, Any]) -> bytes:
    """Return the bytes of an assignment."""
    return _encode("ConsumerProtocolAssignment", version, fields)


def _encode(name: str, version: int, fields: dict[str, Any]) -> bytes:
    definition = next(each for each in table("consumer_protocol") if each.name == name)
    return struct.pack(">h", version) + write_message(definition.schema(version), fields)
