"""Log directories that are open together: opening, reading and writing, maintaining, recovering and closing."""

from __future__ import annotations

from storage.store.cleaning import StoreCompaction, StoreRetention
from storage.store.commit_recovery import RecoveredCommit
from storage.store.internal_topics import FoundGroups, InternalTopics
from storage.store.log_opener import FlushThread, LogOpener
from storage.store.maintenance import Maintenance
from storage.store.recovered_log_dir import RecoveredLogDir
from storage.store.staging import Staging
from storage.store.store import Mode, Store
from storage.store.store_recovery import Recovered, RecoveryOptions, plan_recovery, recover_store
from storage.store.unclosed_logs import recover_unclosed_logs

__all__ = [
    "FlushThread",
    "FoundGroups",
    "InternalTopics",
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
