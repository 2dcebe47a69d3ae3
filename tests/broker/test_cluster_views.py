"""What `.kafkafs/cluster` shows of running brokers is what Kafka's own tools say, change after change."""

from __future__ import annotations

import json
import os
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from real_brokers import releases
from waiting import until

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from real_brokers import Broker, RealKafka

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
CHANGES = int(os.environ.get("KAFKAFS_CLUSTER_CHANGES", "12"))
"""How many changes by chance; the seed is fixed."""

TOPIC_LINE = re.compile(
    r"^Topic: (\S+)\s+TopicId: (\S+)\s+PartitionCount: (\d+)\s+ReplicationFactor: (\d+)\s+Configs: ?(.*)$", re.MULTILINE
)
PARTITION_LINE = re.compile(r"^\s+Topic: (\S+)\s+Partition: (\d+)\s+(.*)$", re.MULTILINE)
PARTITION_PART = re.compile(r"(\w+): ([\d,]*|none|N/A)(?=\s|$)")
CONFIG_HEAD = re.compile(r"(?:Dynamic configs|Default configs) for (?:(\S+) (\S+) are|brokers in the cluster are):")
SETTING = re.compile(r"  (\S+)=(.*) sensitive=")
QUOTA = re.compile(r"^Quota configs for (.*) are (.*)$", re.MULTILINE)
ENTITY = re.compile(r"(?:the default )?(user-principal|client-id|ip)(?: '([^']*)')?")
CREDENTIALS = re.compile(r"^SCRAM credential configs for user-principal '([^']*)' are (.*)$", re.MULTILINE)
FEATURE = re.compile(r"Feature: (\S+)\s.*FinalizedVersionLevel: (\S+)")
ACL_HEAD = re.compile(r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)")
ACL = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")
STATUS = re.compile(r"^(\w+):\s+(.*)$", re.MULTILINE)
NO_LEADER = -1

Views = dict[str, Any]


class Sides:
    """What a broker's directory and its tools say, in one form."""

    def __init__(self, kafka: RealKafka, broker: Broker, version: str) -> None:
        self.kafka = kafka
        self.broker = broker
        self.version = version

    def tool(self, name: str, *arguments: object) -> str:
        return self.kafka.tool(name, "--bootstrap-server", self.broker.bootstrap, *arguments, version=self.version)

    def shown(self, view: str) -> list[dict[str, Any]]:
        paths = ",".join(map(str, self.broker.log_dirs))
        done = CliRunner().invoke(main, ["cat", paths, f".kafkafs/cluster/{view}.jsonl"])
        assert done.exit_code == 0, done.output
        return [json.loads(line) for line in done.stdout.splitlines()]

    def agree(self, *views: str) -> None:
        """Wait until both say the same of these views."""
        for view in views:
            self._agree(view, getattr(self, f"{view}_of_tools"), getattr(self, f"{view}_of_kafkafs"))

    def _agree(self, view: str, theirs: Callable[[], object], ours: Callable[[], object]) -> None:
        said: list[object] = []

        def same() -> bool:
            said[:] = [theirs(), ours()]
            return said[0] == said[1]

        until(same, lambda: f"theirs and ours: {said}")
        print(self.version, view, said[0])

    def topics_of_tools(self) -> Views:
        text = self.tool("TopicCommand", "--describe")
        found: Views = {
            name: (topic_id, int(count), int(replicas), pairs(settings), {})
            for name, topic_id, count, replicas, settings in TOPIC_LINE.findall(text)
        }
        for name, number, line in PARTITION_LINE.findall(text):
            parts = {key: value for key, value in PARTITION_PART.findall(line) if value != "N/A"}
            leader = NO_LEADER if parts["Leader"] == "none" else int(parts["Leader"])
            found[name][4][int(number)] = (leader, *(numbers(parts.get(key, "")) for key in LISTS))
        return found

    def topics_of_kafkafs(self) -> Views:
        # The tool adds what is set for all brokers, as 4 does itself for one setting.
        of_all = {row["key"]: row["value"] for row in self.shown("configs") if row["name"] == "(default)"}
        of_all = {key: value for key, value in of_all.items() if key in OF_BOTH}
        return {
            row["topic"]: (
                row["topicId"],
                len(row["partitions"]),
                len(row["partitions"][0]["replicas"]),
                of_all | row["settings"],
                {
                    each["partition"]: (each["leader"], *(each.get(name) or [] for name in LISTS.values()))
                    for each in row["partitions"]
                },
            )
            for row in self.shown("topics")
        }

    def configs_of_tools(self) -> Views:
        found: Views = {}
        for kind in ("topics", "brokers", "client-metrics", *(("groups",) if self.version == "4" else ())):
            where: tuple[str, str] | None = None
            for line in self.tool("ConfigCommand", "--describe", "--entity-type", kind).splitlines():
                if head := CONFIG_HEAD.match(line):
                    where = (
                        ("broker", "(default)")
                        if head[1] is None
                        else (head[1].replace("-metric", "-metrics"), head[2])
                    )
                elif where is not None and (setting := SETTING.match(line)):
                    found[(*where, setting[1])] = setting[2]
        for user, credentials in CREDENTIALS.findall(
            self.tool("ConfigCommand", "--describe", "--entity-type", "users")
        ):
            found |= {("user", user, key): value for key, value in pairs(credentials).items()}
        return found

    def configs_of_kafkafs(self) -> Views:
        return {(row["resource"], row["name"], row["key"]): row["value"] for row in self.shown("configs")}

    def quotas_of_tools(self) -> Views:
        found: Views = {}
        for kinds in (("users",), ("clients",), ("ips",), ("users", "clients")):
            types = [part for kind in kinds for part in ("--entity-type", kind)]
            for entity, quotas in QUOTA.findall(self.tool("ConfigCommand", "--describe", *types)):
                parts = frozenset(
                    (kind.replace("-principal", ""), name or None) for kind, name in ENTITY.findall(entity)
                )
                found |= {(parts, key): float(value) for key, value in pairs(quotas).items()}
        return found

    def quotas_of_kafkafs(self) -> Views:
        return {(frozenset(row["entity"].items()), row["quota"]): row["value"] for row in self.shown("quotas")}

    def features_of_tools(self) -> Views:
        return {
            name: level
            for name, level in FEATURE.findall(self.tool("FeatureCommand", "describe"))
            if level != "0" or name == "kraft.version"
        }

    def features_of_kafkafs(self) -> Views:
        return {row["feature"]: row["release"] or str(row["level"]) for row in self.shown("features")}

    def acls_of_tools(self) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        resource: tuple[str, ...] = ()
        for line in self.tool("AclCommand", "--list").splitlines():
            if head := ACL_HEAD.search(line):
                resource = head.groups()
            elif entry := ACL.search(line):
                found.add((*resource, *entry.groups()))
        return found

    def acls_of_kafkafs(self) -> set[tuple[str, ...]]:
        names = ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType")
        return {tuple(row[name] for name in names) for row in self.shown("acls")}

    def voters_of_tools(self) -> object:
        status = dict(STATUS.findall(self.tool("MetadataQuorumCommand", "describe", "--status")))
        voters = json.loads(status["CurrentVoters"])
        leader, epoch = int(status["LeaderId"]), int(status["LeaderEpoch"])
        return [
            (each["id"], each["endpoints"], "Leader" if each["id"] == leader else "Follower", epoch) for each in voters
        ]

    def voters_of_kafkafs(self) -> object:
        names = ("voterId", "endpoints", "status", "leaderEpoch")
        return [tuple(row[name] for name in names) for row in self.shown("voters")]


LISTS = {"Replicas": "replicas", "Isr": "isr", "Elr": "eligibleLeaderReplicas", "LastKnownElr": "lastKnownElr"}
"""What the tool calls the lists of a partition, and what we call them."""
OF_BOTH = {"min.insync.replicas"}
"""Settings that brokers and topics call the same, of those that are changed here."""


def pairs(text: str) -> dict[str, str]:
    """`key=value` each, with commas between them, and in some values too."""
    return dict(each.split("=", 1) for each in re.split(r", ?(?=[\w.-]+=)", text) if each)


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


class Changes:
    """Changes by chance, each with the views that it may have changed."""

    def __init__(self, sides: Sides, chance: random.Random) -> None:
        self.sides = sides
        self.chance = chance
        self.topics: dict[str, int] = {}
        self.made = 0

    def next(self) -> tuple[str, ...]:
        """Make a change, and return the views."""
        kinds = [self.create, self.create, self.set_topic, self.set_broker, self.set_quota, self.set_user, self.set_acl]
        if self.topics:
            kinds += [self.delete, self.grow, self.set_topic]
        return self.chance.choice(kinds)()

    def create(self) -> tuple[str, ...]:
        name = f"t.{self.made}-{'x' * self.chance.choice((1, 100))}"
        self.made += 1
        self.topics[name] = self.chance.randint(1, 4)
        settings = ["retention.ms=5", "cleanup.policy=compact,delete", "segment.bytes=1048576"]
        given = [part for each in self.chance.sample(settings, 2) for part in ("--config", each)]
        self.sides.tool("TopicCommand", "--create", "--topic", name, "--partitions", self.topics[name], *given)
        return ("topics",)

    def delete(self) -> tuple[str, ...]:
        name = self.chance.choice(list(self.topics))
        del self.topics[name]
        self.sides.tool("TopicCommand", "--delete", "--topic", name)
        return "topics", "configs"

    def grow(self) -> tuple[str, ...]:
        name = self.chance.choice(list(self.topics))
        self.topics[name] += 2
        self.sides.tool("TopicCommand", "--alter", "--topic", name, "--partitions", self.topics[name])
        return ("topics",)

    def alter(self, *arguments: object) -> None:
        self.sides.tool("ConfigCommand", "--alter", *arguments)

    def set_topic(self) -> tuple[str, ...]:
        if not self.topics:
            return self.create()
        which = ("--entity-type", "topics", "--entity-name", self.chance.choice(list(self.topics)))
        self.alter(*which, "--add-config", f"max.message.bytes={self.chance.randint(100, 999)},retention.ms=-1")
        if self.chance.random() < 0.5:
            self.alter(*which, "--delete-config", "max.message.bytes")
        return "topics", "configs"

    def set_broker(self) -> tuple[str, ...]:
        which = self.chance.choice([("--entity-default",), ("--entity-name", 1)])
        self.alter(
            "--entity-type", "brokers", *which, "--add-config", f"log.cleaner.threads={self.chance.randint(1, 2)}"
        )
        return ("configs",)

    def set_quota(self) -> tuple[str, ...]:
        user = ("--entity-type", "users", *self.chance.choice([("--entity-default",), ("--entity-name", "ä b")]))
        client = ("--entity-type", "clients", *self.chance.choice([("--entity-default",), ("--entity-name", "c")]))
        which = self.chance.choice([user, client, (*user, *client)])
        self.alter(*which, "--add-config", f"producer_byte_rate={self.chance.choice((0.5, 1000, 1e12))}")
        if self.chance.random() < 0.3:
            self.alter(*which, "--delete-config", "producer_byte_rate")
        return ("quotas",)

    def set_user(self) -> tuple[str, ...]:
        which = ("--entity-type", "users", "--entity-name", self.chance.choice(("alice", "bob")))
        mechanism = self.chance.choice(("SCRAM-SHA-256", "SCRAM-SHA-512"))
        self.alter(*which, "--add-config", f"{mechanism}=[iterations={self.chance.randint(4096, 9000)},password=x]")
        return ("configs",)

    def set_acl(self) -> tuple[str, ...]:
        resource = self.chance.choice([("--topic", "orders"), ("--group", "*"), ("--cluster",)])
        operation = self.chance.choice(("Describe", "All"))
        allow = self.chance.choice(("--allow-principal", "--deny-principal"))
        self.sides.tool("AclCommand", "--add", *resource, allow, "User:alice", "--operation", operation)
        return ("acls",)


@pytest.mark.parametrize("version", releases("3.9"))
def test_the_cluster_is_shown_as_its_tools_say(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    with real_kafka.broker(tmp_path / "one", SETTINGS, version=version) as broker:
        sides = Sides(real_kafka, broker, version)
        changes = Changes(sides, random.Random(13))
        for _ in range(CHANGES):
            sides.agree(*changes.next())
        sides.agree("topics", "configs", "quotas", "features", "acls", "voters")
        nodes = [(row["nodeId"], row["role"]) for row in sides.shown("brokers")]
        assert nodes == [(1, "broker"), (1, "controller")]


@pytest.mark.parametrize("version", releases("4"))
def test_leaders_and_replicas_of_a_cluster_that_loses_brokers(
    real_kafka: RealKafka, tmp_path: Path, version: str
) -> None:
    """From what a broker that is no voter has of the metadata log; 4 has replicas that are eligible to lead, too."""
    with real_kafka.cluster(tmp_path, version=version, brokers=2) as (first, second):
        sides = Sides(real_kafka, first, version)
        for name, least in (("strict", 2), ("loose", 1)):
            create = ("--topic", name, "--partitions", 3, "--replication-factor", 2)
            sides.tool("TopicCommand", "--create", *create, "--config", f"min.insync.replicas={least}")
        sides.agree("topics", "voters")
        for lose in (second.pause, second.kill):
            lose()
            until(lambda: all(each["isr"] == [1] for each in partitions(sides, "loose")), "the broker is missed")
            sides.agree("topics")
            if version == "4":
                assert {tuple(each["eligibleLeaderReplicas"]) for each in partitions(sides, "strict")} == {(2,)}
            second.resume() if lose == second.pause else None
            if lose == second.pause:
                until(lambda: all(len(each["isr"]) == 2 for each in partitions(sides, "loose")), "it is back")
                sides.agree("topics")
        sides.agree("topics", "voters", "features")


def partitions(sides: Sides, topic: str) -> Iterator[dict[str, Any]]:
    return (each for row in sides.shown("topics") if row["topic"] == topic for each in row["partitions"])
