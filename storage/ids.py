"""Ids of topics, directories and clusters: random UUIDs, written as 22 characters of unpadded URL-safe base64."""

from __future__ import annotations

import base64
import os
import re
from typing import TYPE_CHECKING, Final
from uuid import UUID

from storage.errors import InvalidIdError

if TYPE_CHECKING:
    from collections.abc import Callable

ZERO_ID: Final = UUID(int=0)
CLUSTER_METADATA_ID: Final = UUID(int=1)
"""The id of the topic of each cluster's metadata."""

_RESERVED_BELOW: Final = 100  # these mean things such as "unassigned"; a random id has bits set above them
_TEXT: Final = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")


def format_id(value: UUID) -> str:
    """Return the id as Kafka writes it."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_id(text: str) -> UUID:
    """Return the id of a text; raises `InvalidIdError` if it is none."""
    if not _TEXT.fullmatch(text):
        raise InvalidIdError(f"{text[:100]!r} is not an id of 22 base64 characters")
    return UUID(bytes=base64.urlsafe_b64decode(f"{text[:22]}=="))


def is_reserved(value: UUID) -> bool:
    """Return True for the ids that Kafka reserves: no topic and no directory gets one."""
    return value.int < _RESERVED_BELOW


def random_id(entropy: Callable[[int], bytes] = os.urandom) -> UUID:
    """Return a new id; never a reserved one, and never with a leading `-`, which commands would take for an option."""
    while True:
        value = UUID(bytes=entropy(16), version=4)
        if not format_id(value).startswith("-"):
            return value
