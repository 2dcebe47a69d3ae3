"""What the metadata log says of the cluster, as files, beside what the log directories themselves say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.tree.cluster_rows import COLUMNS, REDACTED, ROWS, cells
from kafkafs.tree.cluster_views import VIEW_NAMES, json_lines
from storage.clock import Clock
from storage.files import Files
from storage.ids import format_id
from storage.internal.cluster_image import BROKER_RESOURCE, ClusterImage
from storage.store.store import Mode, Store
from storage.store.topic_names import CLUSTER_METADATA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["kafka-3.9", "kafka-3.9-killed"])
def store(request: pytest.FixtureRequest, datasets: Callable[[str], Path]) -> Iterator[Store]:
    directory = datasets(request.param) / request.param
    paths = [path for path in (directory / "d1", directory / "d2") if path.is_dir()]
    with Store.open(paths, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        yield opened


def read(store: Store, name: str) -> str:
    paths = ",".join(str(log_dir.path) for log_dir in store.log_dirs)
    done = CliRunner().invoke(main, ["cat", paths, f".kafkafs/cluster/{name}"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_topics_are_where_their_directories_are_and_have_their_ids(store: Store) -> None:
    rows = [json.loads(line) for line in read(store, "topics.jsonl").splitlines()]
    there = {topic for topic in store.topics.inventory.topics if topic != CLUSTER_METADATA}
    assert {row["topic"] for row in rows} == there
    for row in rows:
        partitions = store.topics.partitions(row["topic"])
        topic_id = store.topics.topic_id(row["topic"])
        assert topic_id is not None
        assert row["topicId"] == format_id(topic_id)
        assert [each["partition"] for each in row["partitions"]] == sorted(partitions)
        for each in row["partitions"]:
            properties = partitions[each["partition"]].properties
            assert properties is not None
            assert properties.directory_id is not None
            assert each["directories"] == [format_id(properties.directory_id)]


def test_settings_say_which_record_set_them(store: Store) -> None:
    header, *lines = read(store, "configs").splitlines()
    assert header.split("\t") == ["resource", "name", "key", "value", "source"]
    rows = [line.split("\t") for line in lines]
    assert ["topic", "t-retain", "retention.bytes", "40000"] in [row[:4] for row in rows]
    assert all(re.fullmatch(r"metadata log, (offset [0-9]+|snapshot [0-9]{20}-[0-9]{10})", row[4]) for row in rows)


def test_every_table_has_a_line_a_row(store: Store) -> None:
    for name in ROWS:
        header, *lines = read(store, name).splitlines()
        assert header.split("\t") == list(COLUMNS[name])
        assert len(lines) == len(read(store, f"{name}.jsonl").splitlines())
        assert all(len(line.split("\t")) == len(COLUMNS[name]) for line in lines)


def test_a_store_without_the_log_has_no_views(datasets: Callable[[str], Path]) -> None:
    paths = str(datasets("kafka-2.2") / "kafka-2.2" / "d1")
    listed = CliRunner().invoke(main, ["ls", paths, ".kafkafs/cluster"])
    assert not set(VIEW_NAMES) & set(listed.stdout.split())
    assert CliRunner().invoke(main, ["cat", paths, ".kafkafs/cluster/topics"]).exit_code == 1


def image_of(*records: tuple[str, dict[str, Any]]) -> ClusterImage:
    image = ClusterImage()
    for offset, (name, fields) in enumerate(records):
        image.apply(name, fields, offset)
    return image


def test_secrets_are_not_shown() -> None:
    fields = {"resourceType": BROKER_RESOURCE, "resourceName": "", "value": "hunter2"}
    keys = ["listener.name.x.ssl.keystore.password", "sasl.jaas.config", "ssl.keystore.key", "log.retention.ms"]
    image = image_of(*(("ConfigRecord", {**fields, "name": key}) for key in keys))
    shown = {row["key"]: row["value"] for row in ROWS["configs"](image)}
    assert shown == {**dict.fromkeys(keys[:3], REDACTED), "log.retention.ms": "hunter2"}


def test_access_is_written_as_kafka_writes_it() -> None:
    fields = {
        "id": UUID(int=1 << 100),
        "resourceType": 2,
        "resourceName": "orders",
        "patternType": 4,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    (row,) = ROWS["acls"](image_of(("AccessControlEntryRecord", fields)))
    assert cells("acls", row) == ["TOPIC", "orders", "PREFIXED", "User:a", "*", "READ", "ALLOW"]
    (odd,) = ROWS["acls"](image_of(("AccessControlEntryRecord", {**fields, "operation": 99})))
    assert odd["operation"] == "UNKNOWN(99)"


def test_quotas_name_what_they_are_of() -> None:
    entity = [{"entityType": "user", "entityName": None}, {"entityType": "client-id", "entityName": "c"}]
    (row,) = ROWS["quotas"](
        image_of(("ClientQuotaRecord", {"entity": entity, "key": "consumer_byte_rate", "value": 2.5, "remove": False}))
    )
    assert cells("quotas", row) == ["client-id=c,user=(default)", "consumer_byte_rate", 2.5]


def test_bytes_that_are_no_text_stay_json() -> None:
    (line,) = json_lines([{"topic": "a\udcff"}]).splitlines()
    assert json.loads(line) == {"topic": "a\udcff"}
