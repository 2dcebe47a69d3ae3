"""A ZooKeeper on loopback beside the broker of a folder, from the jars of the same release.

Its data is in `zookeeper/` of the folder and outlives it, so a broker that is started again finds its cluster.
"""

from __future__ import annotations

import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from real_kafka import FailedError, java, processes

if TYPE_CHECKING:
    from pathlib import Path

    from real_kafka.release import Release

NAME = "zookeeper"
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
SETTINGS = [
    java.QUICK_START,
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.4lw.commands.whitelist=*",  # since 3.5 they have to be allowed
    "-Dzookeeper.admin.enableServer=false",
]
SESSION_TIME_MS = 3000
TICK_TIME_MS = 500
EXPIRY_TIME_S_MAX = 60


def start(release: Release, folder: Path, lifeline: int | None) -> str:
    """Start it, and return HOST:PORT once it answers and has forgotten every broker that was killed."""
    (port,) = processes.free_ports(1)
    values = {
        "dataDir": folder / NAME,
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "tickTime": TICK_TIME_MS,
    }
    path = folder / f"{NAME}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    command = java.command(release, MAIN_CLASS, str(path), log_level="WARN", settings=SETTINGS)
    with processes.started(folder, NAME, command, lifeline) as process:
        processes.wait_for(process, NAME, lambda: "standalone" in _answer(port, "srvr"))
        _wait_for_expiry(port)
    return f"127.0.0.1:{port}"


def end(folder: Path) -> None:
    """End it, if it runs. Everything that it has answered is on disk."""
    processes.end(folder, NAME, signal.SIGKILL)


def _wait_for_expiry(port: int) -> None:
    """Wait until no broker of an earlier session is registered: a new one would be refused."""
    deadline = time.monotonic() + EXPIRY_TIME_S_MAX
    while "Sessions with Ephemerals (0)" not in _answer(port, "dump"):
        if time.monotonic() > deadline:
            raise FailedError(f"ZooKeeper still has the session of an earlier broker after {EXPIRY_TIME_S_MAX} s")
        time.sleep(0.05)


def _answer(port: int, word: str) -> str:
    """What it says to one of its four-letter words; nothing if it is not there yet."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5) as connection:
        connection.sendall(word.encode())
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
    return ""
