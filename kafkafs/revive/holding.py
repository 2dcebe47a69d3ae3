"""The settings that a revived topic gets: those that it had, and those that hold everything until it is released.

A revived broker starts with old records. What retention or a setting of the old cluster would do to them within
minutes is for the operator to decide, who is given the command that releases each topic.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.revive.known import INTERNAL_SETTINGS, UNKNOWN
from storage.log_dir import COMPACTED_BY_BROKERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkafs.revive.known import Known

_HELD: Final[Mapping[str, str]] = {"retention.ms": "-1", "retention.bytes": "-1"}
_ANY_TIME_MS: Final = str(2**63 - 1)
_TAKING: Final[Mapping[str, str]] = {
    **_HELD,
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _ANY_TIME_MS,
    "message.timestamp.after.max.ms": _ANY_TIME_MS,
}
_GONE_IN_4: Final = frozenset(
    {"message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"}
)
_THROTTLED: Final = frozenset({"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"})
_OF_REPLICAS: Final = _THROTTLED | {"min.insync.replicas"}
"""Settings that mean something where there are other replicas; this one has none."""
_LOCAL: Final = frozenset({"local.retention.bytes", "local.retention.ms"})
"""How much of a tiered log stays on the disk: all that is revived does."""
_NOT_TIERED: Final = "the cluster may not be tiered"
_SEGMENT_BYTES: Final = "segment.bytes"
_SEGMENT_BYTES_MIN: Final = 1024 * 1024
"""The least that Kafka 4 takes."""


class Held(NamedTuple):
    """The settings to write for a topic, and the settings that it had and does not get, each with the reason.

    `released` are the settings that end the holding, and `defaulted` those that do so by being deleted.
    """

    settings: Mapping[str, str]
    left_out: Mapping[str, str]
    released: Mapping[str, str]
    defaulted: tuple[str, ...]


def hold(topic: str, known: Known) -> Held:
    """Return the settings of a topic that hold everything, and how it is released."""
    settings = {**INTERNAL_SETTINGS.get(topic, {}), **known.settings}
    left_out: dict[str, str] = {}
    for key in sorted(settings.keys() & _GONE_IN_4):
        left_out[key] = "Kafka 4 does not have it"
    for key in sorted(settings.keys() & (_OF_REPLICAS | _LOCAL)):
        left_out[key] = "there is one replica" if key in _OF_REPLICAS else "everything on the disk is held"
    if int(settings.get(_SEGMENT_BYTES, _SEGMENT_BYTES_MIN)) < _SEGMENT_BYTES_MIN:
        left_out[_SEGMENT_BYTES] = f"Kafka 4 takes {_SEGMENT_BYTES_MIN} and more"
    for key in left_out:
        del settings[key]
    if topic in COMPACTED_BY_BROKERS:
        return Held({**settings, **_HELD}, left_out, {}, tuple(_HELD))
    released = {key: value for key, value in settings.items() if key in _HELD}
    released.update({key: value for key, value in known.settings.items() if key in _LOCAL})
    settings.setdefault("cleanup.policy", "delete")
    return Held({**settings, **_HELD}, left_out, released, tuple(key for key in _HELD if key not in released))


def hold_in_cluster(known: Known) -> Held:
    """Return the settings with which a topic takes its old records in a cluster that runs, and how it is released.

    There brokers delete old records within minutes, stamp those of some topics, and refuse times far from the present.
    """
    gone = dict.fromkeys(_GONE_IN_4, "Kafka 4 does not have it")
    gone |= dict.fromkeys(_THROTTLED, "it names brokers of the old cluster")
    gone |= dict.fromkeys((key for key in known.settings if key in _LOCAL or key.startswith("remote.")), _NOT_TIERED)
    settings = {key: value for key, value in known.settings.items() if key not in gone}
    left_out = {key: gone[key] for key in sorted(known.settings.keys() & gone.keys())}
    if int(settings.get(_SEGMENT_BYTES, _SEGMENT_BYTES_MIN)) < _SEGMENT_BYTES_MIN:
        left_out[_SEGMENT_BYTES] = f"Kafka 4 takes {_SEGMENT_BYTES_MIN} and more"
        del settings[_SEGMENT_BYTES]
    released = {key: value for key, value in settings.items() if key in _TAKING}
    return Held({**settings, **_TAKING}, left_out, released, tuple(key for key in _TAKING if key not in released))


def release_command(topic: str, held: Held, bootstrap: str) -> str:
    """Return the command that gives a topic the retention that it had, or Kafka's default where that is unknown."""
    return shlex.join(["kafka-configs.sh", "--bootstrap-server", bootstrap, *release_words(topic, held)])


def release_words(topic: str, held: Held) -> list[str]:
    """Return the arguments of that command that say what to do."""
    words = ["--alter", "--entity-type", "topics", "--entity-name", topic]
    if held.released:
        words += ["--add-config", ",".join(f"{key}={value}" for key, value in held.released.items())]
    if held.defaulted:
        words += ["--delete-config", ",".join(held.defaulted)]
    return words


def is_unknown(known: Known) -> bool:
    """Return True if the topic may have had any settings."""
    return known.origin == UNKNOWN
