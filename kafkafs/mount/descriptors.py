"""How many descriptors a mount may have, and how many of them go to logs that are written."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

from storage.log import DESCRIPTORS_A_LOG

AWAKE_LOGS_MAX: Final = 10_000
"""The kernel allows a process some 65,000 maps, and a log with open files has two."""
_AWAKE_SHARE: Final = 2
"""The share of descriptors for logs that are written; the rest is for readers, and for opening and recovering."""


def raise_limit() -> int:
    """Raise this process's limit of descriptors to its hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a hard limit above what the kernel allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return AWAKE_LOGS_MAX * DESCRIPTORS_A_LOG * _AWAKE_SHARE if soft == resource.RLIM_INFINITY else soft


def awake_logs_max(descriptors: int) -> int:
    """Return how many logs may hold descriptors at once under this limit."""
    return max(min(descriptors // _AWAKE_SHARE // DESCRIPTORS_A_LOG, AWAKE_LOGS_MAX), 1)
