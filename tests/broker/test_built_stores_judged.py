"""Real brokers adopt what was compacted, rewritten and repartitioned into a new store, and find in it what we find."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from consuming import consumed

from storage.clock import Clock
from storage.files import Files
from storage.log.view import Isolation
from storage.log_dir.checkpoints import OffsetCheckpoint, write_offsets
from storage.record.compression import Codec
from storage.rewrite.compacted_copy import copy_compacted
from storage.rewrite.rewritten_copy import RewriteRules, copy_rewritten
from storage.rewrite.staged_copy import copy_staged
from storage.rewrite.store_builder import StoreBuilder
from storage.rewrite.topics import built_topics
from storage.store.staging import Staging
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from consuming import ConsumedRecord
    from real_brokers import JudgedRecord, Judgement, RealKafka

    from storage.log_dir.checkpoints import Partition
    from storage.topics.open_logs import PartitionLog

FILES = Files()
COMPACTED = ("t-txn-compact", "t-compactdelete", "t-hold-lz4")
REWRITTEN = ("t-txn", "t-txn-open", "t-gzip", "t-logappend", "t-idem", "t-mixed")
REPARTITIONED = ("t-none",)
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "20000", "min.cleanable.dirty.ratio": "0"}
JUDGED = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**62)}
"""The broker is not to compact anything itself."""


def build(
    source: Path,
    target: Path,
    settings: Mapping[str, str],
    work: Callable[[Store, StoreBuilder, Partition], None],
    partitions: int | None = None,
) -> Path:
    with Store.open([source], mode=Mode.READ_ONLY, files=FILES, clock=Clock()) as store:
        topics = built_topics(store, None, settings, partitions=partitions)
        begun = StoreBuilder.begin(FILES, Clock(), target, {}, topics)
        for partition in begun.missing():
            work(store, StoreBuilder.opened(FILES, target, begun.run), partition)
        begun.publish(Clock(), [source])
        begun.close()
    return target


@pytest.fixture(scope="module")
def sources(datasets: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Copy some partitions of brokers into log directories: those to be compacted, rewritten and repartitioned."""
    root = tmp_path_factory.mktemp("sources")
    sets = [datasets("kafka-3.9") / "kafka-3.9", datasets("kafka-3.9-compaction") / "kafka-3.9-compaction-before"]
    found = {path.name: path for each in sets for path in sorted(each.rglob("*-[0-9]")) if path.is_dir()}
    for name, topics in (("compacted", COMPACTED), ("rewritten", REWRITTEN), ("repartitioned", REPARTITIONED)):
        (root / name).mkdir()
        for topic in topics:
            for path in (found[key] for key in found if key.rpartition("-")[0] == topic):
                shutil.copytree(path, root / name / path.name)
        ends = {(path.name.rpartition("-")[0], int(path.name[-1])): 10**6 for path in (root / name).iterdir()}
        write_offsets(FILES.directory(root / name), OffsetCheckpoint.HIGH_WATERMARK, ends)
    return [root / "compacted", root / "rewritten", root / "repartitioned"]


@pytest.fixture(scope="module")
def targets(sources: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Make new stores of them in every way."""
    root = tmp_path_factory.mktemp("targets")
    to_compact, to_rewrite, to_repartition = sources
    rules = RewriteRules(
        codec=Codec.ZSTD, batch_bytes=8192, redacted_keys=frozenset(b"k%d" % number for number in range(0, 30, 3))
    )

    def compact(store: Store, task: StoreBuilder, partition: Partition) -> None:
        copy_compacted(store, task, partition, Clock(), rolls=True, wait=lambda _: None)

    def rewrite(store: Store, task: StoreBuilder, partition: Partition) -> None:
        copy_rewritten(store, task, partition, rules)

    with Store.create([root / "staging"], files=FILES, clock=Clock()) as staging_store:
        staging_store.topics.create("t-none", 3)
        with Staging(staging_store, Clock(), codec=Codec.LZ4) as staging:
            for number in range(3000):
                staging.add("t-none", number % 3, (Clock().now_ms(), b"%d" % number, b"value", [("h", None)]))
            staged = staging.finish()
    assert staged is not None

    def fill(_: Store, task: StoreBuilder, partition: Partition) -> None:
        copy_staged(task, partition, FILES.directory(root / "staging"), [staged.name])

    return [
        build(to_compact, root / "compacted", SETTINGS, compact),
        build(to_rewrite, root / "rewritten", {"segment.bytes": "20000"}, rewrite),
        build(to_repartition, root / "repartitioned", {"segment.bytes": "20000"}, fill, partitions=3),
    ]


def told(record: ConsumedRecord | JudgedRecord) -> tuple[object, ...]:
    return record.offset, record.timestamp, record.timestamp_type, record.key, record.value, record.headers


@pytest.mark.parametrize(("clean", "version"), [(True, "3.9"), (False, "3.9"), (False, "4")])
def test_a_broker_adopts_what_was_built(real_kafka: RealKafka, targets: list[Path], clean: bool, version: str) -> None:
    directories = [path for target in targets for path in sorted(target.glob("*-[0-9]"))]
    judged = real_kafka.judge_all(directories, settings=JUDGED, clean=clean, version=version)
    assert len(judged) == len(directories) > 10
    for target in targets:
        with Store.open([target], mode=Mode.READ_ONLY, files=FILES, clock=Clock()) as store:
            for topic, number in sorted(store.topics.inventory.partitions()):
                check_judged(judged[f"{topic}-{number}"], store.log(topic, number))


def check_judged(theirs: Judgement, log: PartitionLog) -> None:
    """Raise `AssertionError` unless a broker has found what we find."""
    assert (theirs.end_offset, theirs.last_stable_offset) == (log.view.end_offset, log.view.last_stable_offset)
    for isolation, records in (
        (Isolation.UNCOMMITTED, theirs.read_uncommitted),
        (Isolation.COMMITTED, theirs.read_committed),
    ):
        assert list(map(told, records)) == list(map(told, consumed(log, isolation)))


def test_the_real_tool_has_nothing_against_the_indexes(real_kafka: RealKafka, targets: list[Path]) -> None:
    files = [
        path for target in targets for kind in ("index", "timeindex") for path in sorted(target.glob(f"*/*.{kind}"))
    ]
    printed = real_kafka.dump(*files, options=["--index-sanity-check"]).splitlines()
    unexpected = [line for line in printed if not line.startswith("Dumping ") and "passed sanity check" not in line]
    assert [line for line in unexpected if not line.endswith("is empty.")] == []
