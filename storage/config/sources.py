"""The sources of a topic's settings, the reasons for unknown ones, and the Kafka release of their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT: Final = "default"
TOPIC: Final = "topic"
BROKER: Final = "broker"
UNKNOWN: Final = "unknown"

GONE_IN_4: Final = frozenset(
    {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
)
"""Topic settings that brokers of Kafka 4 do not have."""
NEW_IN_4_4: Final = frozenset(
    {
        "errors.deadletterqueue.group.enable",
        "max.decompressed.message.bytes",
        "remote.copy.lag.bytes",
        "remote.copy.lag.ms",
    }
)
"""Topic settings that brokers before Kafka 4.4 do not have."""
DEFAULTS_4: Final[Mapping[str, int]] = MappingProxyType({"message.timestamp.after.max.ms": 60 * 60 * 1000})
"""Defaults of topic settings that are others in Kafka 4 than in 3.9."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of the settings given to `TopicConfig.resolve`.

    `topic` and `broker` say it for keys of the topic and of the broker: the comment that `config` prints. A key that
    they lack is from the topic's settings file or from server.properties. `topic_unknown` says why the topic may have
    settings besides those given, and `broker_unknown` why its broker may; both are empty where all of them are given.
    `refused` says of settings that the topic has why their values are not known here. `release` is the broker's: 3.9
    for every one before 4.0, 4.0 for those before 4.4, and 4.4 since.
    """

    topic: Mapping[str, str] = field(default_factory=lambda: _NONE)
    broker: Mapping[str, str] = field(default_factory=lambda: _NONE)
    topic_unknown: str = ""
    broker_unknown: str = ""
    refused: Mapping[str, str] = field(default_factory=lambda: _NONE)
    release: tuple[int, int] = (3, 9)

    def unknown(self, key: str, *, is_given_first: bool, has_broker_keys: bool) -> str:
        """Return why the value of a setting that the topic does not state is unknown; empty if it is known.

        A broker's setting that is given under the first of its keys hides what the others say.
        """
        if self.topic_unknown or key in self.refused:
            return self.topic_unknown or self.refused[key]
        return self.broker_unknown if has_broker_keys and not is_given_first else ""
