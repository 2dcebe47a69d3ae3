"""Partitions, and their offsets and times, as JSON in the forms of Spark's own Kafka source.

Every function raises `OptionError` for a text that does not have its form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from storage.log_dir import Partition

    T = TypeVar("T")

_PARTITIONS: Final = '{"topicA":[0,1],"topicB":[0,1]}'
_OFFSETS: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_TIMESTAMPS: Final = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'


def partitions(text: str) -> tuple[Partition, ...]:
    """Return the partitions in `{"topicA":[0,1]}`."""
    found = []
    for topic, numbers in _object(text, _PARTITIONS).items():
        if not isinstance(numbers, list) or not all(_is_number(number) and number >= 0 for number in numbers):
            raise _not(_PARTITIONS, text)
        found += [(topic, number) for number in numbers]
    return tuple(sorted(found))


def partition_offsets(text: str) -> dict[Partition, int]:
    """Return the offsets in `{"topicA":{"0":23,"1":-1}}`."""

    def offset(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < -2:
            raise ValueError
        return value

    return _by_partition(text, offset, _OFFSETS)


def partition_times(text: str) -> dict[Partition, str]:
    """Return the times in `{"topicA":{"0":1732147200000}}`, as texts."""

    def time(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError  # noqa: TRY004 -- caught right here
        return str(value)

    return _by_partition(text, time, _TIMESTAMPS)


def nested(offsets: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Return offsets in the form in which queries keep and report them, always in the same order."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def flat(offsets: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    """Undo `nested`."""
    return {
        (topic, int(number)): offset for topic, by_number in offsets.items() for number, offset in by_number.items()
    }


def _by_partition(text: str, read: Callable[[object], T], example: str) -> dict[Partition, T]:
    found = {}
    for topic, by_number in _object(text, example).items():
        if not isinstance(by_number, dict):
            raise _not(example, text)
        for number, value in by_number.items():
            try:
                found[topic, _partition(number)] = read(value)
            except ValueError:
                raise _not(example, text) from None
    return found


def _partition(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


def _object(text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _not(example, text) from None
    if not isinstance(found, dict):
        raise _not(example, text)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _not(example: str, text: str) -> OptionError:
    return OptionError(f"Expected e.g. {example}, got {text}")
