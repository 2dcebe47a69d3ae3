"""Internal topics: the records that brokers keep for themselves, read and written by Kafka's own message definitions.

One module for each kind of record, named after what it holds:

    offsets             `__consumer_offsets`: committed offsets and groups of every kind
    consumer_protocol   the blobs of a classic group's members
    transactions        `__transaction_state`
    shares              `__share_group_state`
    metadata            `__cluster_metadata` and its `.checkpoint` snapshots
    remote_logs         `__remote_log_metadata`
    control             the control records of all logs

Each has `decode`, which returns a `Message` or, for bytes that it cannot read, a `Raw` with their type and version as
far as they state them. It never raises for any bytes; its time and memory are in proportion to them. Each has `encode`
functions, which write byte for byte what Kafka writes and raise `InvalidRecordError` for what cannot be written.
Encoding a decoded message gives the same bytes, except for forms that Kafka never writes, such as varints with needless
bytes.

    >>> from storage.internal import metadata
    >>> message = metadata.decode(bytes.fromhex("010c00116d657461646174612e76657273696f6e001500"))
    >>> message.name, message.version, message.fields
    ('FeatureLevelRecord', 0, {'name': 'metadata.version', 'featureLevel': 21})
    >>> metadata.encode(12, 0, message.fields).hex()
    '010c00116d657461646174612e76657273696f6e001500'
"""

from __future__ import annotations

from storage.internal import (
    consumer_protocol,
    control,
    metadata,
    offsets,
    remote_logs,
    shares,
    transactions,
)
from storage.internal.cluster_image import RESOURCE_NAMES, TOPIC_RESOURCE, ClusterImage, Credential, RecordedSetting
from storage.internal.definitions import Definition, Release
from storage.internal.keyed_topic import KeyedRecord
from storage.internal.outcome import Message, Outcome, Raw
from storage.internal.transactions import TransactionState

__all__ = [
    "RESOURCE_NAMES",
    "TOPIC_RESOURCE",
    "ClusterImage",
    "Credential",
    "Definition",
    "KeyedRecord",
    "Message",
    "Outcome",
    "Raw",
    "RecordedSetting",
    "Release",
    "TransactionState",
    "consumer_protocol",
    "control",
    "metadata",
    "offsets",
    "remote_logs",
    "shares",
    "transactions",
]
