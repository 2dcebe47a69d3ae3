"""The sections of the page on sizes, on contents, and on what becomes of the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.report.facts import CodecFacts, add_codecs
from kafkafs.report.page.markup import NOTHING, Markup, element, joined
from kafkafs.report.page.tables import Cell, folded, table
from kafkafs.report.page.words import (
    NONE,
    bytes_text,
    counted,
    gain_text,
    key_text,
    number_text,
    rate_text,
    share_text,
    time_text,
)
from kafkafs.report.timeline import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkafs.report.facts import PartitionFacts, Report, TopicFacts

SAMPLED: Final = element("span", "sampled", class_="tag")
_PARTITIONS_MAX: Final = 12_000
_OPEN_MAX: Final = 100


def sizes(report: Report) -> Markup:
    """Show log directories and topics by their size."""
    dirs = (
        (
            Cell("name", each.path),
            number_text(each.partitions),
            bytes_text(each.size_bytes),
            bytes_text(each.free_bytes),
        )
        for each in report.log_dirs
    )
    topics = sorted(report.topics, key=lambda each: (-each.size_bytes, each.topic))
    whole = report.size_bytes
    what = "Records" if report.is_full else "Offsets"
    columns = (
        "Topic",
        "Share",
        "Size",
        "Partitions",
        "Segments",
        what,
        "In the newest day",
        f"{what}/s in it",
        "From (UTC)",
        "To (UTC)",
    )
    return joined(
        [
            table("Log directories", ("Log directory", "Partitions", "Logs", "Free"), dirs, numbers_from=2),
            table(
                "Topics, the largest first; the newest day is the 24 hours before the newest record of the store",
                columns,
                (_topic(each, whole) for each in topics),
                numbers_from=3,
                count=len(topics),
            )
            if topics
            else element("p", "There are no topics."),
        ]
    )


def _topic(topic: TopicFacts, whole: int) -> tuple[object, ...]:
    part = 100 * topic.size_bytes / whole if whole else 0
    bar = element("span", element("i", style=f"width:{part:.0f}%"), class_="bar", aria_hidden="true")
    failed = f" ({counted(topic.failures, 'partition')} unread)" if topic.failures else ""
    return (
        Cell("name", f"{topic.topic}{failed}"),
        joined([share_text(topic.size_bytes, whole), bar]),
        bytes_text(topic.size_bytes),
        number_text(topic.partitions),
        number_text(topic.segments),
        number_text(topic.records),
        bytes_text(topic.day_bytes),
        rate_text(topic.day_records, DAY_MS),
        time_text(topic.first_timestamp),
        time_text(topic.last_timestamp),
    )


def codecs(report: Report) -> Markup:
    """Show which codecs the batches have, and what they save."""
    everywhere: dict[str, CodecFacts] = {}
    for topic in report.topics:
        add_codecs(everywhere, topic.codecs)
    if not everywhere:
        return element("p", "There are no batches.")
    rows = [("all topics", *row) for row in _codec_rows(everywhere)]
    for topic in sorted(report.topics, key=lambda each: (-each.size_bytes, each.topic)):
        rows += [(Cell("name", topic.topic), *row) for row in _codec_rows(topic.codecs)]
    columns = ("Topic", "Codec", "Batches", "Bytes", "Share of bytes", "Plain to stored")
    looked_at = (
        "Every batch was read."
        if report.is_full
        else f"{counted(report.sampled_batches, 'batch', 'batches')} were looked into, evenly over each log."
    )
    return joined(
        [
            element("p", NOTHING if report.is_full else SAMPLED, " ", looked_at),
            table(
                "Codecs by topic, and what they save of the plain records",
                columns,
                rows,
                numbers_from=3,
                count=len(rows),
            ),
        ]
    )


def _codec_rows(found: Mapping[str, CodecFacts]) -> Iterator[tuple[object, ...]]:
    whole = sum(facts.size_bytes for facts in found.values())
    for codec, facts in sorted(found.items(), key=lambda item: -item[1].size_bytes):
        gain = NONE if codec == "none" else gain_text(facts.stored_bytes, facts.plain_bytes)
        yield (
            codec,
            number_text(facts.batches),
            bytes_text(facts.size_bytes),
            share_text(facts.size_bytes, whole),
            gain,
        )


def keys(report: Report) -> Markup:
    """Show the keys that most records have."""
    if not report.has_keys:
        return element("p", "Keys were left out of this page.")
    if not report.keys:
        return element("p", "No key was met twice.")
    rows = [
        (
            Cell("name", each.topic),
            Cell("name", key_text(each.key)),
            number_text(each.records) + (f" to {each.records + each.over:,}" if each.over else ""),
            share_text(each.records, each.looked_at),
            number_text(each.looked_at),
        )
        for each in report.keys
    ]
    columns = ("Topic", "Key", "Records", "Share", "Of records looked at")
    note = "" if report.is_full else "The keys of the records in the batches that were looked into."
    return joined(
        [
            element("p", NOTHING if report.is_full else SAMPLED, " ", note) if note else NOTHING,
            table("Keys that most records of a topic have", columns, rows, numbers_from=3, count=len(rows)),
        ]
    )


def what_is_next(report: Report) -> Markup:
    """Show what retention and compaction do next, and where nothing is known of it."""
    due = [each for each in report.partitions if each.freed_segments or each.compaction_is_due]
    due.sort(key=lambda each: (-each.freed_bytes, -each.dirty_bytes))
    unknown = [each for each in report.partitions if not each.error and "settings are unknown" in each.retention]
    parts = [element("p", "Nothing is due.")]
    if due:
        rows = (
            (
                Cell("name", each.name),
                Cell("words", _due(each)),
                bytes_text(each.freed_bytes),
                bytes_text(each.dirty_bytes),
            )
            for each in due
        )
        columns = ("Partition", "What is due", "Freed by retention", "Dirty")
        parts = [
            table(
                "Partitions with something due at the broker's next check",
                columns,
                rows,
                numbers_from=3,
                count=len(due),
            )
        ]
    if unknown:
        whys = ((Cell("name", each.name), Cell("words", each.retention)) for each in unknown)
        made = table("Partitions whose settings are unknown", ("Partition", "Why"), whys, count=len(unknown))
        parts.append(folded(f"{counted(len(unknown), 'partition')} with unknown settings", made))
    return joined(parts)


def _due(partition: PartitionFacts) -> str:
    said = [partition.retention] if partition.freed_segments else []
    return "; ".join([*said, *([partition.compaction] if partition.compaction_is_due else [])])


def partitions(report: Report) -> Markup:
    """List every partition."""
    if not report.partitions:
        return element("p", "There are no partitions.")
    several = len(report.log_dirs) > 1
    numbers = {each.path: number for number, each in enumerate(report.log_dirs, start=1)}
    what = "Records" if report.is_full else "Offsets"
    columns = [
        "Partition",
        *(["Dir"] if several else []),
        "Size",
        "Segments",
        "Start",
        "End",
        what,
        "From (UTC)",
        "To (UTC)",
    ]
    rows = (_partition(each, numbers if several else None) for each in report.partitions)
    count = len(report.partitions)
    made = table(
        "All partitions" + ("; Dir is the number of the log directory in the first table" if several else ""),
        columns,
        rows,
        numbers_from=2,
        rows_max=_PARTITIONS_MAX,
        count=count,
    )
    return made if count <= _OPEN_MAX else folded(f"All {count:,} partitions", made)


def _partition(partition: PartitionFacts, numbers: Mapping[str, int] | None) -> tuple[object, ...]:
    where = [] if numbers is None else [numbers.get(partition.log_dir, NONE)]
    if partition.error is not None:
        return (Cell("name", partition.name), *where, "unread", *[NONE] * 6)
    return (
        partition.name,
        *where,
        bytes_text(partition.size_bytes),
        partition.segment_count,
        partition.start_offset,
        partition.end_offset,
        partition.records,
        time_text(partition.first_timestamp),
        time_text(partition.last_timestamp),
    )
