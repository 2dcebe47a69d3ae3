"""The results of a verification kept in a file, so that one that was interrupted goes on where it stopped.

The file has a line of JSON for the verification, and one for each partition that was verified. Each is written whole,
and a last line that was cut off by a crash is dropped. A partition is verified again if its files are others by now.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from storage.errors import CorruptMetadataError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.verify.finding import Finding, FindingKind, Severity
from storage.verify.partition import PartitionResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.files import Files
    from storage.verify.log_dir_check import PartitionTarget

_WHAT: Final = "kafkafs verify"
_VERSION: Final = 1
_OTHER: Final = "it is no record of a verification; name a file that does not exist yet"


class VerificationJournal:
    """The results of the partitions that one verification, of these log directories and topics, has verified.

    Raises `CorruptMetadataError` for a file that is not such a record, or of a verification of something else, or in
    use.
    """

    def __init__(self, files: Files, path: Path, log_dirs: Sequence[str], topics: Sequence[str]) -> None:
        self._files = files
        self._path = path
        self._known: dict[str, tuple[str, PartitionResult]] = {}
        self._seen: dict[str, str] = {}
        self._end = 0
        self._about = {"record": _WHAT, "version": _VERSION, "store": list(log_dirs), "topics": sorted(topics)}
        self._file = files.open_writing(path, create=True)
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def known(self, target: PartitionTarget) -> PartitionResult | None:
        """Return the result of a partition whose files are still the same; None if it is to be verified."""
        path = target.expected.directory.path
        self._seen[path] = now = _fingerprint(target)
        seen, result = self._known.get(path, ("", None))
        return result if seen == now else None

    def keep(self, target: PartitionTarget, result: PartitionResult) -> None:
        """Add the result of a partition that was not `known`, and has been verified since."""
        path = target.expected.directory.path
        self._append(
            {
                "partition": path,
                "seen": self._seen[path],
                "topicId": None if result.topic_id is None else str(result.topic_id),
                "counts": [result.segments, result.batches, result.size_bytes],
                "findings": [asdict(finding) for finding in result.findings],
            }
        )

    def remove(self) -> None:
        """Unlink the file: the verification is complete."""
        self._files.remove(self._path)

    def close(self) -> None:
        """Close the file, to go on with it another time."""
        self._file.close()

    def _read(self) -> None:
        """Take in the whole lines of the file, and drop what follows them."""
        if not self._file.try_lock():
            raise self._refused("another verification is using it; name another file")
        size_bytes = self._file.size_bytes()
        if size_bytes > SNAPSHOT_BYTES_MAX:
            raise self._refused(f"it has {size_bytes} bytes, and is read up to {SNAPSHOT_BYTES_MAX}")
        *lines, _ = self._file.read_at(0, size_bytes).split(b"\n")
        if size_bytes and not lines:
            raise self._refused(_OTHER)
        for number, line in enumerate(lines):
            try:
                said = json.loads(line)
                if number:
                    self._known[said["partition"]] = said["seen"], _result(said)
            except (ValueError, KeyError, TypeError, RecursionError):
                reason = f"line {number + 1} is not one of a verification's record" if number else _OTHER
                raise self._refused(reason) from None
            if number == 0:
                self._check(said)
            self._end += len(line) + 1
        self._file.truncate(self._end)
        if not lines:
            self._append(self._about)

    def _check(self, said: object) -> None:
        if not isinstance(said, dict) or said.get("record") != _WHAT:
            raise self._refused(_OTHER)
        if said != self._about:
            raise self._refused("it is the record of a verification of other log directories or topics")

    def _refused(self, reason: str) -> CorruptMetadataError:
        return CorruptMetadataError(reason, path=self._path)

    def _append(self, said: dict[str, Any]) -> None:
        line = json.dumps(said, separators=(",", ":")).encode() + b"\n"
        self._file.write_at(self._end, [line])
        self._end += len(line)


def _fingerprint(target: PartitionTarget) -> str:
    """Return what tells a partition's files from others: names, sizes, times and identities. Empty if unlisted."""
    try:
        found = target.expected.directory.statuses()
    except OSError:
        return ""
    facts: list[object] = [target.expected.is_clean]
    facts += [(name, each.size_bytes, each.changed_ns, each.identity) for name, each in sorted(found.items())]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _result(said: dict[str, Any]) -> PartitionResult:
    segments, batches, size_bytes = map(int, said["counts"])
    return PartitionResult(
        findings=[_finding(each) for each in said["findings"]],
        topic_id=None if said["topicId"] is None else UUID(said["topicId"]),
        segments=segments,
        batches=batches,
        size_bytes=size_bytes,
    )


def _finding(said: dict[str, Any]) -> Finding:
    known = {field.name: said[field.name] for field in fields(Finding)}
    return Finding(**{**known, "severity": Severity(said["severity"]), "kind": FindingKind(said["kind"])})
