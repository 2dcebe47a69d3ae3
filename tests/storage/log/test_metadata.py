"""`partition.metadata` is read as a broker reads it and written to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from storage.errors import CorruptMetadataError
from storage.files import Files
from storage.ids import format_id
from storage.log.partition_metadata import PARTITION_METADATA_NAME, read_topic_id, write_topic_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = Files()
TEXT = "lh7PbO47TjOaB2gMLhKuvQ"


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-3.9", "kafka-3.9-killed", "kafka-3.9-recovery", "kafka-3.9-compaction"])
def test_real_files(datasets: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    found = sorted(datasets(name).rglob(PARTITION_METADATA_NAME))
    topics: dict[str, UUID] = {}
    for path in found:
        topic_id = read_topic_id(FILES.directory(path.parent))
        assert topic_id is not None
        assert topics.setdefault(path.parent.name.rpartition("-")[0], topic_id) == topic_id
        write_topic_id(FILES.directory(tmp_path), topic_id)
        assert (tmp_path / PARTITION_METADATA_NAME).read_bytes() == path.read_bytes()
    assert len(set(topics.values())) == len(topics) >= 2
    assert topics.get("__cluster_metadata", UUID(int=1)) == UUID(int=1)


def read(tmp_path: Path, text: str) -> UUID | None:
    (tmp_path / PARTITION_METADATA_NAME).write_bytes(text.encode("latin-1"))
    return read_topic_id(FILES.directory(tmp_path))


@pytest.mark.parametrize(
    "text",
    [
        f"version: 0\ntopic_id: {TEXT}",
        f"version: 0\ntopic_id: {TEXT}\n",
        f"version: 0\r\ntopic_id: {TEXT}\r\n",
        f"version: 17\ntopic_id: {TEXT}\nnew: thing\n",
    ],
)
def test_what_is_read(tmp_path: Path, text: str) -> None:
    topic_id = read(tmp_path, text)
    assert topic_id is not None
    assert format_id(topic_id) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 43,
        "version: 0\n",
        f"topic_id: {TEXT}\nversion: 0",
        f"version: -1\ntopic_id: {TEXT}",
        f"version: 0\n\ntopic_id: {TEXT}",
        f"version: 0\ntopic_id: {TEXT}A",
        f"version: 0\ntopic_id: {TEXT} A",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        f"version: 0\ntopic_id: {TEXT[:-1]}\xff",
    ],
)
def test_what_is_not_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(CorruptMetadataError) as caught:
        read(tmp_path, text)
    assert caught.value.path == str(tmp_path / PARTITION_METADATA_NAME)


def test_no_file(tmp_path: Path) -> None:
    assert read_topic_id(FILES.directory(tmp_path)) is None
