"""The lock of a log directory, as a broker takes it."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from storage.files.opened import located

if TYPE_CHECKING:
    from collections.abc import Callable


class FileLock:
    """A held lock file. As in the JVM it is a POSIX record lock over the whole file, which ends with the process.

    Releasing it calls `on_release`.
    """

    on_release: Callable[[], None] | None = None

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        try:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise located(error, path) from None
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Release the lock. Releasing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            if self.on_release is not None:
                self.on_release()


def is_locked_elsewhere(descriptor: int) -> bool:
    """Return True if another process has the lock on a file, and close the descriptor."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
