"""Batches and their rendered lines, in order; compressed ones are rendered ahead, in parallel.

It begins with few, so that a reader of one batch does not wait for others.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from storage.errors import CorruptBatchError, FramingError
from storage.record import CODEC_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from typing import TypeAlias

    from kafkafs.render.batch_lines import BatchLines, Passed, Visible
    from storage.record import Batch
    from storage.segment import GappedScan, LogScan

    Outcome: TypeAlias = "Passed | CorruptBatchError"
    Group: TypeAlias = "tuple[list[Batch], Future[list[Outcome]]]"
    Told: TypeAlias = "tuple[Batch, Callable[[], Passed]]"

_THREADS_MAX: Final = 4
_THREADS: Final = min(os.cpu_count() or 1, _THREADS_MAX)
_POOL: Final = ThreadPoolExecutor(_THREADS, "batches")
_GROUP_BYTES_MAX: Final = 256 * 1024
"""How much of the log one thread takes at a time: enough to make the handover cheap."""


class Passing:
    """Renders batches as the lines that a reader sees."""

    def __init__(self, lines: BatchLines, visible: Visible, *, only_sizes: bool) -> None:
        self._lines = lines
        self._visible = visible
        self._only_sizes = only_sizes

    def of(self, scan: LogScan | GappedScan) -> Iterator[Told]:
        """Yield each batch of the scan with a function that returns its lines or raises `CorruptBatchError`.

        Uncompressed batches may be rendered together with later ones, which are yielded nevertheless.
        """
        groups: deque[Group] = deque()
        group: list[Batch] = []
        group_bytes, limit_bytes, ahead = 0, 0, 0
        framing: FramingError | None = None
        try:
            for batch in scan:
                if self._is_apart(batch):
                    yield from self._rest(groups, group, scan.end)
                    group, group_bytes = [], 0
                    yield batch, partial(self._pass, batch, scan.end)
                    continue
                group.append(batch)
                group_bytes += batch.size_bytes
                if group_bytes > limit_bytes:
                    groups.append(self._begun(group, scan.end))
                    group, group_bytes = [], 0
                    limit_bytes = min(2 * limit_bytes + batch.size_bytes, _GROUP_BYTES_MAX)
                if len(groups) > ahead:
                    yield from _told(*groups.popleft())
                    ahead = min(ahead + 1, _THREADS)
        except FramingError as error:
            framing = error
        yield from self._rest(groups, group, scan.end)
        if framing is not None:
            raise framing

    def _is_apart(self, batch: Batch) -> bool:
        """True if the batch is not worth another thread, or not to be rendered ahead."""
        return _THREADS == 1 or not batch.attributes & CODEC_MASK or batch.base_offset >= self._visible.end_offset

    def _rest(self, groups: deque[Group], group: list[Batch], end: int) -> Iterator[Told]:
        """Take the remaining groups, and a last one."""
        if group:
            groups.append(self._begun(group, end))
        while groups:
            yield from _told(*groups.popleft())

    def _begun(self, group: list[Batch], end: int) -> Group:
        return group, _POOL.submit(self._pass_all, group, end)

    def _pass_all(self, batches: list[Batch], end: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for batch in batches:
            try:
                outcomes.append(self._pass(batch, end))
            except CorruptBatchError as error:
                outcomes.append(error)
        return outcomes

    def _pass(self, batch: Batch, end: int) -> Passed:
        offset, end_offset = batch.base_offset, self._visible.end_offset
        if offset >= end_offset:
            raise CorruptBatchError(
                f"the batch begins with offset {offset}, and the log ends at {end_offset}",
                position=batch.position,
                offset=offset,
            )
        return self._lines.passing(batch, self._visible, end, only_size=self._only_sizes)


def _told(batches: list[Batch], outcomes: Future[list[Outcome]]) -> Iterator[Told]:
    for batch, outcome in zip(batches, outcomes.result(), strict=True):
        yield batch, partial(_given, outcome)


def _given(outcome: Outcome) -> Passed:
    if isinstance(outcome, CorruptBatchError):
        raise outcome
    return outcome
