"""What is written into a topic's `config` file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.config import TopicConfig, parse_config_lines
from storage.errors import ConfigError

VALUES = {
    "cleanup.policy": ["compact", "delete", "compact,delete", ""],
    "compression.type": ["producer", "zstd", "uncompressed"],
    "leader.replication.throttled.replicas": ["*", "0:1,1:2", ""],
    "min.cleanable.dirty.ratio": ["0.25", "1.0E-5"],
    "preallocate": ["true", "false"],
    "retention.ms": ["-1", "0", "604800000"],
    "segment.bytes": ["14", "1073741824"],
}
OVERRIDES = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        ("retention.ms=3600000\n", {"retention.ms": "3600000"}),
        ("retention.ms=3600000", {"retention.ms": "3600000"}),
        ("  retention.ms = +5 \r\nflush.ms=6\r\n", {"retention.ms": "5", "flush.ms": "6"}),
        ("# retention.ms=5\n\n   \n", {}),
        ("retention.ms=5  # topic", {"retention.ms": "5"}),
        ("retention.ms=5  # an hour is too long", {"retention.ms": "5"}),
        ("retention.ms=5  # default\nflush.ms=6 #broker\n", {}),
        ("retention.ms=5  # broker, metadata log, offset 7\nflush.ms=unknown  # unknown: it may be elsewhere", {}),
        ("retention.ms=5  # metadata log, offset 7", {"retention.ms": "5"}),
        ("retention.ms=5  # brokers told me so\nflush.ms=6  # unknown by whom", {"retention.ms": "5", "flush.ms": "6"}),
        ("nonsense=5  # default", {}),
        ("retention.ms=default", {"retention.ms": None}),
        ("retention.ms=default  # topic", {"retention.ms": None}),
        ("retention.ms=5\nretention.ms=default", {"retention.ms": None}),
        ("retention.ms=default\nretention.ms=5", {"retention.ms": "5"}),
        ("cleanup.policy=", {"cleanup.policy": ""}),
    ],
)
def test_lines_change_settings(text: str, changes: dict[str, str | None]) -> None:
    assert parse_config_lines(text) == changes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("flush.ms=5\nretention.ms\n", "line 2: 'retention.ms' is not of the form key=value"),
        ("\nsegment.bytes=1\n", "line 2: segment.bytes=1 is refused: it must be a whole number from 14 to 2147483647"),
        ("flush.ms=5\nzzz=1", "line 2: there is no topic setting 'zzz'"),
        ("zzz=default", "line 1: there is no topic setting 'zzz'"),
        ("log.roll.ms=1", "line 1: log.roll.ms is a broker's setting; a topic's is segment.ms"),
        ("=1", "line 1: there is no topic setting ''"),
    ],
)
def test_one_bad_line_refuses_all(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config_lines(text)
    assert str(caught.value) == sentence


@pytest.mark.property
@given(topic=OVERRIDES, retention=st.sampled_from([None, "5"]))
def test_what_is_shown_can_be_written_back(topic: dict[str, str], retention: str | None) -> None:
    broker = {} if retention is None else {"log.retention.ms": retention}
    lines = list(TopicConfig.resolve(topic, broker).lines())
    assert lines == sorted(lines)
    assert parse_config_lines("\n".join(lines)) == topic


def test_every_line_says_where_its_value_comes_from() -> None:
    lines = list(TopicConfig.resolve({"retention.ms": "5"}, {"log.segment.bytes": "100"}).lines())
    assert len(lines) == 36
    assert "retention.ms=5  # topic" in lines
    assert "segment.bytes=100  # broker" in lines
    assert "flush.ms=9223372036854775807  # default" in lines
    assert "follower.replication.throttled.replicas=  # default" in lines
