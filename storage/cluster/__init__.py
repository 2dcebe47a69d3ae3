"""A store's cluster as its internal topics show it, followed as they grow.

    log_replay         the batches of one log, each taken once: from its start, and then as they are appended
    image_memory       what the image of a log takes of the memory budget
    followed_topics    `__consumer_offsets`, `__transaction_state`, `__share_group_state`: groups, transactional ids
    group_description  a group as Kafka's tools describe it, with its rows: committed offset, end offset, lag, member
    open_transactions  the transactions that are open, and what they hold up
    metadata_log       `__cluster_metadata`: topics, settings, brokers
    bootstrap          the records with which a cluster begins

The logs are the caller's. Damage is skipped and counted, so that later records are read; reading the metadata log ends
before damage, since a missing record may change the meaning of every later one.
"""

from __future__ import annotations

from storage.cluster.bootstrap import BOOTSTRAP_NAME, read_bootstrap, write_bootstrap
from storage.cluster.followed_topics import OffsetsLog
from storage.cluster.group_description import GroupDescription, GroupRow, Surroundings, describe_group, group_rows
from storage.cluster.metadata_log import MetadataLog, is_metadata_snapshot
from storage.cluster.open_transactions import OpenInPartition, OpenTransaction
from storage.cluster.quorum_state import QUORUM_STATE_NAME, QuorumState

__all__ = [
    "BOOTSTRAP_NAME",
    "QUORUM_STATE_NAME",
    "GroupDescription",
    "GroupRow",
    "MetadataLog",
    "OffsetsLog",
    "OpenInPartition",
    "OpenTransaction",
    "QuorumState",
    "Surroundings",
    "describe_group",
    "group_rows",
    "is_metadata_snapshot",
    "read_bootstrap",
    "write_bootstrap",
]
