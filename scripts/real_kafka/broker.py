"""Brokers on loopback, each in a folder of its own: with KRaft it is its own controller, before 3.0 it has a ZooKeeper.

The folder holds `logs/` (the log directory), `broker.properties`, `broker.log` (everything the process printed) and,
while it may be alive, `broker.pid`; of a ZooKeeper there are the same. Clusters of several brokers are in `cluster`.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import struct
import subprocess
import uuid
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from real_kafka import FailedError, java, processes, zookeeper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from real_kafka.release import Release

NAME = "broker"
PORT_ATTEMPTS = 3
"""A port that was free a moment ago may be taken when the broker asks for it."""

METADATA_REQUEST = struct.pack(">ihhihi", 14, 3, 0, 1, -1, 0)
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Length, key, version 0, correlation id 1, no client id; of all topics. Brokers know the latter since 0.10."""

SMALL = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}
"""Settings of any broker that is to start fast."""
QUICK_SESSIONS = {
    "broker.heartbeat.interval.ms": "200",
    # A broker that was killed cannot register again before this is over.
    "broker.session.timeout.ms": "2000",
}
FATAL = re.compile(r"(?i)\bfatal\b|shutdown broker because")
"""What the first line of an error's entry has if the broker ends of it."""


@dataclass(frozen=True)
class Running:
    """A broker that answers; one that has a ZooKeeper says where."""

    bootstrap: str
    pid: int
    log_dirs: str
    zookeeper: str | None = None


def properties(log_dirs: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a one-node KRaft cluster that starts fast; what is given goes before."""
    broker, controller = processes.free_ports(2)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(log_dirs),
        **QUICK_SESSIONS,
        **SMALL,
        **settings,
    }


def properties_with_zookeeper(
    release: Release, log_dirs: Path, settings: Mapping[str, str], connect: str
) -> dict[str, str]:
    """The same of a broker that has a ZooKeeper."""
    (port,) = processes.free_ports(1)
    where = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    if not release.names_listeners:
        where = {"host.name": "127.0.0.1", "port": str(port)}
    return {
        "broker.id": "1",
        **where,
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": str(zookeeper.SESSION_TIME_MS),
        "zookeeper.connection.timeout.ms": "60000",
        "controlled.shutdown.enable": "false",  # there is no other broker to hand leadership to
        "log.dirs": str(log_dirs),
        **SMALL,
        **settings,
    }


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Write a Java properties file, whose escapes are those of JSON."""
    path.write_text("".join(f"{name}={json.dumps(value)[1:-1]}\n" for name, value in values.items()))


def new_id() -> str:
    """A Kafka UUID: 22 characters that do not begin with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def start(release: Release, folder: Path, settings: Mapping[str, str], lifeline: int | None) -> Running:
    """Format the store if need be, start its broker and return once it answers.

    With a lifeline the broker is killed as soon as that process is gone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    running = processes.running(folder, NAME)
    if running is not None:
        raise FailedError(f"a broker runs on {folder} already, process {running}")
    if not release.needs_zookeeper:
        return _start_with_free_ports(release, folder, settings, lifeline, None)
    zookeeper.end(folder)
    connect = zookeeper.start(release, folder, lifeline)
    try:
        return _start_with_free_ports(release, folder, settings, lifeline, connect)
    except BaseException:
        zookeeper.end(folder)
        raise


def _start_with_free_ports(
    release: Release, folder: Path, settings: Mapping[str, str], lifeline: int | None, connect: str | None
) -> Running:
    """Try ports until the broker gets them."""
    for attempt in range(1, PORT_ATTEMPTS + 1):
        if connect is None:
            values = properties(folder / "logs", settings)
        else:
            values = properties_with_zookeeper(release, folder / "logs", settings, connect)
        write_properties(folder / "broker.properties", values)
        if connect is None:
            format_log_dirs(release, folder, values)
        try:
            return launch(release, [Node(folder, values, connect)], lifeline)[0]
        except LostPortError:
            if attempt == PORT_ATTEMPTS:
                raise
    raise AssertionError


class LostPortError(FailedError):
    """Another process took a port between the search for a free one and the start."""


class Node(NamedTuple):
    """A folder for a process, its settings, and where its ZooKeeper is if it has one."""

    folder: Path
    values: Mapping[str, str]
    connect: str | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        listeners = self.values.get("listeners", f"PLAINTEXT://127.0.0.1:{self.values.get('port')}")
        return listeners.partition("://")[2].partition(",")[0]


def launch(release: Release, nodes: Sequence[Node], lifeline: int | None) -> list[Running]:
    """Start processes together, and return once all of them answer; if one does not, none of them is left."""
    request = METADATA_REQUEST if release.needs_zookeeper else API_VERSIONS_REQUEST
    with ExitStack() as starting:
        begun = []
        for node in nodes:
            path = node.folder / "broker.properties"
            write_properties(path, node.values)
            begin = (node.folder / "broker.log").stat().st_size if (node.folder / "broker.log").exists() else 0
            command = java.command(release, "kafka.Kafka", str(path), log_level="INFO", settings=[java.QUICK_START])
            begun.append((starting.enter_context(processes.started(node.folder, NAME, command, lifeline)), begin))
        for node, (process, begin) in zip(nodes, begun, strict=True):
            try:
                processes.wait_for(process, NAME, lambda address=node.address: _answers(address, request))
            except FailedError as failure:
                said = (node.folder / "broker.log").read_bytes()[begin:].decode(errors="replace")
                kind = LostPortError if lost_port(said) else FailedError
                raise kind(f"{failure}: {reason(said)}; see {node.folder / 'broker.log'}") from None
        return [
            Running(node.address, process.pid, node.values["log.dirs"], node.connect)
            for node, (process, _) in zip(nodes, begun, strict=True)
        ]


def format_log_dirs(release: Release, folder: Path, values: Mapping[str, str], cluster_id: str | None = None) -> None:
    """Let kafka-storage format the log directories that are not; all of them share one cluster id."""
    ids = []
    for log_dir in values["log.dirs"].split(","):
        meta = Path(folder, log_dir) / "meta.properties"
        ids += re.findall(r"(?m)^cluster\.id=(\S+)", meta.read_text() if meta.exists() else "") or [None]
    if None not in ids:
        return
    cluster_id = next(filter(None, ids), cluster_id) or new_id()
    arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", str(folder / "broker.properties")]
    tool = release.main_class("StorageTool")
    command = java.command(release, tool, *arguments, log_level="WARN", settings=[java.QUICK_START])
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        why = (answer.stderr or answer.stdout).strip().partition("\n")[0]
        raise FailedError(f"kafka-storage refused to format {values['log.dirs']}: {why}")


def _answers(address: str, request: bytes) -> bool:
    """Whether a broker answers a request: it opens its port before it serves, and serves once it has caught up."""
    host, port = address.rsplit(":", 1)
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=0.5) as connection:
        connection.sendall(request)
        answer = connection.recv(10, socket.MSG_WAITALL)
        if request == METADATA_REQUEST:
            return len(answer) == 10 and struct.unpack(">i", answer[4:8]) == (1,)
        return len(answer) == 10 and struct.unpack(">ih", answer[4:]) == (1, 0)
    return False


def stop(folder: Path) -> None:
    """Stop the broker on the folder cleanly, and wait until it is gone, and its ZooKeeper too."""
    if not processes.end(folder, NAME, signal.SIGTERM):
        raise FailedError(f"no broker runs on {folder}")
    zookeeper.end(folder)


def kill(folder: Path) -> None:
    """Kill the broker, if one runs on the folder, and wait until it is gone, and its ZooKeeper too."""
    processes.end(folder, NAME, signal.SIGKILL)
    zookeeper.end(folder)


def lost_port(log: str) -> bool:
    """Whether a broker ended because somebody else took its port."""
    return "java.net.BindException" in log


def reason(log: str) -> str:
    """Why a broker ended, by its log: what its fatal error says, or else its first one, and the cause of that.

    A broker that ends logs other errors as well, such as those of requests that its controller no longer answers.
    """
    errors = [entry for entry in re.split(r"(?m)^(?=\[\d)", log) if re.match(r"\[[^\]]*\] (?:FATAL|ERROR) ", entry)]
    fatal = [entry for entry in errors if FATAL.search(entry.partition("\n")[0])]
    told = next(iter(fatal or errors), "")
    said = re.findall(r"(?m)^\[[^\]]*\] \w+ (.*) \([^ ]*\)$", told)
    causes = _causes(told) or _causes(log)
    return ": ".join([*said[:1], *causes[-1:]]) or log.strip().rpartition("\n")[2] or "it said nothing"


def _causes(text: str) -> list[str]:
    """The exceptions of stack traces, from the outermost in."""
    return re.findall(r"(?m)^Caused by: (.*)", text) or re.findall(r"(?m)^(?:\S+\.)+\w*(?:Exception|Error): .*", text)
