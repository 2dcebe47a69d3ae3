"""What a report knows of a store: plain values, from which the page and the rows of JSON are made.

Timestamps are milliseconds since 1970, None where no record has one. Where a report `is_full` every batch was read;
otherwise codecs, gains and keys are those of some batches, and `records` are the offsets between two places.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkafs.report.timeline import Bucket


class Next(StrEnum):
    """What becomes of a segment next."""

    DELETED = "deleted"  # retention deletes it at its next run
    COMPACTED = "compacted"  # compaction is due, and rewrites it
    DIRTY = "dirty"  # compaction rewrites it, once that is due
    KEPT = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """A segment. `codec` is that of its first batch; retention by time deletes it at `expires_ms`."""

    base_offset: int
    end_offset: int
    size_bytes: int
    first_timestamp: int | None
    last_timestamp: int | None
    codec: str | None
    is_active: bool
    next: Next
    expires_ms: int | None
    reason: str
    damage: str | None


@dataclass(slots=True, kw_only=True)
class CodecFacts:
    """The batches of one codec that were looked at: how many, what they take, and what their records take plain.

    `stored_bytes` and `plain_bytes` are of the batches that were decompressed.
    """

    batches: int = 0
    size_bytes: int = 0
    stored_bytes: int = 0
    plain_bytes: int = 0

    def add(self, other: CodecFacts) -> None:
        """Add what was found elsewhere."""
        self.batches += other.batches
        self.size_bytes += other.size_bytes
        self.stored_bytes += other.stored_bytes
        self.plain_bytes += other.plain_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition. With an `error` it could not be read, and the other fields say nothing.

    `retention` and `compaction` say in a sentence what is due, `freed_bytes` what retention deletes at its next run.
    `segments` are the newest ones of a partition that has very many, and `unlisted_segments` come before them.
    """

    topic: str
    partition: int
    log_dir: str
    error: str | None = None
    start_offset: int = 0
    end_offset: int = 0
    size_bytes: int = 0
    records: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    retention: str = ""
    freed_bytes: int = 0
    freed_segments: int = 0
    compaction: str = ""
    compaction_is_due: bool = False
    dirty_bytes: int = 0
    codecs: Mapping[str, CodecFacts] = field(default_factory=dict)
    unlisted_segments: int = 0
    segments: tuple[SegmentFacts, ...] = ()

    @property
    def name(self) -> str:
        """The name of its directory."""
        return f"{self.topic}-{self.partition}"

    @property
    def segment_count(self) -> int:
        """How many segments it has."""
        return self.unlisted_segments + len(self.segments)


@dataclass(slots=True, kw_only=True)
class TopicFacts:
    """The partitions of a topic together. `day_bytes` and `day_records` were written in the newest day of the store."""

    topic: str
    partitions: int = 0
    failures: int = 0
    size_bytes: int = 0
    records: int = 0
    segments: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    day_bytes: int = 0
    day_records: int = 0
    freed_bytes: int = 0
    freed_segments: int = 0
    compactions_due: int = 0
    dirty_bytes: int = 0
    codecs: dict[str, CodecFacts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFacts:
    """A log directory: what its logs take, and what its file system has left."""

    path: str
    partitions: int
    size_bytes: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFacts:
    """A key: it is that of `records` records which were looked at, or of up to `over` more."""

    topic: str
    key: bytes | None
    records: int
    over: int
    looked_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A partition that a group reads, or a group or a member without any."""

    group: str
    state: str
    kind: str
    topic: str | None
    partition: int | None
    committed_offset: int | None
    end_offset: int | None
    lag: int | None
    age_seconds: int | None
    client_id: str | None
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """An open transaction. `holds_up` are the partitions whose readers of committed records wait for it."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    state: str | None
    age_seconds: int | None
    timeout_ms: int | None
    partitions: tuple[str, ...]
    holds_up: tuple[str, ...]
    next_steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingFacts:
    """Something that is wrong, where, what a broker that starts does about it if that is known, and the next step."""

    severity: str
    kind: str
    path: str
    position: int | None
    offset: int | None
    reason: str
    at_start: str | None
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A store as it was at `made_ms`.

    `newest_ms` is the newest credible timestamp; `growth` are the buckets of all times, `day` those of the last day
    before it. `doubtful_segments` have timestamps that cannot be right, and are in neither. `shortcomings` say what is
    missing, a sentence each.
    """

    store: str
    made_ms: int
    version: str
    is_full: bool
    has_keys: bool
    log_dirs: tuple[LogDirFacts, ...]
    partitions: tuple[PartitionFacts, ...]
    topics: tuple[TopicFacts, ...]
    newest_ms: int | None
    growth: tuple[Bucket, ...]
    day: tuple[Bucket, ...]
    doubtful_segments: int
    sampled_batches: int
    keys: tuple[KeyFacts, ...]
    has_groups: bool
    groups: tuple[GroupFacts, ...]
    transactions: tuple[TransactionFacts, ...]
    findings: tuple[FindingFacts, ...]
    shortcomings: tuple[str, ...]

    @property
    def size_bytes(self) -> int:
        """What all logs take."""
        return sum(each.size_bytes for each in self.partitions)

    @property
    def records(self) -> int:
        """The records of all logs, or their offsets."""
        return sum(each.records for each in self.partitions)

    @property
    def day_bytes(self) -> int:
        """What was written in the newest day."""
        return sum(each.size_bytes for each in self.day)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All of it as rows, each with its `row`."""
        yield {
            "row": "store",
            "store": self.store,
            "made_timestamp": self.made_ms,
            "version": self.version,
            "is_full": self.is_full,
            "size_bytes": self.size_bytes,
            "records": self.records,
            "newest_timestamp": self.newest_ms,
            "doubtful_segments": self.doubtful_segments,
            "sampled_batches": None if self.is_full else self.sampled_batches,
            "shortcomings": self.shortcomings,
        }
        for name, values in (
            ("logDir", self.log_dirs),
            ("topic", self.topics),
            ("partition", self.partitions),
            ("group", self.groups),
            ("transaction", self.transactions),
            ("finding", self.findings),
        ):
            yield from ({"row": name, **asdict(value)} for value in values)
        for name, buckets in (("growth", self.growth), ("day", self.day)):
            yield from ({"row": name, **bucket._asdict()} for bucket in buckets)
        for key in self.keys:
            yield {"row": "key", **_key_row(key)}


def _key_row(facts: KeyFacts) -> dict[str, Any]:
    """Return a key's row; bytes that are not UTF-8 are base64, as in the envelope of records."""
    row = {"topic": facts.topic, "records": facts.records, "over": facts.over, "looked_at": facts.looked_at}
    if facts.key is None:
        return {"key": None, **row}
    try:
        return {"key": facts.key.decode(), **row}
    except UnicodeDecodeError:
        return {"key_base64": b64encode(facts.key).decode(), **row}


def earliest(*times: int | None) -> int | None:
    """Return the earliest of the times that there are."""
    return min((each for each in times if each is not None), default=None)


def latest(*times: int | None) -> int | None:
    """Return the latest of the times that there are."""
    return max((each for each in times if each is not None), default=None)


def topics_of(partitions: tuple[PartitionFacts, ...], of_day: Mapping[str, tuple[int, int]]) -> tuple[TopicFacts, ...]:
    """Add partitions up by topic; they are in the order of their topics. `of_day` are bytes and records."""
    found = []
    for topic, members in groupby(partitions, key=attrgetter("topic")):
        facts = TopicFacts(topic=topic)
        facts.day_bytes, facts.day_records = of_day.get(topic, (0, 0))
        for each in members:
            _add(facts, each)
        found.append(facts)
    return tuple(found)


def _add(facts: TopicFacts, partition: PartitionFacts) -> None:
    facts.partitions += 1
    facts.failures += partition.error is not None
    facts.size_bytes += partition.size_bytes
    facts.records += partition.records
    facts.segments += partition.segment_count
    facts.first_timestamp = earliest(facts.first_timestamp, partition.first_timestamp)
    facts.last_timestamp = latest(facts.last_timestamp, partition.last_timestamp)
    facts.freed_bytes += partition.freed_bytes
    facts.freed_segments += partition.freed_segments
    facts.compactions_due += partition.compaction_is_due
    facts.dirty_bytes += partition.dirty_bytes
    add_codecs(facts.codecs, partition.codecs)


def add_codecs(all_of: dict[str, CodecFacts], some: Mapping[str, CodecFacts]) -> None:
    """Add the batches of each codec."""
    for codec, facts in some.items():
        all_of.setdefault(codec, CodecFacts()).add(facts)
