"""What a look finds, held against the file system, `stats`, `groups` and plans of retention, and how fast logs grow."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import pytest
from click.testing import CliRunner
from group_stores import commit

from kafkafs.cli import main
from kafkafs.top.reading import Reader
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.store import Mode, Store, StoreRetention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from memory_logs import StandingClock

    from kafkafs.top.reading import PartitionReading, Reading

KEEP = {"retention.ms": "-1", "retention.bytes": "-1"}


class Scene(Protocol):
    """The fixture's."""

    path: Path
    written: Store
    seen: Store
    reader: Reader
    clock: StandingClock

    def topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None: ...
    def append(self, topic: str, records: int, partition: int = 0, *, size: int = 100, ago_ms: int = 0) -> None: ...
    def log_bytes(self, topic: str, partition: int = 0) -> int: ...
    def look(self, after_s: float = 2.0) -> Reading: ...
    def look_at(self, topic: str, partition: int = 0, after_s: float = 2.0) -> PartitionReading: ...


def command(*arguments: object) -> list[dict[str, object]]:
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, object]] = json.loads(result.stdout)
    return rows


def test_rates_are_what_the_file_has_grown_by(scene: Scene) -> None:
    scene.topic("orders", 2)
    scene.append("orders", 3)
    first = scene.look_at("orders")
    assert (first.bytes_per_second, first.records_per_second, first.end_offset) == (None, None, 3)
    before = scene.log_bytes("orders")
    for records in (4, 0, 0, 5):  # what does not change for a while is looked at less closely
        scene.append("orders", records)
        grown, before = scene.log_bytes("orders") - before, scene.log_bytes("orders")
        found = scene.look_at("orders", after_s=4)
        assert (found.bytes_per_second, found.records_per_second) == (grown / 4, records / 4)
        assert found.size_bytes == before
    assert scene.look_at("orders", 1).records_per_second == 0


def test_what_goes_does_not_count_and_what_a_roll_parts_does(scene: Scene) -> None:
    scene.topic("orders", 1, {**KEEP, "segment.bytes": "1000"})
    scene.append("orders", 12)
    scene.look()
    before = scene.log_bytes("orders")
    scene.append("orders", 14)
    grown = scene.log_bytes("orders") - before
    scene.written.log_to_write("orders", 0).remove_before(10)
    found = scene.look_at("orders", after_s=1)
    assert (found.bytes_per_second, found.records_per_second) == (grown, 14)
    assert found.start_offset is not None
    assert found.start_offset > 0


def test_a_truncation_is_no_growth(scene: Scene) -> None:
    scene.topic("orders")
    scene.append("orders", 9)
    scene.look()
    log = next((scene.path / "orders-0").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(scene.log_bytes("orders") // 3)
    found = scene.look_at("orders")
    assert (found.end_offset, found.bytes_per_second, found.records_per_second) == (3, 0, 0)


def test_topics_come_and_go(scene: Scene) -> None:
    assert scene.look().partitions == ()
    scene.topic("orders")
    scene.topic("payments")
    assert [each.topic for each in scene.look().partitions] == ["orders", "payments"]
    scene.written.topics.delete("orders")
    assert [each.topic for each in scene.look().partitions] == ["payments"]
    patterned = Reader(scene.seen, scene.clock, ["ord*"])
    scene.topic("orders")
    read = patterned.read()
    assert read is not None
    assert [each.topic for each in read.partitions] == ["orders"]


@pytest.mark.parametrize("breaks", ["link", "garbage", "torn and going on"])
def test_a_broken_partition_says_so_in_its_place(scene: Scene, breaks: str) -> None:
    scene.topic("orders", 2)
    scene.append("orders", 9, 0)
    scene.append("orders", 9, 1)
    log = scene.path / "orders-1" / f"{0:020}.log"
    if breaks == "link":
        log.unlink()
        log.symlink_to(log.name)
    else:
        data = log.read_bytes()
        log.write_bytes(b"\xff" * 4000 if breaks == "garbage" else data[:200] + b"\xff" * 60 + data[200:])
    for _ in range(3):
        sound, broken = scene.look().partitions
        assert (sound.error, sound.end_offset) == (None, 9)
        assert broken.error
        assert f"{scene.path}/orders-1/{0:020}.log" in broken.error
        assert "Errno" not in broken.error


def test_lag_is_that_of_the_command_groups(scene: Scene) -> None:
    scene.topic("orders", 2)
    scene.topic(offsets.TOPIC, 1)
    scene.append("orders", 9)
    scene.append("orders", 4, 1)
    commit(scene.written, "billing", "orders", 0, 4)
    commit(scene.written, "billing", "orders", 1, 4)
    commit(scene.written, "audit", "orders", 0, 8)
    commit(scene.written, "audit", "elsewhere", 0, 8)
    found = scene.look().partitions
    here = {(group, each.topic, each.partition): lag for each in found for group, lag in each.lags}
    told = command("groups", scene.path)
    assert here == {
        (row["group"], row["topic"], row["partition"]): row["lag"] for row in told if row["lag"] is not None
    }
    scene.append("orders", 2)
    assert dict(scene.look_at("orders").lags) == {"billing": 7, "audit": 3}


def test_the_oldest_record_is_found_again_when_it_has_gone(scene: Scene) -> None:
    scene.topic("orders")
    assert scene.look_at("orders").oldest_ms is None
    for ago_ms in (5000, 4000, 3000):
        scene.append("orders", 1, ago_ms=ago_ms)
    began_ms = scene.clock.now_ms()
    assert scene.look_at("orders").oldest_ms == began_ms - 5000
    scene.append("orders", 1)
    assert scene.look_at("orders").oldest_ms == began_ms - 5000
    scene.written.log_to_write("orders", 0).advance_start(2)
    scene.written.write_checkpoints()
    assert scene.look_at("orders").oldest_ms == began_ms - 3000


def planned(scene: Scene) -> bool:
    return StoreRetention(scene.seen, scene.clock).plan("orders", 0).is_due


def test_what_expires_next_goes_when_a_plan_lets_it_go(scene: Scene) -> None:
    scene.topic("orders", 1, {**KEEP, "retention.ms": "60000", "segment.bytes": "1000"})
    for _ in range(3):
        scene.append("orders", 9)
        scene.clock.ms += 1000
    freed = scene.look_at("orders").next_freed
    first = min((scene.path / "orders-0").glob("*.log"))
    assert freed is not None
    assert freed.at_ms is not None
    assert (freed.size_bytes, freed.missing_bytes) == (first.stat().st_size, None)
    assert not planned(scene)
    scene.clock.ms += freed.at_ms - scene.clock.now_ms()
    assert not planned(scene)
    scene.clock.ms += 1
    assert planned(scene)
    due = scene.look_at("orders", after_s=0).next_freed
    assert due is not None
    assert due.due_ms(scene.clock.now_ms(), None) == scene.clock.now_ms()
    scene.look(after_s=3600)
    everything = scene.look_at("orders").next_freed
    assert everything is not None
    assert everything.size_bytes == scene.log_bytes("orders")


def test_what_size_lets_go_next_goes_after_so_many_bytes(scene: Scene) -> None:
    scene.topic("orders", 1, {**KEEP, "retention.bytes": "3000", "segment.bytes": "1000"})
    scene.append("orders", 3)
    assert scene.look_at("orders").next_freed is None  # one segment grows as much as the log does
    scene.append("orders", 10)
    freed = scene.look_at("orders").next_freed
    assert freed is not None
    assert freed.missing_bytes is not None
    assert freed.at_ms is None
    target = scene.log_bytes("orders") + freed.missing_bytes
    while scene.log_bytes("orders") < target:
        assert not planned(scene)
        scene.append("orders", 1)
    assert planned(scene)
    now_ms = scene.clock.now_ms()
    assert freed.due_ms(now_ms, None) is freed.due_ms(now_ms, 0) is None
    assert freed.due_ms(now_ms, freed.missing_bytes / 8) == now_ms + 8000


def test_settings_that_change_count_at_once(scene: Scene) -> None:
    scene.topic("orders", 1, KEEP)
    scene.append("orders", 3)
    for _ in range(3):
        assert scene.look_at("orders").next_freed is None
    scene.written.topics.change_config("orders", {"retention.ms": "1000"})
    scene.look(after_s=60)
    assert scene.look_at("orders").next_freed is not None


def test_a_reading_stops_within_a_partition(scene: Scene) -> None:
    scene.topic("orders", 9)
    seen: list[int] = []
    scene.reader.progress = lambda done, total: seen.append(done) is not None or (done, total) == (3, 9)
    assert scene.reader.read() is None
    assert seen == [0, 1, 2, 3]


@pytest.mark.golden
@pytest.mark.parametrize("name", ["kafka-3.9", "kafka-2.2", "kafka-3.9-killed"])
def test_figures_of_a_real_brokers_logs_are_those_of_stats(name: str, datasets: Callable[[str], Path]) -> None:
    """`stats` reads every batch, where a look reads one."""
    root = datasets(name) / name
    paths = [root / "d1", root / "d2"]
    with Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        read = Reader(store, Clock()).read()
    assert read is not None
    looked = [
        (each.topic, each.partition, each.start_offset, each.end_offset, each.size_bytes, each.segments)
        for each in read.partitions
    ]
    told = command("stats", ",".join(map(str, paths)))
    names = ("topic", "partition", "startOffset", "endOffset", "bytes", "segments")
    assert looked == [tuple(row[name] for name in names) for row in told]
    assert {each.error for each in read.partitions} == {None}
    assert sum(not each.is_freed_known for each in read.partitions) > 10  # a broker's settings are not made up
