"""Small files are read whole, and not at all where they are larger than any that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from path_files import PathFiles

from storage.cluster.quorum_state import read_quorum_state
from storage.commit.ledger import Ledger
from storage.errors import ConfigError, CorruptCheckpointError, CorruptMetadataError, CorruptSnapshotError, StorageError
from storage.files import (
    CHECKPOINT_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
    Files,
    ReadableFile,
    read_small_file,
)
from storage.log.epochs import LeaderEpochs
from storage.log.partition_metadata import read_topic_id
from storage.log.producers.snapshot import SnapshotFiles, encode_snapshot
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.meta_properties import read_meta_properties
from storage.log_dir.settings_file import read_server_properties, read_settings_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class FewBytesFile(ReadableFile):
    """A file whose readers ask for no more than a header."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        assert size_bytes < 100
        return super().read_at(position, size_bytes)


class FewBytesFiles(PathFiles):
    """Files that are all so."""

    def open_reading(self, path: Any) -> ReadableFile:
        file = super().open_reading(path)
        file.__class__ = FewBytesFile
        return file


LIMITS = dict.fromkeys(
    ("meta.properties", "partition.metadata", "quorum-state", "server.properties"), PROPERTIES_BYTES_MAX
)


def sparse(path: Path, size_bytes: int, data: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(data)
        file.truncate(size_bytes)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_small_file(Files(), tmp_path / "file", ConfigError, 5) == b"12345"
    (tmp_path / "file").write_bytes(b"123456")
    with pytest.raises(ConfigError, match=r"^the file has 6 bytes, and .* is read up to 5 \(.*/file\)$"):
        read_small_file(Files(), tmp_path / "file", ConfigError, 5)


@pytest.mark.parametrize(
    ("name", "read", "error"),
    [
        (
            "leader-epoch-checkpoint",
            lambda files, path: LeaderEpochs.load(files.directory(path)),
            CorruptCheckpointError,
        ),
        *(
            (
                each.value,
                lambda files, path, each=each: read_offsets(files.directory(path), each),
                CorruptCheckpointError,
            )
            for each in OffsetCheckpoint
        ),
        ("meta.properties", lambda files, path: read_meta_properties(files.directory(path)), CorruptMetadataError),
        ("partition.metadata", lambda files, path: read_topic_id(files.directory(path)), CorruptMetadataError),
        ("quorum-state", lambda files, path: read_quorum_state(files.directory(path)), CorruptMetadataError),
        ("kafkafs-topics.properties", lambda files, path: read_settings_file(files.directory(path)), ConfigError),
        ("kafkafs-commits.json", lambda files, path: Ledger([files.directory(path)]).current, CorruptMetadataError),
        (
            "server.properties",
            lambda files, path: read_server_properties(files, path / "server.properties"),
            ConfigError,
        ),
    ],
)
def test_no_small_file_is_read_beyond_it(
    tmp_path: Path, name: str, read: Callable[[Files, Path], object], error: type[StorageError]
) -> None:
    sparse(tmp_path / name, LIMITS.get(name, CHECKPOINT_BYTES_MAX) + 1)
    with pytest.raises(error, match=r"^the file has \d+ bytes, and a file of its kind is read up to \d+ "):
        read(FewBytesFiles(), tmp_path)


def test_of_a_snapshot_that_has_not_the_size_that_it_says_only_the_header_is_read(tmp_path: Path) -> None:
    whole = encode_snapshot([])
    path = tmp_path / f"{7:020d}.snapshot"
    path.write_bytes(whole)
    assert SnapshotFiles(Files().directory(tmp_path)).read(7) == []
    for size_bytes, header in (
        (6 * 10**9, b""),
        (6 * 10**9, whole),
        (SNAPSHOT_BYTES_MAX + 46, whole[:6] + (SNAPSHOT_BYTES_MAX // 46 + 1).to_bytes(4, "big")),
    ):
        sparse(path, size_bytes, header)
        with pytest.raises(CorruptSnapshotError):
            SnapshotFiles(FewBytesFiles().directory(tmp_path)).read(7)
