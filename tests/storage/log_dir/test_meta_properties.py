"""`meta.properties` of both versions is read as a broker reads it, and written as a broker writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from storage.errors import CorruptMetadataError
from storage.files import Files
from storage.ids import parse_id
from storage.log_dir.meta_properties import (
    META_PROPERTIES_NAME,
    MetaProperties,
    check_agreement,
    read_meta_properties,
    write_meta_properties,
)
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = Files()
ID = "fZTjvEy8lKP5DcrJNRCNmw"


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-recovery"])
def test_real_files_are_rewritten_to_the_byte(datasets: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    found = sorted(datasets(name).rglob(META_PROPERTIES_NAME))
    assert len(found) >= 2
    for path in found:
        properties = read_meta_properties(FILES.directory(path.parent))
        assert properties is not None
        data = path.read_bytes()
        date = datetime.strptime(data.splitlines()[1].decode(), "#%a %b %d %H:%M:%S UTC %Y").replace(tzinfo=UTC)
        write_meta_properties(FILES.directory(tmp_path), properties, int(date.timestamp() * 1000) + 999)
        assert (tmp_path / META_PROPERTIES_NAME).read_bytes() == data


@pytest.mark.golden
def test_what_real_files_say(datasets: Callable[[str], Path]) -> None:
    old = {
        name: read_meta_properties(FILES.directory(datasets("kafka-2.2") / "kafka-2.2" / name)) for name in ("d1", "d2")
    }
    assert old == {name: MetaProperties(0, None, 7, None) for name in ("d1", "d2")}
    new = {
        name: read_meta_properties(FILES.directory(datasets("kafka-3.9") / "kafka-3.9" / name)) for name in ("d1", "d2")
    }
    assert new == {
        name: MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg", 1, parse_id(text))
        for name, text in (("d1", ID), ("d2", "WtIOGNqcwp9A7zHkxBJ8Mg"))
    }
    check_agreement({name: properties for name, properties in new.items() if properties})


def read(text: str) -> MetaProperties | None:
    files = MemoryFiles()
    with files.open_writing(f"/{META_PROPERTIES_NAME}", create=True) as file:
        file.write_at(0, [text.encode("latin-1")])
    return read_meta_properties(files.directory("/"))


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", MetaProperties(0)),
        ("broker.id=3\n", MetaProperties(0, None, 3)),
        ("version=0\ncluster.id=c\nnode.id=5\n", MetaProperties(0, "c")),
        (f"version=0\ndirectory.id={ID}==\n", MetaProperties(0, None, None, parse_id(ID))),
        ("! so\n  version : 1\nnode.id 4\ncluster.id=a\\\n   b\nnew.key=1\n", MetaProperties(1, "ab", 4)),
    ],
)
def test_what_is_read(text: str, properties: MetaProperties) -> None:
    assert read(text) == properties


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=2\nnode.id=1\ncluster.id=c\n", "version"),
        ("version=one\n", "version"),
        ("version=1\ncluster.id=c\nbroker.id=1\n", "node.id is missing"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\nnode.id=2147483648\ncluster.id=c\n", "node.id"),
        ("broker.id=x\n", "broker.id"),
        ("directory.id=short\n", "directory.id"),
        ("directory.id=AAAAAAAAAAAAAAAAAAAAAA\n", "reserved"),
        ("cluster.id=\\u00g0\n", "hexadecimal"),
    ],
)
def test_what_is_not_read(text: str, reason: str) -> None:
    with pytest.raises(CorruptMetadataError, match=reason) as caught:
        read(text)
    assert caught.value.path == f"/{META_PROPERTIES_NAME}"


def test_no_file() -> None:
    assert read_meta_properties(MemoryFiles().directory("/")) is None


def test_what_is_written() -> None:
    files = MemoryFiles()
    properties = MetaProperties(1, "MkU3OEVBNTcwNTJENDM2Qg", 1, parse_id(ID))
    write_meta_properties(files.directory("/"), properties, 1_700_000_000_000)
    assert files.read(f"/{META_PROPERTIES_NAME}").decode() == (
        "#\n"
        "#Tue Nov 14 22:13:20 UTC 2023\n"
        "node.id=1\n"
        f"directory.id={ID}\n"
        "version=1\n"
        "cluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
    )
    assert read_meta_properties(files.after_power_loss(0).directory("/")) == properties


def test_agreement() -> None:
    first, second = UUID(int=1 << 70), UUID(int=1 << 71)
    check_agreement({})
    one, other = MetaProperties(1, "c", 1, first), MetaProperties(1, "c", 1, second)
    check_agreement({"/a": MetaProperties(0), "/b": one, "/c": other})
    for wrong, reason in (
        (MetaProperties(1, "d", 1, second), "cluster d, /a of c"),
        (MetaProperties(1, "c", 2, second), "node 2, /a of 1"),
        (MetaProperties(0, None, 0), "node 0, /a of 1"),
        (MetaProperties(1, "c", 1, first), "same id as /a"),
    ):
        with pytest.raises(CorruptMetadataError, match=reason) as caught:
            check_agreement({"/a": one, "/b": wrong})
        assert caught.value.path == "/b"
