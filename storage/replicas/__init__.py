"""The replicas that are left of a partition, and one log made of them.

scan         a directory read from end to end: sound batches, damage, leader epochs
composition  which replica a log is made of, what fills its damage, what is lost against the others
writing      the log in a directory of its own, copied and verified
"""

from __future__ import annotations

from storage.replicas.composition import Composition, compose
from storage.replicas.scan import Replica, scan_replica
from storage.replicas.writing import write_empty_log, write_log

__all__ = ["Composition", "Replica", "compose", "scan_replica", "write_empty_log", "write_log"]
