"""Finds what is wrong with the bytes on disk: of a batch, a segment, its indexes, a partition, a log dir, a store."""

from storage.verify.context import LogEnd, PartitionExpectation, SegmentExpectation
from storage.verify.division import Division, PartitionPiece, VerifiedPieces, WholePartition
from storage.verify.finding import Finding, FindingKind, Severity
from storage.verify.journal import VerificationJournal
from storage.verify.log_damage import LogDamage, damaged_ranges
from storage.verify.log_dir_check import PartitionTarget
from storage.verify.partition import CutPartition, PartitionResult, SegmentPiece, verify_partition
from storage.verify.segment_result import SegmentResult
from storage.verify.verification import Verification

__all__ = [
    "CutPartition",
    "Division",
    "Finding",
    "FindingKind",
    "LogDamage",
    "LogEnd",
    "PartitionExpectation",
    "PartitionPiece",
    "PartitionResult",
    "PartitionTarget",
    "SegmentExpectation",
    "SegmentPiece",
    "SegmentResult",
    "Severity",
    "Verification",
    "VerificationJournal",
    "VerifiedPieces",
    "WholePartition",
    "damaged_ranges",
    "verify_partition",
]
