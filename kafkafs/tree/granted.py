"""The access to the views of one log, whose directory and files may be exchanged for others at any time.

What a reader sees of a log was found a moment before or after the access to it. So the access to a directory or to
segments that others have replaced counts for some time after that, together with the access to these: what is read is
always among what the access is for, if that is asked for after the bytes were found.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.tree.rights import Recent, in_common
from storage.errors import StorageError
from storage.log import FollowedLog

if TYPE_CHECKING:
    from kafkafs.tree.rights import Rights
    from storage.files import Access, Directory
    from storage.log import Log

_LOOKS_MAX: Final = 4

REPLACED_S: Final = 10.0
"""How long the access to what was replaced counts: longer than the kernel keeps attributes."""


class _Look(NamedTuple):
    """The access since the log's last change; `before` are those to what it had earlier, each with its end."""

    changes: int
    directory: Directory
    access: Recent[Access]
    before: dict[Access, float]


class Granted:
    """The access to the views of a log. Any thread may ask."""

    __slots__ = ("_log", "_look", "_rights")

    def __init__(self, log: Log | FollowedLog, rights: Rights) -> None:
        self._log = log
        self._rights = rights
        self._look = self._new({})

    def access(self) -> Access:
        """Return the access to the log as it is, and as it was a moment ago."""
        for _ in range(_LOOKS_MAX):
            look = self._look
            if look.changes != self._changes():
                look = self._look = self._after(look)
            access = look.access.get()
            if look.changes != self._changes():
                continue
            now_s = monotonic()
            for each, end_s in look.before.items():
                if each != access and now_s < end_s:
                    access = in_common(access, each)
            return access
        return look.access.get()._replace(mode=0)  # it changes all the time

    def _changes(self) -> int:
        return self._log.changes if isinstance(self._log, FollowedLog) else 0

    def _find(self, directory: Directory, known: Access | None) -> Access:
        """Look at a directory of the log. If it is missing, have the log look which one it has now."""
        if isinstance(self._log, FollowedLog) and directory.own_status() is None:
            with suppress(StorageError, OSError):
                _ = self._log.view
        return self._rights.of_log(directory, known)

    def _after(self, look: _Look) -> _Look:
        now_s = monotonic()
        before = {access: end_s for access, end_s in look.before.items() if now_s < end_s}
        if look.access.last is not None:
            before[look.access.last] = now_s + REPLACED_S
        if look.directory is not self._log.directory:
            self._rights.forget_all()
        return self._new(before)

    def _new(self, before: dict[Access, float]) -> _Look:
        changes, directory = self._changes(), self._log.directory
        return _Look(changes, directory, Recent(partial(self._find, directory)), before)
