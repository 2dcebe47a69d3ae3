"""How a backup can fail, beside what reading a store and writing files raise."""

from __future__ import annotations

from storage.errors import StorageError


class BackupError(StorageError):
    """A backup cannot be made there, or not now."""


class DamagedRunError(StorageError):
    """A run's manifest is not what kafkafs writes."""


class ChangedError(Exception):
    """A partition changed while it was copied, so that what was copied does not fit together; its text says how."""


class UnreadableSourceError(Exception):
    """The operating system refused to show a file of the store; its text says which, and why."""
