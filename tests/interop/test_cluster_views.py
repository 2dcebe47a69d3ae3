"""What `.kafkafs/cluster` shows of a running broker is what Kafka's own tools say, change after change."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from waiting import until

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import Broker, RealKafka

pytestmark = pytest.mark.interop

SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
TOPIC_LINE = re.compile(r"^Topic: (\S+)\s+TopicId: (\S+)\s+PartitionCount: (\d+)\s.*Configs: ?(.*)$", re.MULTILINE)
SETTING = re.compile(r"^  (\S+)=(\S*) sensitive=", re.MULTILINE)


def shown(broker: Broker, view: str) -> list[dict[str, Any]]:
    paths = ",".join(map(str, broker.log_dirs))
    done = CliRunner().invoke(main, ["cat", paths, f".kafkafs/cluster/{view}.jsonl"])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("version", ["3.9", "4"])
def test_the_cluster_is_shown_as_its_tools_say(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with real_kafka.broker(tmp_path / "one", SETTINGS, version=version) as broker:

        def tool(name: str, *arguments: object) -> str:
            return real_kafka.tool(name, "--bootstrap-server", broker.bootstrap, *arguments, version=version)

        def topics_are_told() -> bool:
            told = {
                name: (topic_id, int(partitions), dict(each.split("=", 1) for each in settings.split(",") if each))
                for name, topic_id, partitions, settings in TOPIC_LINE.findall(tool("TopicCommand", "--describe"))
            }
            # The tool adds what is set for all brokers, as 4 does itself for one setting.
            of_all = {row["key"]: row["value"] for row in shown(broker, "configs") if row["name"] == "(default)"}
            found = {
                row["topic"]: (row["topicId"], len(row["partitions"]), of_all | row["settings"])
                for row in shown(broker, "topics")
            }
            return bool(told) and {name: found.get(name) for name in told} == told and set(found) == set(told)

        def settings_are_told(kind: str, option: str, name: str) -> bool:
            told = dict(SETTING.findall(tool("ConfigCommand", "--describe", option, name)))
            rows = [row for row in shown(broker, "configs") if (row["resource"], row["name"]) == (kind, name)]
            return bool(told) and {row["key"]: row["value"] for row in rows} == told

        tool("TopicCommand", "--create", "--topic", "orders", "--partitions", 3, "--config", "retention.ms=86400000")
        tool("TopicCommand", "--create", "--topic", "clicks", "--config", "cleanup.policy=compact")
        until(topics_are_told, broker.bootstrap)
        alter = ("ConfigCommand", "--alter", "--entity-type")
        tool(*alter, "topics", "--entity-name", "orders", "--add-config", "retention.ms=1000,segment.bytes=1048576")
        tool(*alter, "topics", "--entity-name", "orders", "--delete-config", "retention.ms")
        tool(*alter, "brokers", "--entity-name", 1, "--add-config", "log.cleaner.threads=2")
        tool(*alter, "clients", "--entity-name", "c", "--add-config", "producer_byte_rate=1024")
        until(lambda: settings_are_told("topic", "--topic", "orders"), broker.bootstrap)
        until(lambda: settings_are_told("broker", "--broker", "1"), broker.bootstrap)
        quota = {"entity": {"client-id": "c"}, "quota": "producer_byte_rate", "value": 1024.0}
        until(lambda: shown(broker, "quotas") == [quota], broker.bootstrap)
        tool("TopicCommand", "--delete", "--topic", "clicks")
        tool("TopicCommand", "--alter", "--topic", "orders", "--partitions", 4)
        until(topics_are_told, broker.bootstrap)
        assert [(row["nodeId"], row["role"]) for row in shown(broker, "brokers")] == [(1, "broker"), (1, "controller")]
