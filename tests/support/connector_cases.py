"""Sets of options for Spark's Kafka source and ours, by what comes of them beside a broker with the topics of `fill`.

`SAME` gives the same rows. `REFUSED` are errors of both, with the words that both have. `IN_OTHER_WORDS` are errors of
both with words for each. `DIFFERENT` are the differences: how many rows each gives, or the words of its error, and the
sentence of the page on Spark that says so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from broker_clients import create_topic, delete_records

if TYPE_CHECKING:
    from typing import TypeAlias

    Options: TypeAlias = dict[str, str]

BASE: Final = 1_700_000_000_000
ORDERS: Final = {0: 20, 1: 10}
ONE: Final = {"subscribe": "orders"}


class Difference(NamedTuple):
    """What comes of options in each, and how the page says it."""

    options: Options
    theirs: int | str
    ours: int | str
    page: str


def orders(first: object, second: object, **more: object) -> str:
    """Return a value for each partition of `orders`, as the options have it."""
    return json.dumps({"orders": {"0": first, "1": second, **more}})


async def fill(bootstrap: str) -> None:
    """Make topics with records of every kind, ten milliseconds apart."""
    for topic, partitions in (("orders", 2), ("other", 1), ("odd.topic-1", 1), ("aborted", 1), ("begun", 1)):
        await create_topic(bootstrap, topic, partitions)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        headers = [("h", b"1"), ("h", None), ("empty", b"")]
        for partition, count in ORDERS.items():
            for number in range(count):
                at = {"partition": partition, "timestamp_ms": BASE + 10 * number}
                await producer.send("orders", b"%d" % number, headers=headers * (number % 2), **at)
        for topic, count in (("other", 5), ("begun", 8)):
            for number in range(count):
                await producer.send(topic, b"%d" % number, b"key", partition=0, timestamp_ms=BASE + 10 * number)
        await producer.send("odd.topic-1", None, b"tombstone", partition=0)
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="app") as producer:
        for turn in range(4):
            await producer.begin_transaction()
            await producer.send("aborted", b"%d" % turn, partition=0)
            await (producer.abort_transaction() if turn % 2 else producer.commit_transaction())
    await delete_records(bootstrap, "begun", 0, before_offset=3)


SAME: Final[list[Options]] = [
    ONE,
    {"subscribe": " orders , other,, orders"},
    {"SUBSCRIBE": "orders", "STARTINGOFFSETS": " EARLIEST ", "endingOffsets": "Latest"},
    {"subscribePattern": "o[rt].*"},
    {"subscribePattern": " rder "},
    {"subscribePattern": ".*"},
    {"subscribePattern": "^nothing$"},
    {"assign": '{"orders":[1]}'},
    {"assign": '{"orders":[0,0],"other":[0]}'},
    {"assign": "{}"},
    {"subscribe": "odd.topic-1"},
    {"subscribe": "begun"},
    {"subscribe": "begun", "startingOffsets": '{"begun":{"0":0}}', "failOnDataLoss": "false"},
    {"subscribe": "aborted"},
    {"subscribe": "aborted", "kafka.isolation.level": "read_committed"},
    {**ONE, "includeHeaders": "TRUE"},
    {**ONE, "startingOffsets": orders(7, 2)},
    {**ONE, "startingOffsets": orders(7, -2)},
    {**ONE, "startingOffsets": orders(20, 3)},
    {**ONE, "endingOffsets": orders(7, 2)},
    {**ONE, "endingOffsets": orders(7, -1)},
    {**ONE, "startingOffsets": orders(7, 3), "endingOffsets": orders(7, 5)},
    {**ONE, "startingTimestamp": str(BASE + 50)},
    {**ONE, "startingTimestamp": str(BASE + 55)},
    {**ONE, "startingTimestamp": "0"},
    {**ONE, "startingTimestamp": "1700000000"},
    {**ONE, "startingTimestamp": str(BASE + 95), "startingOffsetsByTimestampStrategy": "latest"},
    {**ONE, "endingTimestamp": str(BASE + 50)},
    {**ONE, "endingTimestamp": str(BASE + 95)},
    {**ONE, "startingTimestamp": str(BASE + 50), "endingTimestamp": str(BASE + 50)},
    {**ONE, "startingOffsetsByTimestamp": orders(BASE + 50, BASE + 20)},
    {**ONE, "endingOffsetsByTimestamp": orders(BASE + 50, BASE + 20)},
    {
        **ONE,
        "startingTimestamp": str(BASE + 50),
        "startingOffsetsByTimestamp": orders(BASE, BASE),
        "startingOffsets": "earliest",
    },
    {**ONE, "startingTimestamp": str(BASE + 50), "endingOffsets": orders(9, 7)},
    {**ONE, "minPartitions": "5"},
    {**ONE, "maxRecordsPerPartition": "6"},
    {**ONE, "kafka.group.id": "group"},
    {**ONE, "groupIdPrefix": "prefix"},
    {**ONE, "kafka.max.poll.records": "2"},
    {**ONE, "maxOffsetsPerTrigger": "x", "unknown": "y"},
]

REFUSED: Final[list[tuple[Options, str]]] = [
    ({"subscribe": "orders", "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
    ({"subscribe": ""}, "No topics to subscribe to as specified value for option 'subscribe' is ''"),
    ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
    (
        {"subscribePattern": " "},
        "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ' '",
    ),
    ({"assign": "orders"}, "No topicpartitions to assign as specified value for option 'assign' is 'orders'"),
    ({"assign": '{"orders":1}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"orders":1}'),
    ({**ONE, "startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
    ({**ONE, "endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
    ({**ONE, "startingOffsets": orders(7, -1)}, "startingOffsets for orders-1 can't be latest for batch queries"),
    ({**ONE, "endingOffsets": orders(7, -2)}, "ending offset for orders-1 can't be earliest for batch queries"),
    ({**ONE, "startingOffsets": "soon"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got soon'),
    ({**ONE, "startingOffsets": "[1]"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got [1]'),
    (
        {**ONE, "startingOffsets": orders(7, 3), "endingOffsets": orders(6, 3)},
        "The specified start offset 7 is greater than the end offset 6 for topic orders partition 0.",
    ),
    (
        {**ONE, "startingOffsets": orders(7, 3), "endingOffsets": '{"orders":{"0":9}}'},
        "Topic-partitions for start offset: orders-0, orders-1, topic-partitions for end offset: orders-0.",
    ),
    (
        {**ONE, "startingOffsets": orders(99, 3)},
        "The resolved start offset 99 is greater than the resolved end offset 20 for topic orders partition 0",
    ),
    (
        {**ONE, "startingOffsets": orders(99, 3), "failOnDataLoss": "false"},
        "The resolved start offset 99 is greater than the resolved end offset 20 for topic orders partition 0",
    ),
    (
        {**ONE, "startingTimestamp": str(BASE + 50), "endingTimestamp": str(BASE + 40)},
        "The resolved start offset 5 is greater than the resolved end offset 4 for topic orders partition 0",
    ),
    (
        {**ONE, "startingTimestamp": str(BASE + 50), "endingOffsets": orders(2, 9)},
        "The resolved start offset 5 is greater than the resolved end offset 2 for topic orders partition 0",
    ),
    (
        {**ONE, "startingOffsets": orders(9, 2), "endingTimestamp": str(BASE + 50)},
        "The resolved start offset 9 is greater than the resolved end offset 5 for topic orders partition 0",
    ),
    (
        {
            **ONE,
            "startingOffsetsByTimestamp": orders(BASE + 50, BASE + 20),
            "endingOffsetsByTimestamp": orders(BASE + 40, BASE + 20),
        },
        f"The specified start timestamp {BASE + 50} is greater than the end timestamp {BASE + 40} for topic orders",
    ),
    (
        {**ONE, "startingTimestamp": str(BASE + 95)},
        f"No offset matched from request of topic-partition orders-1 and timestamp {BASE + 95}.",
    ),
    (
        {"subscribe": "begun", "startingOffsets": '{"begun":{"0":0}}'},
        "Some data may have been lost because they are not",
    ),
    ({**ONE, "minPartitions": "0"}, "minPartitions must be positive"),
    ({**ONE, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
]

_TIMES: Final = "is not a time; these are: 1732147200000, 2026-11-21, "

IN_OTHER_WORDS: Final[list[tuple[Options, str, str]]] = [
    ({"subscribe": "none"}, "This server does not host this topic-partition", "there is no topic 'none' in the store"),
    ({"subscribe": "orders,none"}, "This server does not host this topic-partition", "there is no topic 'none'"),
    ({"assign": '{"none":[0]}'}, "This server does not host this topic-partition", "there is no partition none-0"),
    ({"subscribe": "a/b"}, "InvalidTopicException", "there is no topic 'a/b'"),
    ({"subscribePattern": "("}, "Unclosed group", "the option subscribePattern is no regular expression"),
    (
        {**ONE, "startingOffsets": '{"orders":{"0":7}}'},
        "Specified: Set(orders-0) Assigned: Set(",
        "you must specify all",
    ),
    ({**ONE, "startingOffsets": orders(7, 0, **{"2": 0})}, "Assigned: Set(", "you must specify all TopicPartitions"),
    ({**ONE, "startingOffsets": '{"other":{"0":7}}'}, "Specified: Set(other-0)", "you must specify all"),
    (
        {**ONE, "endingOffsets": '{"orders":{"0":7}}'},
        "Specified: Set(orders-0)",
        "you must specify all TopicPartitions",
    ),
    ({**ONE, "startingOffsetsByTimestamp": '{"orders":{"0":5}}'}, "Specified: Set(orders-0)", "you must specify all"),
    ({**ONE, "startingOffsets": orders(-3, 0)}, "earliest offset -3 does not equal -2", "Expected e.g."),
    ({**ONE, "startingTimestamp": "soon"}, "Expected a single long value, got soon", _TIMES),
    ({**ONE, "startingTimestamp": "-5"}, "No offset matched from request of topic-partition orders-0", _TIMES),
    (
        {**ONE, "startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "soon"},
        "No value found for 'SOON'",
        "the option startingOffsetsByTimestampStrategy is one of error, latest, not 'soon'",
    ),
    ({**ONE, "minPartitions": "x"}, 'For input string: "x"', "the option minPartitions is a number, not 'x'"),
    ({**ONE, "includeHeaders": "x"}, 'For input string: "x"', "the option includeHeaders is true or false, not 'x'"),
    ({**ONE, "failOnDataLoss": "x"}, 'For input string: "x"', "the option failOnDataLoss is true or false, not 'x'"),
    (
        {"subscribe": "aborted", "kafka.isolation.level": "x"},
        "Invalid value x for configuration isolation.level",
        "the option kafka.isolation.level is one of read_uncommitted, read_committed, not 'x'",
    ),
]

_REFUSES: Final = "which kafkafs does not match as Java does"
_PATTERNS: Final = "what only Java's have is refused by its name"
_CLIENT: Final = "Other options of a Kafka client (`kafka.…`) are passed over"
_MISSING: Final = "a partition that is assigned and not there is an error"

DIFFERENT: Final[list[Difference]] = [
    Difference({"assign": '{"orders":[0,7]}'}, 20, "there is no partition orders-7", _MISSING),
    Difference({"assign": '{"orders":[-1]}'}, 0, 'Expected e.g. {"topicA":[0,1]', _MISSING),
    Difference({"subscribePattern": r"^ot\p{Lower}+"}, 5, _REFUSES, _PATTERNS),
    Difference({"subscribePattern": r"\Qodd.\E"}, 1, _REFUSES, _PATTERNS),
    Difference({"subscribePattern": "^[a-z&&[^dt]]+$"}, 5, _REFUSES, _PATTERNS),
    Difference({**ONE, "kafka.auto.offset.reset": "latest"}, "Kafka option 'auto.offset.reset' is not", 30, _CLIENT),
    Difference({**ONE, "kafka.key.deserializer": "x"}, "Kafka option 'key.deserializer' is not supported", 30, _CLIENT),
    Difference({**ONE, "kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported", 30, _CLIENT),
    Difference(
        {**ONE, "startingTimestamp": "2023-11-14T22:13:20.050Z"},
        "Expected a single long value",
        20,
        "milliseconds since 1970, or a time such as",
    ),
    Difference(
        {**ONE, "startingOffsetsByTimestamp": orders("2023-11-14T22:13:20.050Z", "2023-11-14T22:13:20.050Z")},
        "Expected e.g.",
        20,
        "milliseconds since 1970, or a time such as",
    ),
]
