"""`compaction.plan` has the lines of the plan and what would be left, which is read for it only up to a size."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, StandingClock, sent

from kafkafs.content import SizeCache
from kafkafs.locator.descent import parse_path
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.node import File
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.files import Files
from storage.store.cleaning import StoreCompaction
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRAY = "orders-0.0123456789abcdef0123456789abcdef-stray"
SETTINGS = {"segment.bytes": "300", "segment.index.bytes": "120", "cleanup.policy": "compact"}


def node(store: Store, clock: StandingClock, path: str, options: TreeOptions = TreeOptions()) -> File:  # noqa: B008 -- frozen
    tree = Tree(store, options, clock=clock, sizes=SizeCache(Files(), None), control=ControlNodes())
    file = tree.node(parse_path(path, store.topics.inventory.topics))
    assert isinstance(file, File)
    return file


def lines(file: File) -> list[str]:
    found = bytes(file.open().read(0, 100_000))
    size_bytes = file.attributes().size_bytes
    assert size_bytes in (None, len(found))
    assert file.xattrs() == ({"user.kafkafs.size": b"pending"} if size_bytes is None else {})
    return found.decode().splitlines()


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def store(tmp_path: Path, clock: StandingClock) -> Iterator[Store]:
    """Make a store with a compacted topic of four segments, whose last one is active."""
    with Store.create([tmp_path / "store"], files=Files(), clock=clock) as made:
        made.topics.create("orders", 1, SETTINGS)
        log = made.log("orders", 0)
        for number in range(7):
            log.append_as_leader(sent([(NOW_MS, b"%03d" % number * 20)], key=b"%d" % (number % 2)))
        yield made


def test_it_says_to_the_byte_what_compaction_leaves(store: Store, clock: StandingClock) -> None:
    file = node(store, clock, "orders/0/compaction.plan")
    assert file.attributes().size_bytes is None
    compactions = StoreCompaction(store, clock, wait=lambda _: None)
    plan = compactions.plan("orders", 0)
    *planned, gain = lines(file)
    assert planned == list(plan.lines())
    report = compactions.apply("orders", 0, plan)
    assert gain == report.sentence
    clock.ms += 1000
    assert lines(file) == [
        "orders-0: there is nothing to compact before offset 6, where the active segment begins",
    ]


def test_a_store_that_is_read_shows_the_same(store: Store, clock: StandingClock) -> None:
    expected = lines(node(store, clock, "orders/0/compaction.plan"))
    with Store.open([store.log_dirs[0].path], mode=Mode.READ_ONLY, files=Files(), clock=clock) as read:
        assert lines(node(read, clock, "orders/0/compaction.plan")) == expected


def test_of_a_log_that_is_not_due_it_says_the_gain_too(store: Store, clock: StandingClock) -> None:
    store.topics.change_config("orders", {"min.cleanable.dirty.ratio": "1"})
    said = lines(node(store, clock, "orders/0/compaction.plan"))
    assert said[0].startswith("orders-0: the log is not compacted yet: 100.0% of its bytes are dirty")
    assert " bytes become " in said[-1]


def test_what_is_too_large_to_be_read_is_left_to_a_command(store: Store, clock: StandingClock) -> None:
    plan = StoreCompaction(store, clock, wait=lambda _: None).plan("orders", 0)
    size_bytes = sum(segment.size_bytes for segment in plan.segments)
    fits = lines(node(store, clock, "orders/0/compaction.plan", TreeOptions(counted_bytes_max=size_bytes)))
    assert " bytes become " in fits[-1]
    said = lines(node(store, clock, "orders/0/compaction.plan", TreeOptions(counted_bytes_max=size_bytes - 1)))
    assert said[:-1] == fits[:-1]
    assert said[-1] == (f"what would be left takes reading {size_bytes} bytes: kafkafs compact STORE orders --dry-run")


def test_a_topic_that_is_not_compacted_has_a_size_at_once(store: Store, clock: StandingClock) -> None:
    store.topics.change_config("orders", {"cleanup.policy": "delete"})
    file = node(store, clock, "orders/0/compaction.plan")
    assert file.attributes().size_bytes
    assert lines(file) == ["orders-0: nothing is compacted, because the topic's cleanup.policy does not say so"]


def test_what_belongs_to_no_topic_is_not_compacted(store: Store, clock: StandingClock) -> None:
    path = store.log_dirs[0].path
    store.close()
    (path / "orders-0").rename(path / STRAY)
    with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=clock) as read:
        file = node(read, clock, f".kafkafs/unattached/{STRAY}/compaction.plan")
        assert file.attributes().size_bytes
        assert lines(file) == [f"{STRAY}: nothing is compacted, because the topic's settings are unknown"]


def test_the_topics_of_a_broker_are_unknown_until_their_policy_is_said(datasets, tmp_path: Path) -> None:
    source = datasets("kafka-3.9-compaction") / "kafka-3.9-compaction-before"
    path = tmp_path / "broker"
    shutil.copytree(source, path)
    clock = StandingClock()
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=clock) as store:
        for topic in store.topics.inventory.topics:
            for name in ("compaction.plan", "retention.plan"):
                [said] = lines(node(store, clock, f"{topic}/0/{name}"))
                assert "because the topic's settings are unknown: cleanup.policy" in said
                assert "there is no metadata log in these log directories" in said
        topic = min(store.topics.inventory.topics)
        store.topics.change_config(topic, {"cleanup.policy": "compact", "segment.bytes": "65536"})
        [said] = lines(node(store, clock, f"{topic}/0/compaction.plan"))
        assert said.endswith(", from where on records are not replicated yet")
        end_offset = store.log(topic, 0).view.end_offset
    (path / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {end_offset}\n")
    with Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=clock) as store:
        said = lines(node(store, clock, f"{topic}/0/compaction.plan"))
        assert said[0].startswith(f"{topic}-0: the log is due: ")
        assert " bytes become " in said[-1]
