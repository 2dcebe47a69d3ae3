"""A run held against its manifest: every file must be there, with its size and its checksum, and no other file.

That tells rot from what was copied. Whether the bytes are a sound store is what `storage.verify` finds out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkafs.backup.manifest import Manifest, sha256_of
from kafkafs.backup.places import check_latest_leads_to_a_run
from storage.errors import NotAStoreError
from storage.log_dir import RUN_MANIFEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafkafs.backup.manifest_lines import RunFile
    from storage.files import Directory, Files


class RunFinding(NamedTuple):
    """Something wrong with a run: the path below it, and the reason. What `is_unreadable` may be sound."""

    path: str
    reason: str
    is_unreadable: bool = False


class RunCheck:
    """The check of a run; iterate over its `findings` once.

    Raises `NotAStoreError` for what is no run, and `DamagedRunError` for one whose manifest is damaged.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.files = self.done_bytes = 0
        check_latest_leads_to_a_run(files, path)
        self._directory = files.directory(path)
        if self._directory.status(RUN_MANIFEST_NAME) is None:
            raise NotAStoreError("this is no run of a backup: it has no manifest", path=path)
        self._manifest = Manifest.read(self._directory)
        tail = self._manifest.tail
        self.total_bytes = 0 if tail is None else tail.copied_bytes + tail.linked_bytes

    def findings(self, advance: Callable[[], None]) -> Iterator[RunFinding]:
        """Read every file and yield what is wrong; `advance` is called after each."""
        tail = self._manifest.tail
        if tail is None:
            yield RunFinding(RUN_MANIFEST_NAME, "the run was interrupted, and is not complete")
            return
        for failure in tail.failures:
            yield RunFinding(RUN_MANIFEST_NAME, f"the run is not complete: {failure}")
        known = set()
        for partition in self._manifest.partitions():
            name = f"{partition.topic}-{partition.partition}"
            known.add(name)
            yield from self._check(self._directory.at(name), name, partition.files, advance)
        yield from self._check(self._directory, "", tail.files, advance, also=frozenset({*known, RUN_MANIFEST_NAME}))

    def _check(
        self,
        directory: Directory,
        place: str,
        files: Sequence[RunFile],
        advance: Callable[[], None],
        also: frozenset[str] = frozenset(),
    ) -> Iterator[RunFinding]:
        for file in files:
            path = f"{place}/{file.name}" if place else file.name
            try:
                finding = _difference(directory, file)
            except OSError as error:
                yield RunFinding(path, error.strerror or str(error), is_unreadable=True)
                continue
            if finding is not None:
                yield RunFinding(path, finding)
            self.files += 1
            self.done_bytes += file.size_bytes
            advance()
        names = {file.name for file in files} | also
        try:
            more = sorted(set(directory.names()) - names)
        except FileNotFoundError:
            return
        except OSError as error:  # what stands there is no directory
            yield RunFinding(place or ".", error.strerror or str(error), is_unreadable=True)
            return
        for name in more:
            yield RunFinding(f"{place}/{name}" if place else name, "it is not in the manifest: it was added later")


def _difference(directory: Directory, file: RunFile) -> str | None:
    status = directory.status(file.name)
    if status is None:
        return "it is missing"
    if status.size_bytes != file.size_bytes:
        return f"it has {status.size_bytes} bytes, and had {file.size_bytes}"
    return None if sha256_of(directory, file.name, file.size_bytes) == file.sha256 else "its checksum is another"
