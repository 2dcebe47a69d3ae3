"""The log directories of real brokers are listed as they stand, and not one byte or date of them changes."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.config import TOPIC_SETTINGS, check_topic_setting
from storage.errors import ReadOnlyStoreError
from storage.files import Files
from storage.internal.cluster_image import TOPIC_RESOURCE
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.golden

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


def settings_printed(root: Path) -> dict[str, dict[str, str]]:
    """The settings of each topic, from what the real tool printed of the metadata log."""
    told: dict[str, dict[str, str]] = {}
    for path in root.rglob("__cluster_metadata-0/*.log.txt"):
        for printed in re.findall(r'payload: (\{"type":"CONFIG_RECORD".*)', path.read_text()):
            said = json.loads(printed)["data"]
            if said["resourceType"] == TOPIC_RESOURCE:
                told.setdefault(said["resourceName"], {})[said["name"]] = said["value"]
    return told


# Topics have these alone: nothing in a server.properties stands in for them.
NOT_OF_BROKERS = {key for key, setting in TOPIC_SETTINGS.items() if not setting.broker_keys}


@pytest.mark.parametrize("name", ["kafka-2.2", "kafka-3.9", "kafka-3.9-killed"])
def test_what_a_broker_left(datasets: Callable[[str], Path], name: str) -> None:
    told = settings_printed(datasets(name))
    assert bool(told) is (name != "kafka-2.2")
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
        config, given = store.topics.config(topic), told.get(topic, {})
        assert {key: config.value(key) for key in given} == {k: check_topic_setting(k, v) for k, v in given.items()}
        assert {key for key in config.keys if config.origin(key).startswith("metadata log, ")} == given.keys()
        assert all(key in given or key in NOT_OF_BROKERS or key in config.unknown for key in config.keys)
        assert (store.topics.topic_id(topic) is None) is (name == "kafka-2.2")
        for number, log_dir in partitions.items():
            text = log_dir.path / f"{topic}-{number}" / "partition.metadata"
            assert name == "kafka-2.2" or str(store.topics.directory(topic, number)) == str(text.parent)
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
