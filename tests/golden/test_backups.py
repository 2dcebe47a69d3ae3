"""Backups of what real brokers left: committed offsets that lie above the end of a copy are named."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from storage.files import Files
from storage.log_dir import OffsetCheckpoint, read_offsets, write_offsets

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from storage.log_dir import Partition

pytestmark = pytest.mark.golden


def committed(store: str) -> dict[tuple[str, str, int], int]:
    """Return the offsets that groups have committed."""
    rows = json.loads(CliRunner().invoke(main, ["groups", store, "--json"]).stdout)
    return {
        (row["group"], row["topic"], row["partition"]): row["committedOffset"]
        for row in rows
        if row["committedOffset"] is not None
    }


def cut(log_dir: Path, partition: Partition, offset: int) -> None:
    """Let the broker's last checkpoint be of when the partition was no longer than this."""
    directory = Files().directory(log_dir)
    marks = read_offsets(directory, OffsetCheckpoint.HIGH_WATERMARK)
    marks |= {partition: offset} if partition in marks else {}
    write_offsets(directory, OffsetCheckpoint.HIGH_WATERMARK, marks)


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9"])
def test_offsets_above_the_cut_are_named(name: str, datasets: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copytree(datasets(name) / name, tmp_path / "disks")
    disks = [tmp_path / "disks" / log_dir for log_dir in ("d1", "d2")]
    store, dest = ",".join(map(str, disks)), tmp_path / "backups"
    groups = committed(store)
    topic, partition = max((topic, partition) for _, topic, partition in groups)
    offset = groups["g1", topic, partition]
    for bound, is_above in ((offset, False), (offset - 1, True)):
        for log_dir in disks:
            cut(log_dir, (topic, partition), bound)
        result = CliRunner().invoke(main, ["backup", store, str(dest), "--json"])
        assert result.exit_code == 0, result.output
        rows = json.loads(result.stdout)
        (end_offset,) = (row["endOffset"] for row in rows if (row["topic"], row["partition"]) == (topic, partition))
        assert (end_offset < offset) == is_above
        above = [group for group, *place in sorted(groups) if place == [topic, partition]] if is_above else []
        said = [line for line in result.stderr.splitlines() if "has committed" in line]
        assert said == [
            f"kafkafs: group {group} has committed {offset} in {topic}-{partition}, whose copy ends at {end_offset}"
            for group in above
        ]
        last = (dest / "latest" / "kafkafs-backup.jsonl").read_text().splitlines()[-1]
        assert [each["group"] for each in json.loads(last)["beyond"]] == above
        assert committed(str(dest / "latest")) == groups
