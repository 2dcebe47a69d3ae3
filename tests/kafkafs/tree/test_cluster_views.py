"""What the metadata log says of the cluster, as files, beside what the log directories themselves say."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.tree.cluster_rows import COLUMNS, REDACTED, ROWS, cells, voter_rows
from kafkafs.tree.cluster_views import VIEW_NAMES
from kafkafs.tree.json_rows import json_lines
from storage.clock import Clock
from storage.cluster.quorum_state import QuorumState
from storage.files import Files
from storage.ids import format_id
from storage.internal.cluster_image import BROKER_RESOURCE, ClusterImage
from storage.log_dir.names import CLUSTER_METADATA
from storage.store.store import Mode, Store

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


def test_no_secret_of_a_users_credentials_is_shown() -> None:
    user = {"name": "u", "mechanism": 2, "salt": b"s", "storedKey": b"k", "serverKey": b"k", "iterations": 4096}
    (row,) = ROWS["configs"](image_of(("UserScramCredentialRecord", user)))
    assert cells("configs", row) == ["user", "u", "SCRAM-SHA-512", "iterations=4096", "metadata log, offset 0"]


def test_the_level_of_the_metadata_has_the_name_of_its_release() -> None:
    levels = {"metadata.version": 21, "group.version": 1}
    image = image_of(*(("FeatureLevelRecord", {"name": name, "featureLevel": at}) for name, at in levels.items()))
    shown = [cells("features", row) for row in ROWS["features"](image)]
    assert shown == [["group.version", 1, None], ["kraft.version", 0, None], ["metadata.version", 21, "3.9-IV0"]]
    image.apply("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 99}, 2)
    assert [row["release"] for row in ROWS["features"](image)] == [None, None, None]


def test_the_voters_of_a_static_quorum_are_those_that_the_node_remembers() -> None:
    endpoint = {"name": "CONTROLLER", "host": "::1", "port": 9093, "securityProtocol": 0}
    image = image_of(("RegisterControllerRecord", {"controllerId": 2, "endPoints": [endpoint]}))
    rows = voter_rows(image, QuorumState(2, 7, (3, 2)))
    assert [cells("voters", row) for row in rows] == [
        [2, None, "CONTROLLER://[::1]:9093", "Leader", 7, "quorum-state"],
        [3, None, None, "Follower", 7, "quorum-state"],
    ]
    rows = voter_rows(image, QuorumState(-1, 8, (3,)))
    assert [cells("voters", row) for row in rows] == [[3, None, None, None, 8, "quorum-state"]]
    assert list(voter_rows(image, QuorumState(2, 7, ()))) == []
    assert list(voter_rows(image, None)) == []


def test_the_voters_of_the_log_are_shown_with_who_leads_them() -> None:
    image = ClusterImage()
    endpoint = {"name": "CONTROLLER", "host": "h", "port": 9093}
    supported = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    voter = {"voterId": 1, "voterDirectoryId": UUID(int=1 << 100), "endpoints": [endpoint]}
    image.apply_control("VotersRecord", {"voters": [{**voter, "kRaftVersionFeature": supported}]}, 0)
    (row,) = voter_rows(image, QuorumState(1, 4, ()))
    shown = [1, format_id(UUID(int=1 << 100)), "CONTROLLER://h:9093", "Leader", 4, "metadata log"]
    assert (cells("voters", row), row["maxSupportedVersion"]) == (shown, 1)


def test_a_quorum_state_that_no_broker_reads_is_damage_after_what_the_log_tells(
    datasets: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(datasets("kafka-3.9") / "kafka-3.9", tmp_path, dirs_exist_ok=True)
    paths = ",".join(str(tmp_path / name) for name in ("d1", "d2"))
    cat = ["cat", paths, ".kafkafs/cluster/voters"]
    assert CliRunner().invoke(main, cat).stdout.splitlines()[1].endswith("\tLeader\t4\tquorum-state")
    (file,) = tmp_path.glob("*/__cluster_metadata-0/quorum-state")
    file.write_bytes(b"{}")
    done = CliRunner().invoke(main, cat)
    assert (done.exit_code, done.stdout.count("\n")) == (3, 1)
    assert "quorum-state" in done.stderr
    file.unlink()
    assert CliRunner().invoke(main, cat).exit_code == 0


def test_bytes_that_are_no_text_stay_json() -> None:
    (line,) = json_lines([{"topic": "a\udcff"}]).splitlines()
    assert json.loads(line) == {"topic": "a\udcff"}
