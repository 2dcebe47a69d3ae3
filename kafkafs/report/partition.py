"""One partition of a report: its segments, what is due for it, and what is in its batches.

The sizes, times and offsets of segments come from their indexes and their first batches. What is in batches is that of
some of them, or of all. A look has no effect but its result, so a partition that changes meanwhile is looked at again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkafs.report.contents import Contents
from kafkafs.report.facts import FindingFacts, PartitionFacts, earliest, latest
from kafkafs.report.segments import Plans, Problems, SegmentLook
from storage.log_dir import DirectoryName
from storage.segment import Kind
from storage.verify import LogEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.report.facts import SegmentFacts
    from kafkafs.report.timeline import Written
    from storage.log import LogView
    from storage.store import Store, StoreCompaction, StoreRetention

RECORDS_OF_SAMPLE_MAX = 1000
SEGMENTS_MAX: Final = 10_000
"""How many segments of a partition are listed, the newest ones; its sizes, times and plans are those of all."""


@dataclass(frozen=True, slots=True)
class Found:
    """A partition's facts, and what belongs to a report besides: when its segments were written, contents, findings.

    `end` is where its batches end, if it has segments.
    """

    facts: PartitionFacts
    written: list[list[Written]]
    contents: Contents
    findings: list[FindingFacts]
    end: LogEnd | None


@dataclass(frozen=True, slots=True)
class Depth:
    """How much of a partition is read: `samples` of its batches, or with None all; and whether keys are told."""

    samples: int | None
    has_keys: bool

    def contents(self) -> Contents:
        """Return the contents before any batch was looked at."""
        return Contents(has_keys=self.has_keys, records_max=None if self.samples is None else RECORDS_OF_SAMPLE_MAX)


class PartitionReading:
    """Looks at the partitions of a store, one after another; `advance` is called for each segment."""

    def __init__(
        self,
        store: Store,
        retention: StoreRetention,
        compaction: StoreCompaction,
        depth: Depth,
        advance: Callable[[], None],
    ) -> None:
        self._store = store
        self._retention = retention
        self._compaction = compaction
        self._depth = depth
        self._advance = advance

    def look(self, topic: str, number: int) -> Found:
        """Return all that is found; raises as `Store.log` does, and `StorageError` or `OSError` if it is unreadable."""
        return self._store.log(topic, number).on_view(partial(self._look, topic, number))

    def _look(self, topic: str, number: int, view: LogView) -> Found:
        _, log_dir = self._store.topics.location(topic, number)
        problems = Problems(str(DirectoryName(topic, number)))
        plans = Plans(
            problems.guarded(lambda: self._retention.plan(topic, number, view)),
            problems.guarded(lambda: self._compaction.plan(topic, number, view)),
        )
        contents, samples = self._depth.contents(), self._depth.samples
        listed: deque[SegmentFacts] = deque(maxlen=SEGMENTS_MAX)
        times: list[int | None] = [None, None]
        written: list[list[Written]] = []
        size_bytes = records = 0
        for part in view.slices(0):
            self._advance()
            look = SegmentLook(part, view.start_offset, plans, problems)
            found = look.found(contents if samples is None else None, is_active=part.segment is view.segments[-1])
            segment = found.facts
            listed.append(segment)
            times = [earliest(times[0], segment.first_timestamp), latest(times[1], segment.last_timestamp)]
            size_bytes += segment.size_bytes
            records += found.records
            if found.written:
                written.append(found.written)
        if samples is not None:
            records = view.end_offset - view.start_offset
            _sample(view, samples, contents, problems)
        for active in view.segments[-1:]:
            active.unload()
        facts = PartitionFacts(
            topic=topic,
            partition=number,
            log_dir=str(log_dir.path),
            start_offset=view.start_offset,
            end_offset=view.end_offset,
            size_bytes=size_bytes,
            records=records,
            first_timestamp=times[0],
            last_timestamp=times[1],
            codecs=contents.codecs,
            unlisted_segments=len(view.segments) - len(listed),
            segments=tuple(listed),
            **plans.as_facts(),
        )
        end = LogEnd(view.segments[-1].base_offset, view.end_position, view.end_offset) if view.segments else None
        return Found(facts, written, contents, problems.found, end)


def _sample(view: LogView, samples: int, contents: Contents, problems: Problems) -> None:
    """Look into batches at even distances, from the newest to the oldest."""
    last, taken = view.end_offset - 1, set()
    for number in range(samples):
        offset = last - (last - view.start_offset) * number // max(samples - 1, 1)
        if offset < view.start_offset:
            return
        batch = problems.guarded(partial(view.find, offset))
        if batch is not None and batch.base_offset not in taken:
            taken.add(batch.base_offset)
            segment = view.segment_of(batch.last_offset)
            problems.guarded(partial(contents.take_checked, batch, None if segment is None else segment.path(Kind.LOG)))
