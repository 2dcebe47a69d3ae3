"""The directory that a store is exported into: its files, and how all files of a run appear at once.

Tasks write into `_kafkafs`, where no reader looks; a run is published when all its files are on disk. Writing the list
of its files there is the commit point: after a failure the next run finishes a listed run, and removes any other.
Watermarks are written once the files are in place. Only one run at a time uses the directory.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from kafkafs.spark.errors import JobError
from kafkafs.spark.jobs.export_watermarks import Exported
from storage.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from storage.files import FileLock, Files
    from storage.log_dir import Partition

OWN_DIRECTORY: Final = "_kafkafs"
WATERMARKS_NAME: Final = "watermarks.json"
_REGISTERED_NAME: Final = "registered.json"
_PUBLISHING_NAME: Final = "publishing.json"
_LOCK_NAME: Final = "lock"
_STAGING_FRONT: Final = "staged-"
_DATE: Final = re.compile(r"(?!0000)\d{4}-\d\d-\d\d", re.ASCII)
_FILE: Final = re.compile(r"topic=([^/]+)/date=([^/]+)/records-\1-(\d+)-(\d{20})-(\d{20})\.parquet")


NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of the partition of records without a date, which every reader of Hive's partitions takes for null."""


class ExportedFile(NamedTuple):
    """A file by its name: a partition's records of a day, from the first offset to the last."""

    topic: str
    partition: int
    date: str
    first_offset: int
    last_offset: int

    @classmethod
    def of_day(cls, topic: str, partition: int, day: str | None, first_offset: int, last_offset: int) -> Self:
        """Return the file of a day's records; None for those without a date."""
        return cls(topic, partition, NO_DATE if day is None else day, first_offset, last_offset)

    @property
    def day(self) -> str | None:
        """Return the date; None if there is none, or if an earlier version wrote one that no reader knows."""
        return self.date if _DATE.fullmatch(self.date) else None

    @property
    def path(self) -> str:
        """Return its path in the directory."""
        # A topic may begin with "_", and readers ignore files whose names do.
        name = f"records-{self.topic}-{self.partition}-{self.first_offset:020d}-{self.last_offset:020d}.parquet"
        return f"topic={self.topic}/date={self.date}/{name}"

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """Return the exported file of this path; None for any other file."""
        match = _FILE.fullmatch(path)
        if match is None:
            return None
        return cls(match[1], int(match[3]), match[2], int(match[4]), int(match[5]))


class ExportTarget:
    """The directory, for one run, as a context manager; it is made if it is missing.

    Raises `JobError` if another run uses it.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self.root = root
        self._files = files
        self._own = root / OWN_DIRECTORY
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        for directory in (self.root, self._own):
            with suppress(FileExistsError):
                self._files.make_directory(directory)
        try:
            self._lock = self._files.lock(self._own / _LOCK_NAME)
        except BlockingIOError:
            raise JobError(f"another export to {self.root} is under way; wait for its end") from None
        try:
            self._finish()
            self._remove_staged()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._lock is not None
        self._lock.release()

    def exported(self) -> Exported:
        """Return how far earlier runs exported."""
        return self._said(WATERMARKS_NAME)

    def unregistered(self) -> list[ExportedFile]:
        """Return the published files that are not noted as registered with a table."""
        known = self._said(_REGISTERED_NAME).watermarks
        found = []
        for file in self.files():
            mark = known.get((file.topic, file.partition))
            if mark is None or file.first_offset >= mark.end_offset:
                found.append(file)
        return found

    def note_registered(self) -> None:
        """Note that all published files are registered with a table."""
        replace_file(self._files, self._own / _REGISTERED_NAME, self.exported().text().encode())

    def make_staging(self, run: str) -> Path:
        """Make a directory for the files of tasks; the next run removes it."""
        directory = self._own / f"{_STAGING_FRONT}{run}"
        self._files.make_directory(directory)
        return directory

    def publish(
        self, staged: Sequence[tuple[Path, ExportedFile]], exported: Exported, *, replaced: Collection[Partition] = ()
    ) -> None:
        """Move staged files, which are on disk, to where readers see them; they replace all files of some partitions.

        After an error either nothing is published, or the next run publishes everything.
        """
        for directory in {path.parent for path, _ in staged}:
            self._files.sync_directory(directory)
        names = {file.path for _, file in staged}
        old = [file.path for file in self.files() if (file.topic, file.partition) in replaced]
        said = {
            "files": [[str(path.relative_to(self._own)), file.path] for path, file in staged],
            "removed": [path for path in old if path not in names],
            "watermarks": exported.text(),
        }
        replace_file(self._files, self._own / _PUBLISHING_NAME, json.dumps(said).encode())
        self._finish()
        self._remove_staged()

    def _said(self, name: str) -> Exported:
        path = self._own / name
        try:
            return Exported.parse(self._files.read(path).decode(errors="replace"), str(path))
        except FileNotFoundError:
            return Exported()

    def files(self) -> list[ExportedFile]:
        """Return the published files, by name."""
        return sorted(self._found())

    def _found(self) -> Iterator[ExportedFile]:
        for topic in self._names("", "topic="):
            for date in self._names(topic, "date="):
                for name in self._names(f"{topic}/{date}", ""):
                    file = ExportedFile.parse(f"{topic}/{date}/{name}")
                    if file is not None:
                        yield file

    def _names(self, directory: str, front: str) -> list[str]:
        return [name for name in self._files.names(self.root / directory) if name.startswith(front)]

    def _finish(self) -> None:
        """Finish a publication that has begun, if there is one."""
        try:
            said = json.loads(self._files.read(self._own / _PUBLISHING_NAME))
        except FileNotFoundError:
            return
        for staged, name in said["files"]:
            self._place(self._own / staged, self.root / name)
        for directory in {(self.root / name).parent for _, name in said["files"]}:
            self._files.sync_directory(directory)
            self._files.sync_directory(directory.parent)
        self._files.sync_directory(self.root)
        for name in said["removed"]:
            with suppress(FileNotFoundError):
                self._files.remove(self.root / name)
        replace_file(self._files, self._own / WATERMARKS_NAME, said["watermarks"].encode())
        self._files.remove(self._own / _PUBLISHING_NAME)

    def _place(self, staged: Path, path: Path) -> None:
        for directory in (path.parent.parent, path.parent):
            with suppress(FileExistsError):
                self._files.make_directory(directory)
        try:
            self._files.rename(staged, path)
        except FileNotFoundError:
            if self._files.status(path) is None:
                raise

    def _remove_staged(self) -> None:
        """Remove the files of unfinished runs."""
        for name in self._files.names(self._own):
            if name.startswith(_STAGING_FRONT):
                directory = self._own / name
                for staged in self._files.names(directory):
                    with suppress(FileNotFoundError):
                        self._files.remove(directory / staged)
                with suppress(OSError):  # a task of an abandoned run still writes there
                    self._files.remove_directory(directory)
