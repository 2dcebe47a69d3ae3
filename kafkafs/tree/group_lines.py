"""The rows of groups as they are shown: by name in a command's output, and as lines with tabs in a file."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafkafs.plain_text import field
from kafkafs.tree.tab_separated import UNKNOWN
from storage.cluster import group_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from storage.cluster import GroupDescription, GroupRow
    from storage.store import InternalTopics, LogBounds

COLUMNS: Final = (
    "group",
    "topic",
    "partition",
    "committedOffset",
    "startOffset",
    "endOffset",
    "lag",
    "ageSeconds",
    "metadata",
    "memberId",
    "instanceId",
    "clientId",
    "host",
    "state",
    "kind",
    "logStartOffset",
    "outOfRange",
)


def shown_groups(
    topics: InternalTopics, groups: list[GroupDescription], now_ms: int
) -> Iterator[dict[str, str | int | None]]:
    """The rows of some groups, in their order, each with a value or None for every column."""
    known: dict[tuple[str, int], LogBounds | None] = {}

    def bounds(partition: tuple[str, int]) -> LogBounds | None:
        if partition not in known:
            known[partition] = topics.bounds(partition)
        return known[partition]

    def end_offset(partition: tuple[str, int]) -> int | None:
        found = bounds(partition)
        return None if found is None else found.end_offset

    for group in groups:
        for row in group_rows(group, end_offset):
            log = None if row.topic is None or row.partition is None else bounds((row.topic, row.partition))
            yield _shown(row, log, now_ms)


def in_a_line(value: str | int | None) -> str | int:
    """Return a value as a field that is never empty; control characters are escaped as in properties text."""
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, int):
        return value
    return _straightened(value)


@lru_cache(maxsize=64)  # a hostile member's long id is beside each of its partitions
def _straightened(text: str) -> str:
    return field(text)


def row_in_a_line(row: Mapping[str, str | int | None]) -> dict[str, str | int | None]:
    """All values of a row so."""
    return {name: in_a_line(value) for name, value in row.items()}


def _shown(row: GroupRow, log: LogBounds | None, now_ms: int) -> dict[str, str | int | None]:
    committed, member = row.committed, row.member
    is_dated = committed is not None and committed.committed_ms >= 0
    return {
        "group": row.group.group_id,
        "topic": row.topic,
        "partition": row.partition,
        "committedOffset": None if committed is None else committed.offset,
        "startOffset": row.start_offset,
        "endOffset": row.end_offset,
        "lag": row.lag,
        "ageSeconds": (now_ms - committed.committed_ms) // 1000 if committed is not None and is_dated else None,
        "metadata": None if committed is None else committed.metadata,
        "memberId": None if member is None else member.member_id,
        "instanceId": None if member is None else member.instance_id,
        "clientId": None if member is None else member.client_id,
        "host": None if member is None else member.host,
        "state": row.group.state,
        "kind": row.group.kind.value,
        "logStartOffset": None if log is None else log.start_offset,
        "outOfRange": None if log is None or committed is None else log.out_of_range(committed.offset),
    }
