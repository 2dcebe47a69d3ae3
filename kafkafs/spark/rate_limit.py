"""The end of a streaming query's batch, shared out over the partitions as in Spark's own Kafka source."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.log_dir import Partition


def limited(limit: int, start: Mapping[Partition, int], end: Mapping[Partition, int]) -> dict[Partition, int]:
    """The ends of about `limit` offsets in all, each partition's share as large as what it has; none is starved.

    A partition that has no start is passed on as it is.
    """
    sizes = {each: end[each] - start[each] for each in end if each in start and end[each] > start[each]}
    total = sum(sizes.values())
    if not total:
        return dict(end)
    return {each: _share(limit, sizes[each], total, start[each]) if each in sizes else end[each] for each in end}


def _share(limit: int, size: int, total: int, start: int) -> int:
    share = limit * (size / total)
    return start + min(size, math.ceil(share) if share < 1 else math.floor(share))


def count(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return how many offsets lie between."""
    return sum(end[each] - start.get(each, 0) for each in end)
