"""Whose the files of a mount are."""

from __future__ import annotations

from typing import NamedTuple


class Ownership(NamedTuple):
    """Whose files are, where it is not to be the owner and mode of the directory in the store; None follows that."""

    uid: int | None = None
    gid: int | None = None
    umask: int | None = None
