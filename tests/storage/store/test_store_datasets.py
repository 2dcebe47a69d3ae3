"""The log directories of real brokers are listed as they stand, and not one byte or date of them changes."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.errors import ReadOnlyStoreError
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.interop

State = dict[str, tuple[int, int, int, str]]


def opens_no_log(request: object) -> None:
    raise AssertionError(request)


def state_of(*roots: Path) -> State:
    """Everything about every file and directory but when it was last read."""
    found: State = {}
    for root in roots:
        for path in (root, *sorted(root.rglob("*"))):
            status = path.stat()
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest)
    return found


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed"])
def test_what_a_broker_left(datasets: Callable[[str], Path], name: str) -> None:
    paths = [datasets(name) / name / each for each in ("d1", "d2")]
    before = state_of(*paths)
    store = Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock(), open_log=opens_no_log)
    listed = {
        (path, f"{topic}-{partition}")
        for topic, partitions in store.topics.inventory.topics.items()
        for partition, path in ((number, log_dir.path) for number, log_dir in partitions.items())
    }
    expected = {(path, each.name) for path in paths for each in path.iterdir() if re.search(r"-\d+$", each.name)}
    assert listed == expected
    assert len(listed) >= 40
    assert not store.is_made_here
    assert store.topics.inventory.foreign == ()
    for topic, partitions in store.topics.inventory.topics.items():
        assert store.topics.config(topic) == store.config.topic()
        assert not store.topics.is_fully_known(topic)
        assert (store.topics.topic_id(topic) is None) is (name == "kafka-2.2")
        for number, log_dir in partitions.items():
            text = log_dir.path / f"{topic}-{number}" / "partition.metadata"
            assert name == "kafka-2.2" or store.topics.directory(topic, number) == text.parent
    store.refresh()
    with pytest.raises(ReadOnlyStoreError):
        store.topics.create("new")
    store.close()
    assert state_of(*paths) == before


def test_an_odd_name_is_split_at_its_last_dash(datasets: Callable[[str], Path]) -> None:
    paths = [datasets("kafka-2.2") / "kafka-2.2" / each for each in ("d1", "d2")]
    store = Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock(), open_log=opens_no_log)
    assert list(store.topics.partitions("Weird.topic_name-0-1")) == [0, 1]
    assert {log_dir.path.name for log_dir in store.topics.partitions("Weird.topic_name-0-1").values()} == {"d1", "d2"}
