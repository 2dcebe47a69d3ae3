"""Exact sizes of rendered logs, counted once and kept.

A size is exact or it is unknown. Counting reads the log and nothing else, in the background if that takes long, and
goes on where it ended when the log grows. Counts are kept in the user's cache directory, never in the store.
"""

from __future__ import annotations

from kafkafs.sizes.cache import SizeCache
from kafkafs.sizes.counted_log import CountedLog
from kafkafs.sizes.counted_text import CountedText
from kafkafs.sizes.saved import cache_directory

__all__ = ["CountedLog", "CountedText", "SizeCache", "cache_directory"]
