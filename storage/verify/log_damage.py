"""The ranges of a log's bytes that do not decode, as readers of the log meet them.

Only the log is looked at: no index, no checkpoint. What no reader takes for damage is none here: the zeros of a file
that its broker allocated in advance, and the batch at the end of a log that is still being written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from storage.errors import FramingError
from storage.segment.names import FileName, Kind
from storage.verify.finding import FindingList
from storage.verify.log_check import LogCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.log.view import SegmentSlice
    from storage.verify.finding import Finding


class LogDamage(NamedTuple):
    """The damage of a segment's log, with the name of its file as the path, and where the search for it ended.

    `position` is after the last sound batch and `next_offset` above the highest offset. The search may have ended
    before the log did: then it is not whole.
    """

    ranges: tuple[Finding, ...]
    position: int
    next_offset: int
    is_whole: bool = True


def damaged_ranges(
    part: SegmentSlice, known: LogDamage | None = None, is_cancelled: Callable[[], bool] = lambda: False
) -> LogDamage:
    """Decode every batch of a segment's log, until that is cancelled, and return the ranges that do not decode.

    Of thousands it has the first and the last. If the log was appended to since `known` was found, or the search was
    cancelled, and there was no damage until then, only what follows is decoded. Raises `FileNotFoundError` if the
    segment is gone.
    """
    segment, end, _ = part
    findings = FindingList()
    begins = None if known is None or known.ranges else (known.position, known.next_offset)
    with segment.open_log() as file:
        log = LogCheck(
            file,
            segment.base_offset,
            findings,
            name=str(FileName(segment.base_offset, Kind.LOG)),
            begins=begins,
            end=file.size_bytes() if end is None or _goes_on(part) else end,
            may_end_in_zeros=True,
            advance=lambda _: None,
        )
        is_whole = True
        for _ in log:
            if is_cancelled():
                is_whole = False
                break
    return LogDamage(tuple(findings.all()), log.position, log.next_offset, is_whole)


def _goes_on(part: SegmentSlice) -> bool:
    """Return True if the batches of a segment end at damage, after which there may be more."""
    try:
        part.segment.check_end(part.end)
    except FramingError:
        return True
    return False
