"""The segment store: pure and synchronous, with no knowledge of FUSE, the event loop or Spark.

These are the names to begin with. Records and batches are in `storage.record`, Arrow columns in
`storage.record.columns`.
"""

from __future__ import annotations

from storage.clock import Clock
from storage.config import StoreConfig, TopicConfig
from storage.errors import StorageError
from storage.files import Files
from storage.log.log import Log
from storage.log.opening import open_sound_log

__all__ = ["Clock", "Files", "Log", "StorageError", "StoreConfig", "TopicConfig", "open_sound_log"]
