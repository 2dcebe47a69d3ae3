"""The dumps of checkpoints, which the real tool lacks: an offset for each partition, or for each leader epoch.

A line is a line of the file, with a partition's topic and number as its directory has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkafs.dump.entry_dump import Entry, EntryDump
from storage.checkpoint_text import integer, read_checkpoint
from storage.errors import CorruptCheckpointError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.dump.entry_dump import EntryForm
    from storage.files import Files, ReadableFile


class CheckpointDump(EntryDump):
    """One checkpoint's dump, as far as a broker would read it, if it has no more than `limit_bytes`."""

    def __init__(
        self,
        files: Files,
        file: ReadableFile,
        form: EntryForm,
        parse: Callable[[list[str]], Entry],
        *,
        limit_bytes: int,
    ) -> None:
        super().__init__(file, form)
        self._files = files
        self._parse = parse
        self._limit_bytes = limit_bytes

    def _parts(self) -> Iterator[Entry | StorageError]:
        size_bytes = self._file.size_bytes()
        if size_bytes > self._limit_bytes:
            yield CorruptCheckpointError(
                f"the checkpoint has {size_bytes} bytes, above the limit of {self._limit_bytes}"
            )
            return
        path, entries = Path(self._file.path), list[Entry]()

        def parsed(columns: list[str]) -> None:
            entries.append(self._parse(columns))

        try:
            read_checkpoint(self._files.directory(path.parent), path.name, parsed)
        except CorruptCheckpointError as error:
            yield from entries  # those before what is wrong
            yield error
        else:
            yield from entries


def partition_offset(columns: list[str]) -> Entry:
    """A line of a log directory's checkpoints."""
    topic, partition, offset = columns
    fields = {"topic": topic, "partition": integer(partition, bits=32), "offset": integer(offset, bits=64)}
    return Entry("partitionOffset", fields, f"{topic}-{fields['partition']} {fields['offset']}")


def epoch_start(columns: list[str]) -> Entry:
    """A line of a partition's leader epochs."""
    epoch, offset = columns
    fields = {"epoch": integer(epoch, bits=32), "startOffset": integer(offset, bits=64)}
    return Entry("leaderEpoch", fields, f"{fields['epoch']} {fields['startOffset']}")
