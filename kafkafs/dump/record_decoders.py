"""The decoders of internal topics, and which one a file needs by its name."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from kafkafs.dump.coordinator_decoders import (
    TransactionDecoder,
    offsets_decoder,
    shares_decoder,
    transactions_decoder,
)
from kafkafs.dump.typed_decoders import MetadataDecoder, RemoteLogDecoder
from storage.internal import metadata, offsets, remote_logs, shares, transactions

if TYPE_CHECKING:
    from kafkafs.dump.decoded import RecordDecoder
    from storage.internal import Release

_PARTITION: Final = re.compile(r"(__[a-z_]+)-\d+(\..*)?", re.ASCII)
_SNAPSHOT_SUFFIX: Final = ".checkpoint"


class InternalTopic(Enum):
    """The topics that have a decoder, by their names."""

    OFFSETS = offsets.TOPIC
    TRANSACTIONS = transactions.TOPIC
    METADATA = metadata.TOPIC
    SHARES = shares.TOPIC
    REMOTE_LOGS = remote_logs.TOPIC


def decoder_of(topic: InternalTopic, release: Release = "3.9") -> RecordDecoder:
    """Return the decoder that the release's tool has for the topic; for share groups' state, always that of 4."""
    match topic:
        case InternalTopic.OFFSETS:
            return offsets_decoder(release)
        case InternalTopic.TRANSACTIONS:
            return TransactionDecoder() if release == "3.9" else transactions_decoder()
        case InternalTopic.METADATA:
            return MetadataDecoder(release)
        case InternalTopic.SHARES:
            return shares_decoder()
        case InternalTopic.REMOTE_LOGS:
            return RemoteLogDecoder(release)


def newest_decoder_of(topic: InternalTopic) -> RecordDecoder:
    """Return a decoder that uses that of 3.9's tool for the records that it knows, and that of 4's for newer ones."""
    match topic:
        case InternalTopic.OFFSETS:
            return offsets_decoder("3.9", offsets_decoder("4"))
        case InternalTopic.METADATA:
            return MetadataDecoder("3.9", is_newer_shown=True)
        case _:
            return decoder_of(topic)


def topic_of(path: str) -> InternalTopic | None:
    """Return the internal topic of a log, by its directory's name, or of a metadata snapshot."""
    file = PurePath(path)
    if file.suffix == _SNAPSHOT_SUFFIX:
        return InternalTopic.METADATA
    directory = _PARTITION.fullmatch(file.parent.name)
    if directory is None or directory[1] not in _NAMES:
        return None
    return InternalTopic(directory[1])


_NAMES: Final = frozenset(topic.value for topic in InternalTopic)
