"""Which partitions of a store a query reads: by topic, by a pattern, one by one, or all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkafs.spark.errors import OptionError
from kafkafs.spark.java_patterns import compile_pattern
from kafkafs.spark.json_forms import partitions
from storage.log_dir import BROKERS_OWN

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Mapping
    from typing import TypeAlias

    from storage.log_dir import Partition

    Topics: TypeAlias = Mapping[str, Collection[int]]

_KEYS: Final = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True, slots=True)
class Everything:
    """All topics of a store, the internal ones included."""

    def partitions(self, topics: Topics) -> set[Partition]:
        """Return the existing ones."""
        return _all_of(topics, topics)

    def missing(self, _topics: Topics, /) -> str | None:
        """Return None: nothing can be missing."""
        return None


@dataclass(frozen=True, slots=True)
class Subscription:
    """All partitions of some topics."""

    topics: tuple[str, ...]

    def partitions(self, topics: Topics) -> set[Partition]:
        """Return the existing ones."""
        return _all_of([topic for topic in self.topics if topic in topics], topics)

    def missing(self, topics: Topics) -> str | None:
        """Return what is selected but missing; None if nothing is."""
        return next((f"topic {topic!r}" for topic in self.topics if topic not in topics), None)


@dataclass(frozen=True, slots=True)
class PatternSubscription:
    """All partitions of the topics in whose names the pattern is found, except Kafka's internal topics."""

    pattern: re.Pattern[str]

    def partitions(self, topics: Topics) -> set[Partition]:
        """Return the existing ones."""
        return _all_of([name for name in topics if name not in BROKERS_OWN and self.pattern.search(name)], topics)

    def missing(self, _topics: Topics, /) -> str | None:
        """Return None: nothing can be missing."""
        return None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Some partitions."""

    assigned: tuple[Partition, ...]

    def partitions(self, topics: Topics) -> set[Partition]:
        """Return the existing ones."""
        return {(topic, partition) for topic, partition in self.assigned if partition in topics.get(topic, ())}

    def missing(self, topics: Topics) -> str | None:
        """Return what is selected but missing; None if nothing is."""
        found = self.partitions(topics)
        return next((f"partition {each[0]}-{each[1]}" for each in self.assigned if each not in found), None)


if TYPE_CHECKING:
    Selection: TypeAlias = "Everything | Subscription | PatternSubscription | Assignment"


def parse_selection(options: Mapping[str, str]) -> Selection:
    """Parse the selection of the options, whose names are in lower case; raises `OptionError`."""
    given = [key for key in _KEYS if key in options]
    if not given:
        return Everything()
    if len(given) > 1:
        raise OptionError(
            "Only one of the following options can be specified for Kafka source: subscribe, subscribepattern, assign. "
            "See the docs for more details."
        )
    value = options[given[0]]
    match given[0]:
        case "assign":
            if not value.strip().startswith("{"):
                raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
            return Assignment(partitions(value))
        case "subscribe":
            topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
            if not topics:
                raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
            return Subscription(topics)
        case _:
            return PatternSubscription(_pattern(value))


def _pattern(value: str) -> re.Pattern[str]:
    if not value.strip():
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    return compile_pattern(value.strip())


def _all_of(names: Collection[str], topics: Topics) -> set[Partition]:
    return {(topic, partition) for topic in names for partition in topics[topic]}
