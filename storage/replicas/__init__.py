"""The replicas that are left of a partition, and one log made of them.

scan         a directory read from end to end: sound batches, damage, leader epochs
order        the sound batches in the order of their offsets, where some contradict others
epoch_order  the same for their leader epochs
digests      its batches in brief, by which replicas of the same batches are known
comparison   where the batches of two replicas contradict one another
fitting      whether the batches of another replica are those that are damaged
composition  which replica a log is made of, what fills its damage, what is lost against the others
mending      a log made of one replica alone: what is sound on both sides of every damage
unsummed     records of broken batches that decode by themselves
salvaged     what is lost of a log that was made of one replica, by the account beside it
writing      the log in a directory of its own, copied and verified
"""

from __future__ import annotations

from storage.replicas.composition import Composition, compose
from storage.replicas.mending import Mended, Unsummed, mend
from storage.replicas.order import Damage, LostOffsets
from storage.replicas.salvaged import ACCOUNT_SUFFIX, Salvaged, read_account
from storage.replicas.scan import Replica, scan_replica
from storage.replicas.writing import write_empty_log, write_log

__all__ = [
    "ACCOUNT_SUFFIX",
    "Composition",
    "Damage",
    "LostOffsets",
    "Mended",
    "Replica",
    "Salvaged",
    "Unsummed",
    "compose",
    "mend",
    "read_account",
    "scan_replica",
    "write_empty_log",
    "write_log",
]
