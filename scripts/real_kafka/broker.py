"""Brokers on loopback: combined KRaft controller and broker, each in a folder of its own.

The folder holds `logs/` (the log directory), `broker.properties`, `broker.log` (everything the process printed) and,
while it may be alive, `broker.pid`.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from real_kafka import FailedError, java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from real_kafka.release import Release

START_TIME_S_MAX = 120
STOP_TIME_S_MAX = 60
PORTS = range(10_000, 30_000)
"""Below those that the system gives to clients."""
PORT_ATTEMPTS = 3
"""A port that was free a moment ago may be taken when the broker asks for it."""

API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""Length, key 18, version 0, correlation id 1, no client id."""


@dataclass(frozen=True)
class Running:
    """A broker that answers."""

    bootstrap: str
    pid: int
    log_dirs: str


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody listens on now."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise FailedError("no loopback port is free")


def properties(log_dirs: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a one-node cluster that starts fast; what is given goes before."""
    broker, controller = free_ports(2)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(log_dirs),
        "broker.heartbeat.interval.ms": "200",
        # A broker that was killed cannot register anew before this is over.
        "broker.session.timeout.ms": "2000",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
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
    running = _running(folder)
    if running is not None:
        raise FailedError(f"a broker runs on {folder} already, process {running}")
    for attempt in range(1, PORT_ATTEMPTS + 1):
        values = properties(folder / "logs", settings)
        write_properties(folder / "broker.properties", values)
        _format(release, folder, values)
        begin = (folder / "broker.log").stat().st_size if (folder / "broker.log").exists() else 0
        try:
            return _start(release, folder, values, lifeline)
        except FailedError as failure:
            said = (folder / "broker.log").read_bytes()[begin:].decode(errors="replace")
            if lost_port(said) and attempt < PORT_ATTEMPTS:
                continue
            raise FailedError(f"{failure}: {reason(said)}; see {folder / 'broker.log'}") from None
    raise AssertionError


def _format(release: Release, folder: Path, values: Mapping[str, str]) -> None:
    """Let kafka-storage format the log directories that are not; all of them share one cluster id."""
    ids = []
    for log_dir in values["log.dirs"].split(","):
        meta = Path(folder, log_dir) / "meta.properties"
        ids += re.findall(r"(?m)^cluster\.id=(\S+)", meta.read_text() if meta.exists() else "") or [None]
    if None not in ids:
        return
    cluster_id = next(filter(None, ids), None) or new_id()
    arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", str(folder / "broker.properties")]
    tool = release.main_class("StorageTool")
    command = java.command(release, tool, *arguments, log_level="WARN", settings=[java.QUICK_START])
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        why = (answer.stderr or answer.stdout).strip().partition("\n")[0]
        raise FailedError(f"kafka-storage refused to format {values['log.dirs']}: {why}")


def _start(release: Release, folder: Path, values: Mapping[str, str], lifeline: int | None) -> Running:
    arguments = str(folder / "broker.properties")
    command = java.command(release, "kafka.Kafka", arguments, log_level="INFO", settings=[java.QUICK_START])
    with (folder / "broker.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        (folder / "broker.pid").write_text(f"{process.pid}\n")
        if lifeline is not None:
            _tie(process.pid, lifeline)
        address = re.findall(r"PLAINTEXT://([^,]+)", values["listeners"])[0]
        _wait_for_answer(process, address)
    except BaseException:
        process.kill()
        process.wait()
        (folder / "broker.pid").unlink(missing_ok=True)
        raise
    return Running(address, process.pid, values["log.dirs"])


def _wait_for_answer(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + START_TIME_S_MAX
    while not _answers(address):
        if process.poll() is not None:
            raise FailedError(f"the broker ended with status {process.returncode}")
        if time.monotonic() > deadline:
            raise FailedError(f"the broker does not answer within {START_TIME_S_MAX} s")
        time.sleep(0.05)


def _answers(address: str) -> bool:
    """Whether a broker answers a request: it opens its port before it serves, and serves once it has caught up."""
    host, port = address.rsplit(":", 1)
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=0.5) as connection:
        connection.sendall(API_VERSIONS_REQUEST)
        answer = connection.recv(10, socket.MSG_WAITALL)
        return len(answer) == 10 and struct.unpack(">ih", answer[4:]) == (1, 0)
    return False


def _tie(pid: int, lifeline: int) -> None:
    """Leave a process behind that kills the broker when the lifeline ends, and ends with the broker."""
    broker = os.pidfd_open(pid)
    if os.fork() != 0:
        os.close(broker)
        return
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    try:
        # A lifeline that is gone already cannot be opened.
        with suppress(ProcessLookupError):
            if broker in select.select([broker, os.pidfd_open(lifeline)], [], [])[0]:
                os._exit(0)
        signal.pidfd_send_signal(broker, signal.SIGKILL)
    finally:
        os._exit(0)


def stop(folder: Path) -> None:
    """Stop the broker on the folder cleanly, and wait until it is gone."""
    if not _end(folder, signal.SIGTERM):
        raise FailedError(f"no broker runs on {folder}")


def kill(folder: Path) -> None:
    """Kill the broker, if one runs on the folder, and wait until it is gone."""
    _end(folder, signal.SIGKILL)


def _end(folder: Path, how: signal.Signals) -> bool:
    """Whether there was a broker to end."""
    pid = _running(folder)
    if pid is not None:
        with suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(process, how)
                if not select.select([process], [], [], STOP_TIME_S_MAX)[0]:
                    raise FailedError(f"process {pid} is still there {STOP_TIME_S_MAX} s after {how.name}")
            finally:
                os.close(process)
    (folder / "broker.pid").unlink(missing_ok=True)
    return pid is not None


def _running(folder: Path) -> int | None:
    """The process id of the folder's broker, if it is alive; a number that another process bears by now is not."""
    try:
        pid = int((folder / "broker.pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if os.fsencode(folder / "broker.properties") in command.split(b"\0") else None


def lost_port(log: str) -> bool:
    """Whether a broker ended because somebody else took its port."""
    return "java.net.BindException" in log


def reason(log: str) -> str:
    """The line of a broker's log that says why it ended."""
    said = re.findall(r"(?m)^\[[^\]]*\] (?:FATAL|ERROR) (.*) \([^ ]*\)$", log)
    causes = re.findall(r"(?m)^Caused by: (.*)", log) or re.findall(r"(?m)^(?:\S+\.)+\w*(?:Exception|Error): .*", log)
    return ": ".join([*said[:1], *causes[-1:]]) or log.strip().rpartition("\n")[2] or "it said nothing"
