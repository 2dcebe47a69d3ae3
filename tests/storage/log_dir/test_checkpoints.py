"""The checkpoints of real brokers' log directories read as they say and are rewritten to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.errors import CorruptCheckpointError
from storage.files import Files
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets, read_offsets_again, write_offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = Files()


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed", "kafka-3.9-recovery"])
@pytest.mark.parametrize("checkpoint", OffsetCheckpoint)
def test_real_checkpoints(
    datasets: Callable[[str], Path], tmp_path: Path, name: str, checkpoint: OffsetCheckpoint
) -> None:
    found = [path for path in datasets(name).rglob(checkpoint.value) if ".dump" not in str(path)]
    assert len(found) >= 2
    for path in found:
        data = path.read_bytes()
        offsets = read_offsets(FILES.directory(path.parent), checkpoint)
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        assert data.decode() == "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))
        write_offsets(FILES.directory(tmp_path), checkpoint, offsets)
        assert (tmp_path / checkpoint.value).read_bytes() == data
        assert [each.name for each in tmp_path.iterdir()] == [checkpoint]


@pytest.mark.golden
def test_what_real_checkpoints_say(datasets: Callable[[str], Path]) -> None:
    first, second = (datasets("kafka-2.2") / "kafka-2.2" / name for name in ("d1", "d2"))
    assert read_offsets(FILES.directory(first), OffsetCheckpoint.LOG_START) == {("t-delrec", 0): 777}
    assert read_offsets(FILES.directory(second), OffsetCheckpoint.LOG_START) == {}
    assert read_offsets(FILES.directory(first), OffsetCheckpoint.FIRST_DIRTY)[("t-compact-gzip", 0)] == 2750
    assert read_offsets(FILES.directory(second), OffsetCheckpoint.HIGH_WATERMARK)[("Weird.topic_name-0-1", 1)] == 20


@pytest.mark.parametrize("line", ["t 0", "t 0 1 2", "t zero 1", "t 2147483648 1", "t 0 9223372036854775808", ""])
def test_malformed_entries(tmp_path: Path, line: str) -> None:
    path = tmp_path / OffsetCheckpoint.RECOVERY_POINT.value
    path.write_text(f"0\n1\n{line}\n")
    with pytest.raises(CorruptCheckpointError, match="malformed") as caught:
        read_offsets(FILES.directory(tmp_path), OffsetCheckpoint.RECOVERY_POINT)
    assert caught.value.path == str(path)


def test_no_file(tmp_path: Path) -> None:
    assert read_offsets(FILES.directory(tmp_path), OffsetCheckpoint.RECOVERY_POINT) == {}


def test_bytes_that_were_read_before_are_not_parsed_again(tmp_path: Path) -> None:
    directory, checkpoint = Files().directory(tmp_path), OffsetCheckpoint.LOG_START
    write_offsets(directory, checkpoint, {("t", 0): 7})
    before = read_offsets_again(directory, checkpoint, None)
    assert before.offsets == {("t", 0): 7}
    write_offsets(directory, checkpoint, {("t", 0): 7})
    assert read_offsets_again(directory, checkpoint, before) is before
    write_offsets(directory, checkpoint, {("t", 0): 8})
    assert read_offsets_again(directory, checkpoint, before).offsets == {("t", 0): 8}
