"""The options of the source, by the names, forms and error texts of Spark's own Kafka source. Spark is not needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.locator.times import Ago, Instant
from kafkafs.spark.bounds import AtOffsets, AtTime, AtTimes, Edge, NoMatch
from kafkafs.spark.errors import OptionError
from kafkafs.spark.json_forms import flat, nested, partition_offsets, partitions
from kafkafs.spark.limits import limited
from kafkafs.spark.options import BatchOptions, StreamOptions, includes_headers, parse_paths
from kafkafs.spark.selection import Assignment, Everything, Subscription
from storage.log.view import Isolation

PATH = {"path": "/store"}
OFFSETS = st.dictionaries(st.tuples(st.sampled_from(["a", "b", "c.d"]), st.integers(0, 3)), st.integers(0, 2**63 - 1))


def test_a_store_is_read_whole_where_nothing_is_said() -> None:
    options = BatchOptions.parse(PATH)
    assert options.store.paths == ("/store",)
    assert options.store.selection == Everything()
    assert (options.store.starting, options.ending) == (Edge.EARLIEST, Edge.LATEST)
    assert options.store.isolation is Isolation.UNCOMMITTED
    assert options.store.fails_on_data_loss
    assert not options.store.skips_damage
    assert options.store.split_bytes == 32 << 20
    stream = StreamOptions.parse(PATH)
    assert stream.store.starting is Edge.LATEST
    assert (stream.offsets_max, stream.offsets_min, stream.delay_ms_max) == (None, None, 900_000)
    assert StreamOptions.parse({**PATH, "lagFile": "file:/x/lag.json"}).lag_file == "/x/lag.json"


def test_names_are_not_told_apart_by_their_case_and_others_are_ignored() -> None:
    options = BatchOptions.parse(
        {
            **PATH,
            "SUBSCRIBE": " a , b,,a",
            "Kafka.Isolation.Level": "READ_COMMITTED",
            "failondataloss": "False",
            "minPartitions": "7",
            "maxRecordsPerPartition": "9",
            "startingOffsetsByTimestampStrategy": "latest",
            "kafka.bootstrap.servers": "localhost:9092",
            "whatever": "x",
        }
    )
    assert options.store.selection == Subscription(("a", "b"))
    assert options.store.isolation is Isolation.COMMITTED
    assert not options.store.fails_on_data_loss
    assert (options.store.partitions_min, options.store.records_max) == (7, 9)
    assert options.store.no_match is NoMatch.LATEST
    assert includes_headers({"INCLUDEHEADERS": "true"})


def test_bounds_have_the_forms_of_spark_and_times_those_of_the_grammar() -> None:
    offsets = '{"a":{"0":23,"1":-2}}'
    options = BatchOptions.parse(
        {**PATH, "assign": '{"a":[1,0]}', "startingOffsets": offsets, "endingTimestamp": "-15m"}
    )
    assert options.store.selection == Assignment((("a", 0), ("a", 1)))
    assert options.store.starting == AtOffsets({("a", 0): 23, ("a", 1): -2})
    assert options.ending == AtTime(Ago(900_000))
    by_time = json.dumps({"a": {"0": 5, "1": "1970-01-02"}})
    both = {**PATH, "startingOffsetsByTimestamp": by_time, "startingOffsets": "earliest"}
    assert BatchOptions.parse(both).store.starting == AtTimes({("a", 0): Instant(5), ("a", 1): Instant(86_400_000)})
    assert BatchOptions.parse({**both, "startingTimestamp": "7"}).store.starting == AtTime(Instant(7))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "the path of a store is missing"),
        (
            {},
            "CREATE TEMPORARY VIEW … USING kafkafs OPTIONS (path '/var/lib/kafka'), as Spark gives a source ",
        ),
        ({**PATH, "subscribe": "a", "subscribePattern": "b"}, "Only one of the following options can be specified"),
        ({**PATH, "subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({**PATH, "subscribePattern": " "}, "Pattern to subscribe is empty as specified value"),
        ({**PATH, "subscribePattern": "("}, "the option subscribePattern is no regular expression that"),
        ({**PATH, "assign": "a"}, "No topicpartitions to assign as specified value for option 'assign' is 'a'"),
        ({**PATH, "assign": '{"a":1}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"a":1}'),
        ({**PATH, "startingOffsets": "soon"}, 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}, got soon'),
        ({**PATH, "startingOffsets": '{"a":{"0":-3}}'}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
        ({**PATH, "startingOffsets": '{"a":{"x":1}}'}, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
        ({**PATH, "startingOffsetsByTimestamp": '{"a":{"0":null}}'}, 'Expected e.g. {"topicA": {"0": 123456789'),
        ({**PATH, "startingTimestamp": "soon"}, "the option startingTimestamp: 'soon' is not a time"),
        (
            {**PATH, "startingOffsets": '{"a":{"0":7}}', "endingOffsets": '{"a":{"0":6}}'},
            "The specified start offset 7 is greater than the end offset 6 for topic a partition 0.",
        ),
        (
            {**PATH, "startingOffsets": '{"a":{"0":7}}', "endingOffsets": '{"a":{"0":7,"1":7}}'},
            "Topic-partitions for start offset: a-0, topic-partitions for end offset: a-0, a-1.",
        ),
        (
            {
                **PATH,
                "startingOffsetsByTimestamp": '{"a":{"0":"now"}}',
                "endingOffsetsByTimestamp": '{"a":{"0":7}}',
            },
            "is greater than the end timestamp 7 for topic a partition 0.",
        ),
        ({**PATH, "startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({**PATH, "startingOffsets": '{"a":{"0":-1}}'}, "startingOffsets for a-0 can't be latest for batch queries"),
        ({**PATH, "endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({**PATH, "endingOffsets": '{"a":{"0":-2}}'}, "ending offset for a-0 can't be earliest for batch queries"),
        ({**PATH, "maxRecordsPerPartition": "0"}, "maxRecordsPerPartition must be positive"),
        ({**PATH, "minPartitions": "0"}, "minPartitions must be positive"),
        ({**PATH, "minPartitions": "few"}, "the option minPartitions is a number, not 'few'"),
        ({**PATH, "failOnDataLoss": "no"}, "the option failOnDataLoss is true or false, not 'no'"),
        ({**PATH, "damageDirectory": "/d"}, "the option damageDirectory goes with the option damage, which is skip"),
        ({**PATH, "kafka.isolation.level": "none"}, "is one of read_uncommitted, read_committed, not 'none'"),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        BatchOptions.parse(options)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": "1"}, "ending timestamp not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": "{}"}, "ending timestamp not valid in streaming queries"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "The value of minOffsetPerTrigger(5) is higher than the maxOffsetsPerTrigger(4).",
        ),
        ({"maxTriggerDelay": "long"}, "the option maxTriggerDelay is a time such as 15m, not 'long'"),
    ],
)
def test_what_no_stream_can_have_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        StreamOptions.parse({**PATH, **options})
    assert said in str(raised.value)


def test_paths_are_absolute_and_may_be_several() -> None:
    assert parse_paths({"path": "/a, file:///b,file:/c"}) == ("/a", "/b", "/c")
    assert parse_paths({"paths": '["/a","/b,/c"]'}) == ("/a", "/b", "/c")
    assert parse_paths({"path": "here"}) == (str(Path.cwd() / "here"),)


@given(OFFSETS)
def test_offsets_come_back_from_their_form(offsets: dict[tuple[str, int], int]) -> None:
    form = nested(offsets)
    assert flat(json.loads(json.dumps(form))) == offsets == partition_offsets(json.dumps(form))
    assert set(partitions(json.dumps({topic: [int(each) for each in form[topic]] for topic in form}))) == set(offsets)


@given(OFFSETS, OFFSETS, st.integers(1, 10**6))
def test_a_limit_is_shared_out_and_starves_no_partition(
    some: dict[tuple[str, int], int], others: dict[tuple[str, int], int], limit: int
) -> None:
    start = {each: min(offset, others.get(each, offset)) for each, offset in some.items()}
    end = {each: max(offset, others.get(each, offset)) for each, offset in some.items()}
    ends = limited(limit, start, end)
    assert ends.keys() == end.keys()
    grown = [each for each in end if end[each] > start[each]]
    assert all(start[each] < ends[each] <= end[each] for each in grown)
    assert sum(ends[each] - start[each] for each in grown) <= limit + len(grown)
    total = sum(end[each] - start[each] for each in grown)
    assert total > limit or all(end[each] - ends[each] <= 1 + end[each] // 2**40 for each in grown)
