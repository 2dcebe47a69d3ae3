"""What is staged is what the leader of its partition would have taken, in batches as large as they may be."""

from __future__ import annotations

import pytest
from memory_logs import NOW_MS
from staged_stores import PATHS, StagedStore

from storage.commit.staged_file import StagedFile, find_staged
from storage.errors import InvalidRecordError, InvalidTopicError, RecordTooLargeError, UnknownPartitionError
from storage.record.compression import Codec
from storage.store.store import Mode

ROW = (NOW_MS, b"key", b"value", ())


@pytest.fixture
def store() -> StagedStore:
    made = StagedStore()
    made.create({"t": 2})
    return made


def staged_file(store: StagedStore, name: str) -> StagedFile:
    return StagedFile(*find_staged([store.files.directory(path) for path in PATHS], name))


def staged_batches(store: StagedStore, rows, *, codec: Codec = Codec.NONE, topic: str = "t"):
    seed = len(store.staged_names())
    with store.open(Mode.READ_ONLY) as opened, store.staging(opened, codec=codec, seed=seed) as staging:
        for row in rows:
            staging.add(topic, 0, row)
        staged = staging.finish()
    return list(staged_file(store, staged.name).batches((topic, 0)))


@pytest.mark.parametrize("value_bytes", [0, 1, 50, 300])
def test_batches_are_as_large_as_they_may_be(store: StagedStore, value_bytes: int) -> None:
    rows = [(NOW_MS + number, b"%d" % number, bytes(value_bytes), [("name", b"x")]) for number in range(100)]
    batches = staged_batches(store, rows)
    assert all(batch.base_offset == 0 and batch.size_bytes <= 700 and batch.crc_matches for batch in batches)
    assert [record.key for batch in batches for record in batch.records()] == [key for _, key, _, _ in rows]
    fewest = -(-sum(batch.size_bytes - 61 for batch in batches) // (700 - 61))
    assert len(batches) <= 2 * fewest


def test_batches_are_compressed_as_the_topic_says_or_else_as_asked_for(store: StagedStore) -> None:
    assert {batch.codec for batch in staged_batches(store, [ROW], codec=Codec.ZSTD)} == {Codec.ZSTD}
    with store.open() as opened:
        opened.topics.change_config("t", {"compression.type": "gzip"})
    assert {batch.codec for batch in staged_batches(store, [ROW], codec=Codec.ZSTD)} == {Codec.GZIP}


def test_records_are_refused_as_a_leader_refuses_them(store: StagedStore) -> None:
    with store.open() as opened:
        opened.topics.create("compacted", 1, {"cleanup.policy": "compact"})
    refused = [
        ("t", (NOW_MS, b"key", bytes(1000), ()), RecordTooLargeError),
        ("t", (-2, b"key", b"value", ()), InvalidRecordError),
        ("compacted", (NOW_MS, None, b"value", ()), InvalidRecordError),
    ]
    for topic, row, error in refused:
        with pytest.raises(error):
            staged_batches(store, [ROW, row], topic=topic)
        assert store.staged_names() == []


def test_places_that_are_not_there_are_refused(store: StagedStore) -> None:
    with store.open(Mode.READ_ONLY) as opened, store.staging(opened) as staging:
        for partition in (-1, 2):
            with pytest.raises(UnknownPartitionError, match="no partition"):
                staging.add("t", partition, ROW)
        with pytest.raises(UnknownPartitionError, match="no topic 'u'; make it"):
            staging.add("u", 0, ROW)
        assert staging.finish() is None
    with store.open(Mode.READ_ONLY) as opened, store.staging(opened, new_topics=True) as staging:
        for topic in ("__cluster_metadata", "no/name"):
            with pytest.raises(InvalidTopicError):
                staging.add(topic, 0, ROW)
        assert staging.partitions("u") == 1
    assert store.staged_names() == []


def test_topics_are_made_when_what_is_staged_for_them_is_committed(store: StagedStore) -> None:
    names = [store.stage([("u", 0, b"%d" % seed)], seed=seed, new_topics=True).name for seed in range(2)]
    assert ("u", 0) not in store.values()
    store.commit(names)
    assert store.values()["u", 0] == [b"0", b"1"]


def test_unfinished_staging_is_removed(store: StagedStore) -> None:
    with store.open(Mode.READ_ONLY) as opened, store.staging(opened) as staging:
        for _ in range(100):
            staging.add("t", 0, ROW)
        assert len(store.staged_names()) == 1
    assert store.staged_names() == []


def test_staged_files_are_spread_over_the_log_directories(store: StagedStore) -> None:
    for seed in range(20):
        store.stage([("t", 0, b"value")], seed=seed)
    counts = [sum(name.startswith("kafkafs-staged-") for name in store.files.names(path)) for path in PATHS]
    assert min(counts) > 3
    assert sum(counts) == 20
