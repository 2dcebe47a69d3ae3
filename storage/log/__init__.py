"""One partition's log: written, followed or recovered; its views, its producers and its leader epochs."""

from storage.log.aborted_batches import AbortedBatches
from storage.log.appending import Appended
from storage.log.awake_logs import DESCRIPTORS_A_LOG, AwakeLogs
from storage.log.epochs import EPOCHS_NAME, LeaderEpochs, may_begin_at
from storage.log.followed_log import FollowedLog
from storage.log.listed_names import is_of_log
from storage.log.log import Log
from storage.log.partition_metadata import PARTITION_METADATA_NAME, read_topic_id
from storage.log.past_damage import batches_past_damage
from storage.log.prefix import LogPrefix, PrefixSegment
from storage.log.producers.snapshot import snapshot_entries
from storage.log.producers.state import AppendOrigin, ProducerState, marker_of
from storage.log.readable_log import ReadableLog
from storage.log.recover.recovery import recover_log
from storage.log.recover.report import Step
from storage.log.statistics import LogStatistics, counted_ranges, log_statistics
from storage.log.transaction_ends import TransactionEnd, transaction_end
from storage.log.view import Isolation, LogView, SegmentSlice

__all__ = [
    "DESCRIPTORS_A_LOG",
    "EPOCHS_NAME",
    "PARTITION_METADATA_NAME",
    "AbortedBatches",
    "AppendOrigin",
    "Appended",
    "AwakeLogs",
    "FollowedLog",
    "Isolation",
    "LeaderEpochs",
    "Log",
    "LogPrefix",
    "LogStatistics",
    "LogView",
    "PrefixSegment",
    "ProducerState",
    "ReadableLog",
    "SegmentSlice",
    "Step",
    "TransactionEnd",
    "batches_past_damage",
    "counted_ranges",
    "is_of_log",
    "log_statistics",
    "marker_of",
    "may_begin_at",
    "read_topic_id",
    "recover_log",
    "snapshot_entries",
    "transaction_end",
]
