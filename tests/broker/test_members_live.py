"""Groups of every kind of running brokers, their members and what those are assigned, are what Kafka's own tools say.

Both are asked again until they agree, since what they are asked about changes while they answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from click.testing import CliRunner
from real_brokers import releases
from tool_tables import tables
from waiting import until

from kafkafs.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from real_brokers import Broker, RealKafka

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
IDLE_TIME_MS_MAX = 180_000
"""After which a console's consumer ends by itself, so that none outlives a run that was killed."""
ASSIGNED = re.compile(r"([^\s,;:()]*)[:(](\d+(?:,\d+)*)")
"""`orders:0,1;clicks:0`, as 4 writes what a member is assigned; 3.9 writes `(0,1), (0)` and leaves the topics out."""


class Sides:
    """What the two say of a broker's groups."""

    def __init__(self, kafka: RealKafka, broker: Broker, version: str) -> None:
        self.kafka = kafka
        self.broker = broker
        self.version = version

    def tool(self, name: str, *arguments: object) -> str:
        return self.kafka.tool(name, "--bootstrap-server", self.broker.bootstrap, *arguments, version=self.version)

    def rows(self) -> list[dict[str, Any]]:
        result = CliRunner().invoke(main, ["groups", str(self.broker.log_dirs[0]), "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def agree(self, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
        """Wait until both say the same."""
        said: list[object] = []

        def same() -> bool:
            said[:] = [theirs(), ours()]
            return said[0] == said[1]

        until(same, lambda: f"theirs and ours: {said}")
        print(self.version, said[0])

    def listed(self) -> None:
        """Compare which groups there are, of which kind, and in which state."""

        def theirs() -> set[tuple[str, ...]]:
            rows = tables(self.tool("ConsumerGroupCommand", "--list", "--type", "--state"))
            return {(row["GROUP"], row["TYPE"], row["STATE"]) for row in rows}

        kinds = {"Classic", "Consumer"}
        self.agree(lambda: {(r["group"], r["kind"], r["state"]) for r in self.rows() if r["kind"] in kinds}, theirs)

    def members(self, *, tool: str = "ConsumerGroupCommand", kinds: tuple[str, ...] = ("Classic", "Consumer")) -> None:
        """Compare who is in which group, and what each is assigned."""
        which = ("--all-groups",) if tool == "ConsumerGroupCommand" else ("--group", "shared")

        def theirs() -> set[tuple[object, ...]]:
            rows = tables(self.tool(tool, "--describe", *which, "--members", "--verbose"))
            assigned = "CURRENT-ASSIGNMENT" if rows and "CURRENT-ASSIGNMENT" in rows[0] else "ASSIGNMENT"
            return {
                (
                    *(row["GROUP"], row["CONSUMER-ID"], row.get("GROUP-INSTANCE-ID", "").strip("-")),
                    *(row["HOST"], row["CLIENT-ID"], int(row["#PARTITIONS"])),
                    tuple(sorted(ASSIGNED.findall(row[assigned]))),
                )
                for row in rows
            }

        def ours() -> set[tuple[object, ...]]:
            found: dict[tuple[str, ...], dict[str, list[int]]] = {}
            for row in self.rows():
                if row["kind"] not in kinds or row["memberId"] is None:
                    continue
                member = (row["group"], row["memberId"], row["instanceId"] or "", row["host"], row["clientId"])
                topics = found.setdefault(member, {})
                if row["topic"] is not None:
                    topics.setdefault(row["topic"], []).append(row["partition"])
            return {(*member, sum(map(len, topics.values())), lists(topics)) for member, topics in found.items()}

        def lists(topics: dict[str, list[int]]) -> tuple[tuple[str, str], ...]:
            name = str if self.version == "4" else lambda _: ""
            return tuple(sorted((name(topic), ",".join(map(str, sorted(of)))) for topic, of in topics.items()))

        self.agree(ours, theirs)

    def shares(self) -> None:
        """Compare where the share group is."""

        def theirs() -> set[tuple[str, ...]]:
            rows = tables(self.tool("ShareGroupCommand", "--describe", "--group", "shared"))
            return {(row["TOPIC"], row["PARTITION"], row["START-OFFSET"], row["LAG"]) for row in rows}

        def ours() -> set[tuple[str, ...]]:
            rows = [row for row in self.rows() if row["group"] == "shared" and row["topic"] is not None]
            cells = ((row["topic"], row["partition"], row["startOffset"], row["lag"]) for row in rows)
            return {tuple("-" if cell is None else str(cell) for cell in row) for row in cells}

        self.agree(ours, theirs)

    def streams(self) -> None:
        """Compare where the streams group is, and its state.

        Where it has committed nothing the tool takes the log's start for it, and we say that its lag is not known.
        """

        def theirs() -> tuple[set[tuple[str, ...]], str]:
            describe = ("StreamsGroupCommand", "--describe", "--group", "flow")
            rows = tables(self.tool(*describe, "--verbose"))
            state = tables(self.tool(*describe, "--state"))[0]["STATE"]
            return {
                (
                    *(row["TOPIC"], row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"]),
                    row["OFFSET-LAG"] if row["CURRENT-OFFSET"] != "-" else "-",
                )
                for row in rows
            }, state

        def ours() -> tuple[set[tuple[str, ...]], str]:
            rows = [row for row in self.rows() if row["group"] == "flow"]
            names = ("topic", "partition", "committedOffset", "endOffset", "lag")
            cells = ([row[name] for name in names] for row in rows if row["topic"] is not None)
            [state] = {row["state"] for row in rows}
            return {tuple("-" if cell is None else str(cell) for cell in row) for row in cells}, state

        self.agree(ours, theirs)

    def console(self, name: str, *arguments: object) -> AbstractContextManager[None]:
        """Have a consumer of the console run in the block."""
        to = ("--bootstrap-server", self.broker.bootstrap, "--topic", "orders", "--timeout-ms", IDLE_TIME_MS_MAX)
        return self.kafka.running_tool(name, *to, *arguments, version=self.version)


@pytest.mark.parametrize("version", releases("3.9"))
def test_members_of_groups_that_come_and_go(real_kafka: RealKafka, tmp_path: Path, version: str) -> None:
    settings = SETTINGS if version == "4" else {"group.coordinator.rebalance.protocols": "classic,consumer"}
    with real_kafka.broker(tmp_path / "one", SETTINGS | settings, version=version) as broker:
        sides = Sides(real_kafka, broker, version)
        sides.tool("TopicCommand", "--create", "--topic", "orders", "--partitions", 4)
        sides.tool("TopicCommand", "--create", "--topic", "clicks", "--partitions", 1)
        asyncio.run(classic(sides))
        options = ("--consumer-property", "group.protocol=consumer", "--group", "new")
        with sides.console("ConsoleConsumer", "--from-beginning", *options):
            until(lambda: any(row["group"] == "new" and row["lag"] == 0 for row in sides.rows()), "it has read")
            sides.members()
            sides.listed()
        sides.members()
        sides.tool("ConsumerGroupCommand", "--delete", "--group", "old")
        sides.listed()


async def classic(sides: Sides) -> None:
    """Members of a classic group come and go, while they are looked at; one of them is static."""
    bootstrap = sides.broker.bootstrap
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for number in range(20):
            await producer.send_and_wait("orders", b"%d" % number, partition=number % 4)
    options = {"bootstrap_servers": bootstrap, "group_id": "old", "auto_offset_reset": "earliest"}
    first = AIOKafkaConsumer("orders", "clicks", client_id="reader", group_instance_id="static-1", **options)
    second = AIOKafkaConsumer("orders", client_id="other", **options)
    await first.start()
    await asyncio.to_thread(sides.members)
    await second.start()
    await asyncio.to_thread(sides.members)
    await asyncio.to_thread(sides.listed)
    await second.stop()
    await asyncio.to_thread(sides.members)
    await first.stop()
    await asyncio.to_thread(sides.listed)


def test_a_share_group_that_reads(real_kafka: RealKafka, tmp_path: Path) -> None:
    with real_kafka.broker(tmp_path / "one", SETTINGS, version="4") as broker:
        sides = Sides(real_kafka, broker, "4")
        sides.tool("TopicCommand", "--create", "--topic", "orders", "--partitions", 2)
        produce(broker, 20)
        which = ("--entity-type", "groups", "--entity-name", "shared")
        sides.tool("ConfigCommand", "--alter", *which, "--add-config", "share.auto.offset.reset=earliest")
        sides.tool("ConsoleShareConsumer", "--topic", "orders", "--group", "shared", "--max-messages", 7)
        sides.shares()
        produce(broker, 10)
        sides.shares()
        with sides.console("ConsoleShareConsumer", "--group", "shared"):
            until(lambda: any(row["memberId"] and row["lag"] == 0 for row in sides.rows()), "it has read")
            sides.members(tool="ShareGroupCommand", kinds=("Share",))
            sides.shares()
        sides.shares()
        topic = ("--group", "shared", "--topic", "orders")
        sides.tool("ShareGroupCommand", "--reset-offsets", "--to-earliest", "--execute", *topic)
        sides.shares()
        sides.tool("ShareGroupCommand", "--delete-offsets", *topic)
        sides.shares()
        assert {(row["group"], row["topic"], row["state"]) for row in sides.rows()} == {("shared", None, "Empty")}


def test_a_streams_group_that_commits(real_kafka: RealKafka, tmp_path: Path) -> None:
    with real_kafka.broker(tmp_path / "one", SETTINGS, version="4") as broker:
        sides = Sides(real_kafka, broker, "4")
        sides.tool("TopicCommand", "--create", "--topic", "orders", "--partitions", 2)
        produce(broker, 20)
        with real_kafka.streams_member(broker, "flow", "orders") as member:
            sides.streams()
            assert member("1 4") == "committed"
            sides.streams()
            assert member("0 10") == "committed"
            sides.streams()
            rows = {(row["memberId"], row["clientId"], row["kind"]) for row in sides.rows()}
            assert rows == {("streams-member-0", "streams-client", "Streams")}
            assert member("leave") == "left"
        # The tool leaves out the offsets of a group without members, which are still there.
        listed = tables(sides.tool("StreamsGroupCommand", "--list", "--state"))
        assert [(row["GROUP"], row["STATE"]) for row in listed] == [("flow", "Empty")]
        rows = {(row["partition"], row["committedOffset"], row["memberId"], row["state"]) for row in sides.rows()}
        assert rows == {(0, 10, None, "Empty"), (1, 4, None, "Empty")}


def produce(broker: Broker, count: int) -> None:
    """Append so many records to the two partitions of `orders`, in turn."""

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(count):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)

    asyncio.run(send())
