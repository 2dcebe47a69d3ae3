"""Real brokers adopt what was staged and committed, and let lie what was only staged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from consuming import consumed

from storage.clock import Clock
from storage.commit.applied import Transaction
from storage.commit.ledger import LEDGER_NAME
from storage.files import Files
from storage.log.view import Isolation
from storage.record.compression import Codec
from storage.store.log_opener import LogOpener
from storage.store.staging import Staging
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

    from storage.store.staging import Staged

TASKS = 12
RECORDS = 300
SETTINGS = {"segment.bytes": "65536", "index.interval.bytes": "512"}
# LogAppendTime is the broker's clock where it appends, and here where it was staged.
TOPICS = {
    **{f"t-{codec.name.lower()}": {**SETTINGS, "compression.type": codec.name.lower()} for codec in list(Codec)[1:]},
    "t-producer": SETTINGS,
    "t-appended": {**SETTINGS, "message.timestamp.type": "LogAppendTime"},
    "t-compacted": {**SETTINGS, "cleanup.policy": "compact"},
}


def stage(path: Path, task: int) -> Staged:
    now_ms = Clock().now_ms()
    with (
        Store.open([path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store,
        Staging(store, Clock(), codec=Codec.LZ4) as staging,
    ):
        for number in range(RECORDS):
            headers = [("task", b"%d" % task), ("none", None)] if number % 3 else []
            value = None if number % 50 == 49 else b"%d %d " % (task, number) * (number % 40)
            for topic in TOPICS:
                staging.add(topic, 0, (now_ms + number, b"%d" % number, value, headers))
        staged = staging.finish()
    assert staged is not None
    return staged


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with three commits in it, and something that was only staged."""
    path = tmp_path_factory.mktemp("staged") / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        for topic, settings in TOPICS.items():
            made.topics.create(topic, 1, settings)
    for version in range(3):
        names = [stage(path, task).name for task in range(TASKS * version, TASKS * (version + 1))]
        opening = LogOpener()
        with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock(), open_log=opening) as opened:
            assert opened.commits.commit(names, Transaction("app", version))
    stage(path, TASKS)
    return path


@pytest.mark.parametrize(("clean", "version"), [(True, "3.9"), (False, "3.9"), (False, "4")])
def test_a_broker_adopts_what_was_committed(real_kafka: RealKafka, store: Path, clean: bool, version: str) -> None:
    judged = real_kafka.judge_all([store / f"{topic}-0" for topic in TOPICS], clean=clean, version=version)
    with Store.open([store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        for topic in TOPICS:
            log = opened.log(topic, 0)
            theirs = judged[f"{topic}-0"]
            assert theirs.end_offset == log.view.end_offset == 3 * TASKS * RECORDS
            assert len(log.view.segments) > 2
            assert theirs.read_uncommitted == list(consumed(log, Isolation.UNCOMMITTED))
            assert theirs.read_committed == theirs.read_uncommitted


def test_the_real_tool_has_nothing_against_the_indexes(real_kafka: RealKafka, store: Path) -> None:
    files = sorted(store.glob("*-0/*.index")) + sorted(store.glob("*-0/*.timeindex"))
    printed = real_kafka.dump(*files, options=["--index-sanity-check"]).splitlines()
    unexpected = [line for line in printed if not line.startswith("Dumping ") and "passed sanity check" not in line]
    assert [line for line in unexpected if not line.endswith("is empty.")] == []


def test_a_broker_starts_beside_staged_files_and_the_ledger(real_kafka: RealKafka, store: Path, tmp_path: Path) -> None:
    directory = tmp_path / "one"
    with real_kafka.broker(directory) as broker:
        log_dir = broker.log_dirs[0]
    left = [LEDGER_NAME, *(each.name for each in store.iterdir() if each.name.startswith("kafkafs-staged-"))]
    assert len(left) == 2
    for name in left:
        (log_dir / name).write_bytes((store / name).read_bytes())
    with real_kafka.broker(directory) as broker:
        real_kafka.tool("TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders")
    assert all((log_dir / name).exists() for name in left)
