"""Stores that real brokers left are as sound as before when something was appended to all of their logs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafkafs.content import SizeCache
from kafkafs.locator.paths import PartitionFilePath, PartitionPath, TopicPath
from kafkafs.locator.views import View
from kafkafs.tree.append_file import AppendFile
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.options import TreeOptions
from kafkafs.tree.tree import Tree
from storage.clock import Clock
from storage.files import Files
from storage.log.log import Log
from storage.log_dir.names import BROKERS_OWN
from storage.record.batch import RecordBatch
from storage.store.store import Mode, Store
from storage.verify.finding import Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Views

pytestmark = pytest.mark.golden

LINES = [b"%d" % number * 40 for number in range(50)]


def append_to(tree: Tree, topic: str, partition: int) -> tuple[int | None, Log]:
    """Append keys and lines to a partition, and say what its latest epoch was before."""
    path = PartitionFilePath(PartitionPath(TopicPath(topic), partition), View.APPEND_KV)
    file = tree.node(path)
    assert isinstance(file, AppendFile)
    log = tree.context.store.log(topic, partition)
    assert isinstance(log, Log)
    latest_epoch, end_offset = log.epochs.latest_epoch, log.view.end_offset
    writing = file.open_writing()
    for line in LINES:
        writing.write(b"key\t" + line + b"\n")
    writing.sync()
    assert writing.read(1000).startswith(b"%d..%d\n" % (end_offset, end_offset))
    assert [record.value for batch in log.view.batches(end_offset) for record in batch.records()] == LINES
    return latest_epoch, log


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed"])
def test_a_store_is_sound_when_lines_were_appended_to_it(views: Views, tmp_path: Path, name: str) -> None:
    root = views.root(f"{name}/{name}")
    paths = [tmp_path / each for each in ("d1", "d2")]
    for path in paths:
        shutil.copytree(root / path.name, path)
    with Store.open(paths, mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as store:
        tree = Tree(store, TreeOptions(), clock=Clock(), sizes=SizeCache(Files(), None), control=ControlNodes())
        partitions = [
            (topic, number)
            for topic, numbers in store.topics.inventory.topics.items()
            if topic not in BROKERS_OWN
            for number in numbers
        ]
        for topic, number in partitions:
            before, log = append_to(tree, topic, number)
            last = list(log.view.batches(log.view.end_offset - 1))[-1]
            assert isinstance(last, RecordBatch)
            assert last.leader_epoch == log.epochs.latest_epoch == (before or 0)
    assert len(partitions) > 10
    verification = Verification(Files(), paths)
    findings = list(verification.run(lambda: None))
    assert [finding for finding in findings if finding.severity is Severity.DAMAGE] == []
