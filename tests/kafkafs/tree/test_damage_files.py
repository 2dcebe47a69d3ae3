"""`damage.jsonl` and `damage/` have the ranges that do not decode, as they were damaged, and nothing else."""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from damaged_logs import DamagedLog
from memory_logs import StandingClock

from kafkafs.locator.descent import parse_path
from kafkafs.tree.damage_files import DamageDirectory, DamagedRangeFile, DamageFile
from kafkafs.tree.errors import NotThereError
from kafkafs.tree.options import TreeOptions

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource


def rows(source: LogSource) -> list[dict[str, Any]]:
    node = DamageFile(parse_path("topic/0/damage.jsonl"), source, StandingClock())  # type: ignore[arg-type]
    return [json.loads(line) for line in b"".join(map(bytes, node.contents())).splitlines()]


def directory(source: LogSource) -> DamageDirectory:
    return DamageDirectory(parse_path("topic/0/damage"), source)  # type: ignore[arg-type]


def contents(source: LogSource, name: str) -> bytes:
    node = DamagedRangeFile(parse_path(f"topic/0/damage/{name}"), source)  # type: ignore[arg-type]
    with closing(node.open()) as reading:
        assert reading.size_bytes() == node.attributes().size_bytes
    return b"".join(map(bytes, node.contents()))


@pytest.mark.golden
def test_the_bytes_that_were_changed_on_purpose_are_in_a_range(views: Views) -> None:
    # Torn tails and zeros, of which there are more, are what a broker leaves that is killed.
    said = (views.root(views.damaged) / "DAMAGE.txt").read_text()
    changed = dict(re.findall(r"^(\S+): \d+\.log byte (\d+) xor", said, re.MULTILINE))
    assert len(changed) == 3
    for log in views.partitions(views.damaged):
        source = views.follow(log)
        found = rows(source)
        assert [row["name"] for row in found] == [f"damage/{name}" for name in directory(source).names()]
        assert len(found) == (log.name in changed)
        for row in found:
            assert row["position"] <= int(changed[log.name]) < row["endPosition"]
            real = (log / row["segment"]).read_bytes()
            name = row["name"].removeprefix("damage/")
            assert contents(source, name) == real[row["position"] : row["endPosition"]]


@pytest.mark.parametrize("is_followed", [False, True], ids=["writer", "follower"])
def test_a_range_has_the_offsets_around_it(views: Views, *, is_followed: bool) -> None:
    lab = DamagedLog(close=False)
    batches = list(lab.log.view.batches(0))
    hurt = next(batch for batch in batches if batch.base_offset == 13)
    path = lab.path(max(base for base in lab.bases if base <= 13))
    lab.flip(path, hurt.position + hurt.size_bytes - 1)
    (row,) = rows(views.memory(lab, is_followed=is_followed))
    assert (row["position"], row["bytes"], row["kind"]) == (hurt.position, hurt.size_bytes, "checksum")
    assert (row["lastGoodOffset"], row["nextGoodOffset"]) == (12 if hurt.position else None, 14)
    assert row["remedy"] == "another replica or a backup may have what was at offset 13"


def test_a_sound_log_has_no_damage(views: Views) -> None:
    source = views.memory(DamagedLog())
    assert rows(source) == list(directory(source).names()) == list(directory(source).entries()) == []
    with pytest.raises(NotThereError, match="no damaged range begins there"):
        contents(source, f"{0:020}.log@0")


def test_a_listing_reads_no_more_than_a_stat_and_knows_what_was_found(views: Views) -> None:
    lab = DamagedLog()
    lab.flip(lab.path(0), 100)
    source = views.memory(lab, TreeOptions(counted_bytes_max=10), is_followed=True)
    assert list(directory(source).entries()) == []
    (name,) = directory(source).names()
    assert [entry.name for entry in directory(source).walked(is_sized=False)] == [name]


def test_a_file_that_has_changed_is_read_again(views: Views) -> None:
    lab = DamagedLog()
    source = views.memory(lab, is_followed=True)
    assert rows(source) == []
    lab.files.now_ms += 5000
    lab.flip(lab.path(0), 100)
    assert len(rows(source)) == 1
