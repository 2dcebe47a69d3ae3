"""Paths: every place of the contract's tree, one name at a time and all at once, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.locator.descent import child, parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.offsets import parse_offset_name
from kafkafs.locator.paths import (
    ClusterPath,
    ConfigPath,
    ControlPath,
    DamagedRangePath,
    GroupPath,
    OffsetPath,
    PartitionDirectoryPath,
    PartitionFilePath,
    PartitionPath,
    RootPath,
    SegmentPath,
    StoreDirectoryPath,
    StoreFilePath,
    StoreTimePath,
    TimePath,
    TopicPath,
    TreePath,
    UnattachedPath,
)
from kafkafs.locator.times import parse_time, parse_time_name
from kafkafs.locator.views import View
from storage.log_dir.names import DirectoryName, DirectoryState

ORDERS = TopicPath("orders")
ORDERS_0 = PartitionPath(ORDERS, 0)
HEX = "0123456789abcdef0123456789abcdef"
STRAY = UnattachedPath(DirectoryName("orders", 0, DirectoryState.STRAY, HEX))
STRAY_TEXT = f".kafkafs/unattached/orders-0.{HEX}-stray"

PLACES: list[tuple[str, TreePath]] = [
    ("", RootPath()),
    ("orders", ORDERS),
    (".hidden", TopicPath(".hidden")),
    ("offset", TopicPath("offset")),
    ("__consumer_offsets/49", PartitionPath(TopicPath("__consumer_offsets"), 49)),
    ("orders/config", ConfigPath(ORDERS)),
    ("orders/0", ORDERS_0),
    ("orders/2147483647", PartitionPath(ORDERS, 2**31 - 1)),
    ("orders/0/offset", PartitionDirectoryPath(ORDERS_0, View.OFFSET)),
    ("orders/0/by-time", PartitionDirectoryPath(ORDERS_0, View.BY_TIME)),
    ("orders/0/segments", PartitionDirectoryPath(ORDERS_0, View.SEGMENTS)),
    ("orders/0/append", PartitionFilePath(ORDERS_0, View.APPEND)),
    ("orders/0/append.jsonl", PartitionFilePath(ORDERS_0, View.APPEND_JSONL)),
    ("orders/0/append.kv", PartitionFilePath(ORDERS_0, View.APPEND_KV)),
    ("orders/0/append.raw", PartitionFilePath(ORDERS_0, View.APPEND_RAW)),
    ("orders/0/append.batch", PartitionFilePath(ORDERS_0, View.APPEND_BATCH)),
    ("orders/0/values", PartitionFilePath(ORDERS_0, View.VALUES)),
    ("orders/0/keys", PartitionFilePath(ORDERS_0, View.KEYS)),
    ("orders/0/records.jsonl", PartitionFilePath(ORDERS_0, View.RECORDS)),
    ("orders/0/info", PartitionFilePath(ORDERS_0, View.INFO)),
    ("orders/0/log-start-offset", PartitionFilePath(ORDERS_0, View.LOG_START_OFFSET)),
    ("orders/0/transactions", PartitionFilePath(ORDERS_0, View.TRANSACTIONS)),
    ("orders/0/producers", PartitionFilePath(ORDERS_0, View.PRODUCERS)),
    ("orders/0/leader-epochs", PartitionFilePath(ORDERS_0, View.LEADER_EPOCHS)),
    ("orders/0/retention.plan", PartitionFilePath(ORDERS_0, View.RETENTION_PLAN)),
    ("orders/0/compaction.plan", PartitionFilePath(ORDERS_0, View.COMPACTION_PLAN)),
    ("orders/0/damage.jsonl", PartitionFilePath(ORDERS_0, View.DAMAGE_LIST)),
    ("orders/0/damage", PartitionDirectoryPath(ORDERS_0, View.DAMAGE)),
    (f"orders/0/damage/{7:020}.log@4096", DamagedRangePath(ORDERS_0, 7, 4096)),
    ("orders/0/offset/42", OffsetPath(ORDERS_0, parse_offset_name("42"))),
    ("orders/0/offset/last-100...jsonl", OffsetPath(ORDERS_0, parse_offset_name("-100...jsonl"))),
    ("orders/0/by-time/now", TimePath(ORDERS_0, parse_time_name("now"))),
    (
        "orders/0/by-time/2026-11-21T10:15:30.250Z...json",
        TimePath(ORDERS_0, parse_time_name("2026-11-21T10:15:30.250...json")),
    ),
    ("orders/0/segments/00000000000000000000.log", SegmentPath(ORDERS_0, "00000000000000000000.log")),
    ("orders/0/segments/00000000000000000000.log.txt", SegmentPath(ORDERS_0, "00000000000000000000.log", is_text=True)),
    ("orders/0/segments/partition.metadata", SegmentPath(ORDERS_0, "partition.metadata")),
    ("orders/0/segments/.txt", SegmentPath(ORDERS_0, ".txt")),
    ("orders/0/segments/a b.txt.txt", SegmentPath(ORDERS_0, "a b.txt", is_text=True)),
    ("orders/0/segments/...txt", SegmentPath(ORDERS_0, "...txt")),
    (".kafkafs", ControlPath()),
    (".kafkafs/README", StoreFilePath(View.README)),
    (".kafkafs/version", StoreFilePath(View.VERSION)),
    (".kafkafs/options", StoreFilePath(View.OPTIONS)),
    (".kafkafs/metrics", StoreFilePath(View.METRICS)),
    (".kafkafs/log", StoreFilePath(View.LOG)),
    (".kafkafs/by-time", StoreDirectoryPath(View.STORE_BY_TIME)),
    (".kafkafs/by-time/-15m", StoreTimePath(parse_time("-15m"))),
    (".kafkafs/unattached", StoreDirectoryPath(View.UNATTACHED)),
    (STRAY_TEXT, STRAY),
    (f"{STRAY_TEXT}/offset/42", OffsetPath(STRAY, parse_offset_name("42"))),
    (f"{STRAY_TEXT}/values", PartitionFilePath(STRAY, View.VALUES)),
    (".kafkafs/groups", StoreDirectoryPath(View.GROUPS)),
    (".kafkafs/groups/a%2Fb", GroupPath("a%2Fb")),
    (f".kafkafs/groups/%sha256-{HEX}{HEX}", GroupPath(f"%sha256-{HEX}{HEX}")),
    (".kafkafs/cluster", StoreDirectoryPath(View.CLUSTER)),
    (".kafkafs/cluster/meta.properties", ClusterPath(None, "meta.properties")),
    (".kafkafs/cluster/12", ClusterPath(12, None)),
    (".kafkafs/cluster/12/meta.properties", ClusterPath(12, "meta.properties")),
    (".kafkafs/cluster/0", ClusterPath(None, "0")),
]

OUTSIDE = [
    *("..", "orders/..", "a b", "orders/0/..", "%2E", "x" * 250, "\u00e9", "\udcff", "a\n", "%2ekafkafs"),
    *("%2Ekafkafs2", "orders/-1", "orders/00", "orders/01", "orders/+1", "orders/2147483648"),
    *("orders/99999999999", "orders/\u0663", "orders/Config", "orders/append", "orders/0/config"),
    *("orders/0/append.txt", "orders/0/values.txt", "orders/0/42", "orders/config/x", "orders/0/values/x"),
    *("orders/0/offset/42/x", "orders/0/by-time/now/x", "orders/0/offset/now", "orders/0/by-time/42..43..44"),
    *("orders/0/by-time/all", "orders/0/segments/a/b", "orders/0/segments/a\0", "orders/0/segments/.."),
    *("by-time/now.json", "by-time/now..", "by-time/earliest", "by-time/now/x", ".kafkafs/readme"),
    *(".kafkafs/0", ".kafkafs/version/x", ".kafkafs/unattached/orders-0", ".kafkafs/unattached/x"),
    *(".kafkafs/groups/%41", ".kafkafs/groups/g/x", ".kafkafs/cluster/..", ".kafkafs/%2Ekafkafs"),
    *(".kafkafs/cluster/topics/orders", ".kafkafs/cluster/1/2/3", "orders/0/damage/x", "orders/0/groups"),
    *(f"orders/0/damage/{7:020}.log", f"orders/0/damage/{7:020}.log@07", f"orders/0/damage/{7:020}.index@7"),
]


@pytest.mark.parametrize(("text", "place"), PLACES)
def test_every_place_has_a_path(text: str, place: TreePath) -> None:
    assert parse_path(text) == place
    assert parse_path(f"/{text}") == place
    assert str(place) == f"/{text}"


@pytest.mark.parametrize(("text", "place"), PLACES)
def test_a_path_is_what_its_names_are_one_after_another(text: str, place: TreePath) -> None:
    found: TreePath = RootPath()
    for name in text.split("/"):
        if name:
            found = child(found, name)
    assert found == place


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (".", "/"),
        ("//", "/"),
        ("./orders//0/", "/orders/0"),
        ("orders/0/offset/-100..", "/orders/0/offset/last-100.."),
        ("orders/0/offset/0042.json", "/orders/0/offset/42.json"),
        ("orders/0/by-time/1795256130250.jsonl", "/orders/0/by-time/2026-11-21T10:15:30.250Z.jsonl"),
        ("by-time", "/.kafkafs/by-time"),
        ("by-time/2026-11-21", "/.kafkafs/by-time/2026-11-21T00:00:00.000Z"),
        ("%2Ekafkafs/0/values", "/%2Ekafkafs/0/values"),
    ],
)
def test_other_spellings(text: str, canonical: str) -> None:
    assert str(parse_path(text)) == canonical
    assert parse_path(canonical) == parse_path(text)


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_is_outside(text: str) -> None:
    with pytest.raises(BadNameError):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a b", "'a b' is not a topic: its name has up to 249 ASCII letters, digits, '.', '_' and '-'"),
        ("orders/x", "'x' is not in a topic; there are config and the numbers of its partitions"),
        (
            "orders/0/42",
            (
                "'42' is not in a partition; there are offset, by-time, segments, values, keys, records.jsonl, info, "
                "log-start-offset, transactions, producers, leader-epochs, retention.plan, compaction.plan, "
                "damage.jsonl, damage, append, append.jsonl, append.kv, append.raw, append.batch"
            ),
        ),
        ("orders/0/info/x", "'x' is not there: /orders/0/info is a file and has nothing in it"),
        (
            ".kafkafs/unattached/orders-0",
            "'orders-0' is not an unattached directory; their names end in -stray, -future ",
        ),
    ],
)
def test_a_refusal_says_what_there_is(text: str, sentence: str) -> None:
    with pytest.raises(BadNameError) as refusal:
        parse_path(text)
    assert str(refusal.value).startswith(sentence)


def test_a_topic_called_by_time_wins_that_name_at_the_root_alone() -> None:
    topic = TopicPath("by-time")
    assert parse_path("by-time/0/values", {"by-time"}) == PartitionFilePath(PartitionPath(topic, 0), View.VALUES)
    assert parse_path(str(topic), {"by-time"}) == topic
    assert parse_path(".kafkafs/by-time", {"by-time"}) == StoreDirectoryPath(View.STORE_BY_TIME)
    assert child(RootPath(), "by-time", {"orders": 1}) == StoreDirectoryPath(View.STORE_BY_TIME)


def test_a_topic_called_as_the_control_directory_is_reached_from_the_command_line_alone() -> None:
    assert parse_path("/%2Ekafkafs", {".kafkafs"}) == TopicPath(".kafkafs")
    assert parse_path("/.kafkafs", {".kafkafs"}) == ControlPath()
    assert child(RootPath(), ".kafkafs", {".kafkafs"}) == ControlPath()
    with pytest.raises(BadNameError):
        child(RootPath(), "%2Ekafkafs", {".kafkafs"})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "../x.txt", "orders-0.a/b-stray", "orders-0.\0-stray"])
@pytest.mark.parametrize(
    "parent", ["orders/0/segments", ".kafkafs/cluster", ".kafkafs/cluster/topics", ".kafkafs/unattached"]
)
def test_no_name_leads_elsewhere(parent: str, name: str) -> None:
    with pytest.raises(BadNameError):
        child(parse_path(parent), name)


NAMES = [
    *("orders", "by-time", ".kafkafs", "%2Ekafkafs", "0", "00", "offset", "segments", "values", "config", "groups"),
    *("", ".", "..", "cluster", "unattached", "last-10..", "-15m", "2026-11-21.json", "a.log.txt", "append.kv"),
    *("README", "\udcff"),
]


@given(
    st.lists(st.sampled_from(NAMES) | st.text(max_size=5), max_size=6).map("/".join), st.sets(st.sampled_from(NAMES))
)
def test_a_text_is_a_path_or_refused(text: str, topics: set[str]) -> None:
    try:
        place = parse_path(text, topics)
    except BadNameError:
        return
    assert parse_path(str(place), topics) == place
