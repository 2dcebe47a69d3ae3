"""The demo's store is sound, has what the tour promises, and is made whole or not at all."""

from __future__ import annotations

import errno
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from memory_logs import StandingClock
from path_files import PathFiles

from kafkafs.demo.demo_store import TOPICS, add_recent_orders, make_demo_store
from kafkafs.demo.producer import DAY_MS, MINUTE_MS
from storage.errors import NotAStoreError
from storage.files import Files
from storage.log.view import Isolation
from storage.record import Codec
from storage.store.store import Mode, Store
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.record import Record
    from storage.topics.open_logs import PartitionLog

NOW_MS = 1_795_000_000_000


def made_at(path: Path, now_ms: int = NOW_MS) -> Path:
    assert make_demo_store(path, files=Files(), clock=StandingClock(now_ms))
    return path


def opened(path: Path) -> Store:
    return Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=StandingClock(NOW_MS))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_at(tmp_path_factory.mktemp("demo") / "store")


def logs(store: Store) -> Iterator[tuple[str, int, PartitionLog]]:
    for topic, partition in sorted(store.topics.inventory.partitions()):
        yield topic, partition, store.log(topic, partition)


def records(log: PartitionLog) -> list[Record]:
    return [
        record
        for batch in log.view.batches(log.view.start_offset)
        if not batch.is_control
        for record in batch.records()
    ]


def contents(path: Path, now_ms: int) -> dict[tuple[str, int], list[tuple[object, ...]]]:
    """Every record, with its time as an age."""
    with opened(path) as store:
        return {
            (topic, partition): [
                (now_ms - record.timestamp, record.key, record.value, record.headers) for record in records(log)
            ]
            for topic, partition, log in logs(store)
            if topic != "__consumer_offsets"  # whose records hold times
        }


def test_it_is_sound(demo: Path) -> None:
    assert list(Verification(Files(), [demo]).run(lambda: None)) == []


def test_it_holds_a_day_up_to_now(demo: Path) -> None:
    with opened(demo) as store:
        assert store.topics.inventory.topics.keys() == TOPICS
        for topic, _, log in logs(store):
            times = [record.timestamp for record in records(log)]
            assert times == sorted(times) or topic == "__consumer_offsets"
            assert min(times) >= NOW_MS - DAY_MS
            assert max(times) < NOW_MS
            if topic in {"orders", "clicks"}:
                assert max(times) > NOW_MS - 15 * MINUTE_MS


def test_every_codec_and_many_segments_are_there(demo: Path) -> None:
    with opened(demo) as store:
        codecs = {batch.codec for _, _, log in logs(store) for batch in log.view.batches(0)}
        assert codecs == set(Codec)
        for topic, _, log in logs(store):
            assert len(log.view.segments) > 1 or topic == "__consumer_offsets"


def test_orders_have_keys_and_headers(demo: Path) -> None:
    with opened(demo) as store:
        places: dict[bytes | None, set[int]] = {}
        for partition in store.topics.partitions("orders"):
            for record in records(store.log("orders", partition)):
                assert json.loads(record.value or b"")["customer"].encode() == record.key
                assert [name for name, _ in record.headers] == ["channel", "trace"]
                places.setdefault(record.key, set()).add(partition)
    assert len(places) == 60
    assert all(len(partitions) == 1 for partitions in places.values())


def test_customers_are_there_to_be_compacted(demo: Path) -> None:
    with opened(demo) as store:
        assert store.topics.config("customers").compact
        found = records(store.log("customers", 0))
    keys = Counter(record.key for record in found)
    assert None not in keys
    assert max(keys.values()) > 5
    assert sum(record.value is None for record in found) == 15


def test_payments_end_in_every_way(demo: Path) -> None:
    with opened(demo) as store:
        log = store.log("payments", 0)
        view = log.view
        assert len(view.aborted(0, view.end_offset)) == 13
        (hanging,) = [state for state in log.producers.states() if state.transaction_offset is not None]
        assert view.bound(Isolation.COMMITTED) == hanging.transaction_offset
        assert hanging.transaction_offset < view.end_offset - 5


def test_what_is_in_it_is_the_same_every_time(demo: Path, tmp_path: Path) -> None:
    later_ms = NOW_MS + 1_234_567
    assert contents(made_at(tmp_path / "store", later_ms), later_ms) == contents(demo, NOW_MS)


def state_of(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (root, *root.rglob("*"))}


def test_one_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    path = made_at(tmp_path / "store")
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=StandingClock(NOW_MS)) as store:
        store.topics.create("mine")
        before = state_of(path)
        assert not make_demo_store(path, files=Files(), clock=StandingClock(NOW_MS))
        assert state_of(path) == before


class NoNames(PathFiles):
    """Files that cannot be renamed."""

    def rename(self, old: object, new: object) -> None:
        raise OSError(errno.ENOSPC, "no space", f"{old} {new}")


def test_what_cannot_be_completed_is_gone(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no space"):
        make_demo_store(tmp_path / "store", files=NoNames(), clock=StandingClock(NOW_MS))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_becomes_a_demo(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    made_at(tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_anything_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "letter").write_text("mine")
    with Store.create([tmp_path / "store"], files=Files(), clock=StandingClock(NOW_MS)) as store:
        store.topics.create("orders")
    before = state_of(tmp_path)
    for name in ("file", "directory", "store"):
        with pytest.raises(NotAStoreError, match="something other than a demo is here"):
            make_demo_store(tmp_path / name, files=Files(), clock=StandingClock(NOW_MS))
    assert state_of(tmp_path) == before


def test_an_old_one_gets_orders_of_the_last_minutes_once(tmp_path: Path) -> None:
    path = made_at(tmp_path / "store")
    assert add_recent_orders(path, files=Files(), clock=StandingClock(NOW_MS)) == 0
    later_ms = NOW_MS + 7 * DAY_MS
    added = add_recent_orders(path, files=Files(), clock=StandingClock(later_ms))
    assert added > 0
    assert add_recent_orders(path, files=Files(), clock=StandingClock(later_ms)) == 0
    with opened(path) as store:
        orders = [list(records(store.log("orders", partition))) for partition in range(3)]
    numbers = sorted(json.loads(record.value or b"")["order"] for each in orders for record in each)
    assert numbers == list(range(1001, 1001 + 4000 + added))
    for each in orders:
        recent = [record.timestamp for record in each if record.timestamp >= later_ms - 15 * MINUTE_MS]
        assert recent
        assert max(recent) <= later_ms
