"""The settings and the commands with which the revived broker starts, as a cluster of one node.

Nothing is deleted by itself.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from storage.config import TOPIC_SETTINGS
from storage.internal import offsets, shares, transactions
from storage.properties import format_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafkafs.revive.disks import Disk
    from kafkafs.revive.plan import Plan
    from storage.files import Files

PROPERTIES_NAME: Final = "revived.properties"
BOOTSTRAP: Final = "localhost:9092"

_INT_MAX: Final = str(2**31 - 1)
_TEN_YEARS_MS: Final = str(10 * 365 * 24 * 3600 * 1000)
_NODE: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.quorum.voters": "{node_id}@localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "advertised.listeners": f"PLAINTEXT://{BOOTSTRAP}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
_HOLDING: Final[Mapping[str, str]] = {
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "offsets.retention.minutes": _INT_MAX,
    "offsets.retention.check.interval.ms": _TEN_YEARS_MS,  # brokers before 2.1 wrote into offsets when they expire
    "transactional.id.expiration.ms": _INT_MAX,
    "transaction.remove.expired.transaction.cleanup.interval.ms": _INT_MAX,
    "producer.id.expiration.ms": _INT_MAX,
    "auto.create.topics.enable": "false",
}
_ONE_REPLICA: Final[Mapping[str, str]] = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
_COUNTS: Final[Mapping[str, str]] = {
    offsets.TOPIC: "offsets.topic.num.partitions",
    transactions.TOPIC: "transaction.state.log.num.partitions",
    shares.TOPIC: "share.coordinator.state.topic.num.partitions",
}
_AUTHORIZER: Final = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_NOT_CARRIED: Final = ("retention", "message.format", "downconversion", "difference.max")


def broker_properties(
    plan: Plan, log_dirs: Sequence[Path], node_id: int, server_properties: Mapping[str, str]
) -> bytes:
    """Return the text of the properties file."""
    values = {"node.id": str(node_id)}
    values |= {key: value.format(node_id=node_id) for key, value in _NODE.items()}
    values["log.dirs"] = ",".join(map(str, log_dirs))
    values |= _carried(server_properties)
    values |= _HOLDING
    values |= _ONE_REPLICA
    for topic in plan.topics:
        if topic.name in _COUNTS:
            values[_COUNTS[topic.name]] = str(len(topic.partitions))
    comments = [
        "Written by kafkafs revive: a broker that is its own controller, on the log directories that it made.",
        "Nothing is deleted by itself: remove log.cleaner.enable, log.retention.*, offsets.retention.minutes,",
        "offsets.retention.check.interval.ms, transactional.id.expiration.ms, transaction.remove.* and",
        "producer.id.expiration.ms when you have released the topics.",
    ]
    if plan.cluster.image.acls:
        comments.append(f"There are ACLs, which hold once you add {_AUTHORIZER} and super.users.")
    return format_properties(values, comments).encode("ascii")


def start_command(log_dirs: Sequence[Path]) -> str:
    """Return the line that starts the broker."""
    return shlex.join(["kafka-server-start.sh", str(log_dirs[0] / PROPERTIES_NAME)])


def owner_command(disks: Sequence[Disk], log_dirs: Sequence[Path], files: Files) -> str | None:
    """Return the command that gives the new log directories to the sources' owner; None if they belong to it.

    New files belong to the user who runs kafkafs, as a rule root, and a broker of another user does not start on them.
    """
    made = files.directory(log_dirs[0]).own_status()
    for disk in disks:
        status = disk.directory.own_status()
        if made is not None and status is not None and (status.uid, status.gid) != (made.uid, made.gid):
            return shlex.join(["chown", "-R", f"--reference={disk.directory.path}", *map(str, log_dirs)])
    return None


def _carried(server_properties: Mapping[str, str]) -> dict[str, str]:
    """Return the old broker's defaults for topics that the new one keeps: not those that delete or are gone."""
    keys = {each.key for setting in TOPIC_SETTINGS.values() for each in setting.broker_keys}
    return {
        key: value
        for key, value in server_properties.items()
        if key in keys and not any(part in key for part in _NOT_CARRIED)
    }
