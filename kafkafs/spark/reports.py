"""What the driver says of a scan and of a stream, which Spark has no place for.

The lines are of the level INFO and reach Spark's table of worker logs where that is turned on. A scan of more than a
gigabyte that an option would make shorter is a warning, which the driver's standard error has in any case.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from kafkafs.spark.bounds import Edge
from kafkafs.spark.json_forms import nested
from kafkafs.spark.schema import source_schema
from kafkafs.spark.selection import Everything
from storage.files import NamedFiles, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from kafkafs.spark.options import BatchOptions
    from storage.log_dir import Partition

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)

_LARGE_BYTES: Final = 1 << 30


def say_scan(options: BatchOptions, schema: StructType, size_bytes: int, tasks: int) -> None:
    """Log how much a scan reads, and which options would have it read less: a filter never does."""
    lesser = shorter_by(options, schema)
    level = logging.WARNING if lesser and size_bytes > _LARGE_BYTES else logging.INFO
    advice = f"; no filter makes it less, but these do: {', '.join(lesser)}" if lesser else ""
    logger.log(level, "the query reads %d bytes of the log in %d tasks%s", size_bytes, tasks, advice)


def shorter_by(options: BatchOptions, schema: StructType) -> list[str]:
    """Return the options that would have a query read less, of those that it does not have."""
    found = []
    if isinstance(options.store.selection, Everything):
        found.append("subscribe or assign")
    if options.store.starting is Edge.EARLIEST:
        found.append("startingOffsets or startingTimestamp")
    if options.ending is Edge.LATEST:
        found.append("endingOffsets or endingTimestamp")
    if {field.name for field in schema.fields} >= set(source_schema(has_headers=False).fieldNames()):
        found.append("a schema of fewer columns")
    return found


@dataclass(frozen=True, slots=True)
class StreamLag:
    """How far a stream is behind the end of its store once the batch that ends at `ends` is done.

    `behind` has the offsets of each partition.
    """

    timestamp_ms: int
    ends: Mapping[Partition, int]
    latest: Mapping[Partition, int]
    behind: tuple[int, ...]
    bytes_behind: int
    left_out: int

    def with_left_out(self, count: int) -> Self:
        """Return the same with so many damaged places left out."""
        return replace(self, left_out=count)

    def form(self) -> dict[str, object]:
        """Return it as the file has it, with the names of the metrics of Spark's own Kafka source."""
        return {
            "timestamp": self.timestamp_ms,
            "endOffset": nested(self.ends),
            "latestOffset": nested(self.latest),
            "minOffsetsBehindLatest": min(self.behind, default=0),
            "maxOffsetsBehindLatest": max(self.behind, default=0),
            "avgOffsetsBehindLatest": sum(self.behind) / max(len(self.behind), 1),
            "bytesBehindLatest": self.bytes_behind,
            "damagedPlacesLeftOut": self.left_out,
        }

    def say(self) -> None:
        """Log it in one line."""
        form = self.form()
        logger.info(
            "after this batch the stream is behind the latest offsets by %d to %d offsets, %.1f on average, and by %d "
            "bytes; %d damaged places were left out",
            form["minOffsetsBehindLatest"],
            form["maxOffsetsBehindLatest"],
            form["avgOffsetsBehindLatest"],
            self.bytes_behind,
            self.left_out,
        )

    def write(self, path: str) -> None:
        """Replace the file at the path, which readers find whole at any time."""
        replace_file(NamedFiles(), path, json.dumps(self.form()).encode() + b"\n", sync=False)


def show_lines() -> None:
    """Have this process write the lines to its standard error, which is the driver's, unless it logs anywhere."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        logger.addHandler(handler)
