"""Log directories that are open together: opening, reading and writing, maintaining, recovering and closing.

Cleaning up is loaded at its first use: readers do without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from storage.store.commit_recovery import RecoveredCommit
from storage.store.internal_topics import FoundGroups, InternalTopics, LogBounds
from storage.store.log_opener import FlushThread, LogOpener
from storage.store.recovered_log_dir import RecoveredLogDir
from storage.store.staging import Staging
from storage.store.store import Mode, Store
from storage.store.store_recovery import Recovered, RecoveryOptions, plan_recovery, recover_store
from storage.store.unclosed_logs import recover_unclosed_logs

if TYPE_CHECKING:
    from storage.store.cleaning import StoreCompaction, StoreRetention
    from storage.store.maintenance import Maintenance

__all__ = [
    "FlushThread",
    "FoundGroups",
    "InternalTopics",
    "LogBounds",
    "LogOpener",
    "Maintenance",
    "Mode",
    "Recovered",
    "RecoveredCommit",
    "RecoveredLogDir",
    "RecoveryOptions",
    "Staging",
    "Store",
    "StoreCompaction",
    "StoreRetention",
    "plan_recovery",
    "recover_store",
    "recover_unclosed_logs",
]


def __getattr__(name: str) -> object:
    if name in {"StoreCompaction", "StoreRetention"}:
        return getattr(import_module("storage.store.cleaning"), name)
    if name == "Maintenance":
        return import_module("storage.store.maintenance").Maintenance
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
