"""The Python process in which Spark runs tasks, one after another."""

from __future__ import annotations

import gc
from functools import cache

from kafkafs.allocation import keep_freed_memory


@cache
def settle() -> None:
    """Keep freed memory, and leave what this process has loaded so far out of later collections of garbage.

    Spark has its workers collect garbage after each task. To go through the objects of all modules takes them 50 ms
    then, in which a task reads a hundred megabytes.
    """
    keep_freed_memory()
    gc.collect()
    gc.freeze()
