"""Topics come into a cluster that runs: as log directories of its own, or by the script that `--commands` prints."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from click.testing import CliRunner
from group_stores import commit, end
from revived_stores import all_records, group_offsets, revive, revived_broker, stored_records

import kafkafs
from kafkafs.cli import main
from kafkafs.demo.demo_store import make_demo_store
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.log.view import Isolation
from storage.record import BatchForm, batches_of_rows
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from real_brokers import Broker, RealKafka
    from revived_stores import Records

VERSION: Final = "4"
OLD_MS: Final = 1_600_000_000_000
TOOLS: Final = {"kafka-topics.sh": "TopicCommand", "kafka-consumer-groups.sh": "ConsumerGroupCommand"}
SEVERAL: Final = {"invoicing": {0: 0, 1: 150}, 'odd, "group"\' $(x)': {0: 7, 1: 90}, "ahead": {0: 12, 1: 10_000}}
"""Offsets that groups have committed: at the start, inside a transaction that was aborted, after the end."""


class Revived(NamedTuple):
    """A broker on the revived demo store, and what that is made of."""

    broker: Broker
    source: Path
    plan: dict[str, list[dict[str, object]]]


@pytest.fixture(scope="module")
def demo(real_kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Revived]:
    folder = tmp_path_factory.mktemp("demo")
    source, node = folder / "demo", folder / "node"
    make_demo_store(source, files=Files(), clock=Clock())
    node.mkdir()
    planned = json.loads(revive(source, "--into", node / "logs", "--json"))
    with revived_broker(real_kafka, node, version=VERSION) as broker:
        yield Revived(broker, source, planned)


def test_the_demo_store_comes_back(demo: Revived) -> None:
    stored = stored_records([demo.source])
    topics = sorted({topic for topic, _ in stored})
    assert all_records(demo.broker.bootstrap, Isolation.UNCOMMITTED, topics) == stored
    assert {topic["settingsFrom"] for topic in demo.plan["topics"]} <= {
        "kafkafs' settings file",
        "what brokers give it when they make it",
    }


def make_store(path: Path) -> None:
    """Make a store of a topic with every kind of record, gaps in its offsets, and groups; another one is left alone."""
    with kafkafs.open([path], write=True) as store:
        settings = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1000", "max.message.bytes": "2000000"}
        topic = store.create("brought", 2, settings=settings)
        store.create("left")[0].append(b"left")
        topic[0].append_many({"value": b"%d" % number, "timestamp": OLD_MS + number} for number in range(5))
        topic[1].append_many({"value": None, "key": b"\xff\xfe", "timestamp": OLD_MS} for _ in range(100))
        headers = [("a", b"\xff"), ("a", b"1"), ("", None)]
        topic[1].append(b"x" * 1_500_000, key=b"", headers=headers, timestamp=OLD_MS)
    with Store.open([path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        opened.topics.create(offsets.TOPIC, 1)
        for group, committed in SEVERAL.items():
            for number, offset in committed.items():
                commit(opened, group, "brought", number, offset)
        commit(opened, "elsewhere", "left", 0, 1)
        log = opened.log_to_write("brought", 0)
        for producer_id in (7, 8, 9):
            form = BatchForm(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
            rows = [(OLD_MS, b"%d" % producer_id, b"\xfe%d" % number, ()) for number in range(3)]
            (batch,) = batches_of_rows(rows, base_offset=None, form=form)
            log.append_as_leader(bytes(batch), leader_epoch=0)
            if producer_id < 9:
                end(opened, "brought", 0, producer_id, committed=producer_id == 8)


def carry_out(script: str, kafka: RealKafka, bootstrap: str, folder: Path) -> None:
    """Run the script. Kafka's tools have a process of their own already, and are called there."""
    before, between, after = [], [], []
    for line in script.splitlines():
        if not line.startswith("kafka-"):
            between.append(f"cluster={bootstrap}" if line.startswith("cluster=") else line)
        elif line.startswith("kafka-topics"):
            before.append(line)
        else:
            after.append(line)
    _call(before, kafka, bootstrap, folder)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", "\n".join(between)], cwd=folder, env=environment, check=True)
    _call(after, kafka, bootstrap, folder)


def _call(lines: list[str], kafka: RealKafka, bootstrap: str, folder: Path) -> None:
    for line in lines:
        name, *words = shlex.split(line.replace('"$cluster"', bootstrap))
        words = [str(folder / word) if word == "offsets.csv" else word for word in words]
        kafka.tool(TOOLS[name], *words, version=VERSION)


def without_offsets(records: Records) -> Records:
    return {place: [each[1:] for each in found] for place, found in records.items()}


def test_the_script_brings_topics_with_their_groups(demo: Revived, real_kafka: RealKafka, tmp_path: Path) -> None:
    source, bootstrap = tmp_path / "source", demo.broker.bootstrap
    make_store(source)
    arguments = [str(source), "--topics", "brought", "--into", str(tmp_path / "node"), "--commands"]
    printed = CliRunner().invoke(main, ["revive", *arguments])
    assert printed.exit_code == 0, printed.stderr
    carry_out(printed.stdout, real_kafka, bootstrap, tmp_path)
    stored = {
        place: found for place, found in stored_records([source], Isolation.COMMITTED).items() if place[0] != "left"
    }
    served = all_records(bootstrap, Isolation.COMMITTED, ["brought"])
    assert without_offsets(served) == without_offsets(stored)
    for group, committed in SEVERAL.items():
        expected = {
            ("brought", number): sum(record[0] < offset for record in stored["brought", number])
            for number, offset in committed.items()
        }
        assert asyncio.run(group_offsets(bootstrap, group)) == expected
    assert asyncio.run(group_offsets(bootstrap, "elsewhere")) == {}
