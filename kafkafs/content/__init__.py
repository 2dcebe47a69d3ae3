"""Exact sizes of rendered logs, counted once and kept.

A size is exact or it is unknown. Counting reads the log and nothing else, in the background if that takes long, and
goes on where it ended when the log grows. Counts are kept in the user's cache directory, never in the store.
"""

from __future__ import annotations

from kafkafs.content.cache import SizeCache
from kafkafs.content.counted_log import CountedLog
from kafkafs.content.counted_text import CountedText
from kafkafs.content.saved import cache_directory

__all__ = ["CountedLog", "CountedText", "SizeCache", "cache_directory"]
