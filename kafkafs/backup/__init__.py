"""Backups of a store, a broker's live one too: runs, each a complete store of its own, that share what did not change.

places             the directory of backups: its runs, the newest of them, who may use it
run                a run from beginning to end
making             all partitions of a run, each taken until it stood still
partition_plan     what a run takes of a partition: up to which offset, which files, copied or linked
partition_copy     a partition taken, recovered and verified
manifest           each file of a run with its checksum and what it was copied from
manifest_lines     the lines of a manifest, and how each value is taken out of them
missing            log directories that a store has and a run would lack
top_files          the files that make partitions a log directory
groups             committed offsets above the ends of the copies
checking           a run held against its manifest
"""

from kafkafs.backup.checking import RunCheck, RunFinding
from kafkafs.backup.making import RunReport, TakenPartition
from kafkafs.backup.partition_plan import PartitionPlan
from kafkafs.backup.places import check_latest_leads_to_a_run
from kafkafs.backup.run import Backup

__all__ = [
    "Backup",
    "PartitionPlan",
    "RunCheck",
    "RunFinding",
    "RunReport",
    "TakenPartition",
    "check_latest_leads_to_a_run",
]
