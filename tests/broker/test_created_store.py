"""A real broker starts on a store that kafkafs made, keeps to it, and takes it back after kafkafs had it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_brokers import releases

from storage.clock import Clock
from storage.files import Files
from storage.ids import format_id
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.log_dir.meta_properties import read_meta_properties
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def opens_no_log(request: object) -> None:
    raise AssertionError(request)


def given() -> dict[str, object]:
    return {"files": Files(), "clock": Clock(), "open_log": opens_no_log}


TIMING = ("processExpiredBrokerHeartbeat: controller event queue overloaded", "(kafka.server.ControllerApis)")
"""A heartbeat that waited 100 ms, and a request to a controller that is not yet active.

The broker sends both again. Neither says anything about a store.
"""


def errors(broker_log: Path) -> list[str]:
    """The errors that a broker logged, but for those of a controller on a busy machine."""
    lines = broker_log.read_text().splitlines()
    return [
        line
        for line in lines
        if (" ERROR " in line or " FATAL " in line) and not any(words in line for words in TIMING)
    ]


@pytest.mark.parametrize("version", releases("3.9"))
def test_a_broker_adopts_a_store(real_kafka, tmp_path: Path, version: str) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    with Store.create(paths, cluster_id=CLUSTER_ID, node_id=1, **given()) as store:
        store.topics.create("ours", 3, {"retention.ms": "5000"})
        ours = store.topics.topic_id("ours")
    identities = [read_meta_properties(Files().directory(path)) for path in paths]
    settings = {"log.dirs": ",".join(map(str, paths)), "num.recovery.threads.per.data.dir": "1"}

    with real_kafka.broker(tmp_path, settings, version=version) as broker:
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "theirs")
        real_kafka.tool("TopicCommand", *at, "--create", "--partitions", 2, version=version)
        real_kafka.tool("ConsoleProducer", *at, stdin="first\nsecond\n", version=version)
        with pytest.raises(Exception, match="a broker or another kafkafs has the store open"):
            Store.open(paths, mode=Mode.READ_WRITE, **given())
        read = Store.open(paths, mode=Mode.READ_ONLY, **given())
        assert list(read.topics.partitions("theirs")) == [0, 1]
        broker.stop()
    assert errors(tmp_path / "broker.log") == []
    assert [read_meta_properties(Files().directory(path)) for path in paths] == identities

    with Store.open(paths, mode=Mode.READ_WRITE, **given()) as store:
        assert store.is_made_here
        assert list(store.topics.partitions("theirs")) == [0, 1]
        strays = [name for _, name in store.topics.inventory.unattached]
        assert {(name.topic, name.partition, str(name.state)) for name in strays} == {
            ("ours", number, "-stray") for number in range(3)
        }
        assert format_id(ours) in (tmp_path / "one" / "kafkafs-topics.properties").read_text()
        store.topics.create("more", 2, {"cleanup.policy": "compact"})
        points = {path: read_offsets(Files().directory(path), OffsetCheckpoint.RECOVERY_POINT) for path in paths}
    for path in paths:
        points[path] = {key: offset for key, offset in points[path].items() if key[0] != "ours"}
        assert read_offsets(Files().directory(path), OffsetCheckpoint.RECOVERY_POINT) == points[path]

    log = tmp_path / "broker.log"
    said_bytes = log.stat().st_size
    with real_kafka.broker(tmp_path, settings, version=version) as broker:
        at = ("--bootstrap-server", broker.bootstrap, "--topic", "theirs", "--from-beginning", "--max-messages", 2)
        read = real_kafka.tool("ConsoleConsumer", *at, "--timeout-ms", 30_000, version=version)
        assert sorted(read.split()) == ["first", "second"]
        broker.stop()
    said = log.read_bytes()[said_bytes:].decode()
    assert errors(log) == []
    assert "Skipping recovery" in said
    assert "Attempting recovery" not in said
