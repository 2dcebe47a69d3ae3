"""The owner of a mount's files."""

from __future__ import annotations

from typing import NamedTuple


class Ownership(NamedTuple):
    """Owner and umask of files; None means those of the directory in the store."""

    uid: int | None = None
    gid: int | None = None
    umask: int | None = None
