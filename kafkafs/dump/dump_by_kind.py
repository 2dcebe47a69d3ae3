"""The dump of any file, by the kind that its name says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafkafs.dump.file_kinds import FileKind
from kafkafs.dump.index_dump import IndexView
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.offset_index_dump import OffsetIndexDump
from kafkafs.dump.small_dumps import (
    CheckpointDump,
    ProducerSnapshotDump,
    TransactionIndexDump,
    epoch_start,
    partition_offset,
)
from kafkafs.dump.time_index_dump import TimeIndexDump
from storage.record import DEFAULT_OUTPUT_LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkafs.dump.json_form import JsonForm
    from kafkafs.dump.text import TextForm
    from storage.files import Files, ReadableFile
    from storage.record import LeasedBuffer


class Dump(Protocol):
    """The dump of any file, iterated over once."""

    damaged: bool
    position: int

    def __iter__(self) -> Iterator[Sequence[bytes | LeasedBuffer]]:
        """Yield runs of lines."""

    def report(self) -> Iterator[str]:
        """Return the lines for standard error at the end of the dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """How a file is dumped: in which form, which records of a log, and what of an index.

    No batch, and no file that is read at once, may need more than `limit_bytes` in memory.
    """

    form: JsonForm | TextForm
    selection: Selection = field(default_factory=Selection)
    index_view: IndexView = IndexView.ENTRIES
    limit_bytes: int = DEFAULT_OUTPUT_LIMIT_BYTES


def dump_of(kind: FileKind, files: Files, file: ReadableFile, options: DumpOptions) -> Dump:
    """Return the dump of an open file of this kind."""
    form, limit_bytes = options.form, options.limit_bytes
    match kind:
        case FileKind.LOG:
            return LogDump(file, form, options.selection, limit_bytes=limit_bytes)
        case FileKind.OFFSET_INDEX:
            return OffsetIndexDump(files, file, form, options.index_view, limit_bytes=limit_bytes)
        case FileKind.TIME_INDEX:
            return TimeIndexDump(files, file, form, options.index_view, limit_bytes=limit_bytes)
        case FileKind.TRANSACTION_INDEX:
            return TransactionIndexDump(file, form)
        case FileKind.PRODUCER_SNAPSHOT:
            return ProducerSnapshotDump(file, form, limit_bytes=limit_bytes)
        case FileKind.OFFSET_CHECKPOINT:
            return CheckpointDump(files, file, form, partition_offset, limit_bytes=limit_bytes)
        case FileKind.EPOCH_CHECKPOINT:
            return CheckpointDump(files, file, form, epoch_start, limit_bytes=limit_bytes)
