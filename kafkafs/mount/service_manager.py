"""Reports to systemd by the protocol of sd_notify, if there is a service manager."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def tell_ready(status: str) -> None:
    """Report that the mount has started."""
    _tell("READY=1", f"STATUS={status}", f"MAINPID={os.getpid()}")


def tell_status(status: str) -> None:
    """Report what it is doing, for `systemctl status`."""
    _tell(f"STATUS={status}")


def tell_stopping() -> None:
    """Report that it is ending."""
    _tell("STOPPING=1", "STATUS=closing the store")


def _tell(*lines: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"  # an abstract socket
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
        notify.sendto("\n".join(line.replace("\n", " ") for line in lines).encode(errors="replace"), address)
