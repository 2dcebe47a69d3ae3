"""How a backup can fail, beside what reading a store and writing files raise."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from storage.files import Directory


class BackupError(StorageError):
    """A backup cannot be made there, or not now."""


class DamagedRunError(StorageError):
    """A run's manifest is not what kafkafs writes."""


class ChangedError(Exception):
    """A partition changed while it was copied, so that what was copied does not fit together; its text says how."""


class UnreadableSourceError(Exception):
    """The operating system refused to show a file of the store; its text says which, and why."""


@contextmanager
def reading(source: Directory) -> Iterator[None]:
    """Tell what the operating system says of the source from what it says of the run."""
    try:
        yield
    except FileNotFoundError as error:
        if not _is_in(source, error):
            raise
        raise ChangedError(f"{error.filename} is gone") from None
    except OSError as error:
        if not _is_in(source, error):
            raise
        raise UnreadableSourceError(f"{error.filename}: {error.strerror}") from None


def _is_in(source: Directory, error: OSError) -> bool:
    return isinstance(error.filename, str) and error.filename.startswith(source.path)
