"""The next step for each kind of finding, in a sentence."""

from __future__ import annotations

from typing import Final

from storage.verify import FindingKind, Severity

_COPY: Final = "copy the records from another replica"
_DAMAGED_LOG: Final = (
    f"`kafkafs cat STORE TOPIC/PARTITION/damage.jsonl` tells the range. {_COPY.capitalize()}, or let "
    "`kafkafs salvage STORE TOPIC/PARTITION DIR` copy the intact batches on both sides of it."
)
_TAIL: Final = "A broker cuts it at its next start. `kafkafs recover STORE` says how many bytes that would be."
_INDEX: Final = (
    "A broker that starts after a crash builds it again. `kafkafs recover STORE` says so, and --apply does it."
)
_SMALL_FILE: Final = "`kafkafs recover STORE` says what would be written in its place; --apply writes it."
_BY_HAND: Final = "Compare it with the other log directories, or with a backup, before the broker is started."
_NONE: Final = "Nothing has to be done."

_STEPS: Final = {
    FindingKind.FRAMING: _DAMAGED_LOG,
    FindingKind.CHECKSUM: _DAMAGED_LOG,
    FindingKind.RECORDS: _DAMAGED_LOG,
    FindingKind.OFFSETS: _DAMAGED_LOG,
    FindingKind.OFFSET_GAP: f"Records are missing, and nothing was compacted: {_COPY}.",
    FindingKind.LEADER_EPOCH: _SMALL_FILE,
    FindingKind.TORN_TAIL: _TAIL,
    FindingKind.ZERO_TAIL: _TAIL,
    FindingKind.LOST_TAIL: f"The end of the log is gone: {_COPY}, or restore a backup.",
    FindingKind.MISSING_INDEX: _INDEX,
    FindingKind.ORPHANED_INDEX: "It has no log. A broker removes it at its next start.",
    FindingKind.INDEX_SIZE: _INDEX,
    FindingKind.UNTRIMMED_INDEX: _INDEX,
    FindingKind.INDEX_ENTRY: _INDEX,
    FindingKind.TIME_INDEX_ENTRY: _INDEX,
    FindingKind.TRANSACTION_INDEX_ENTRY: _INDEX,
    FindingKind.INTERRUPTED_REPLACEMENT: "A broker finishes it at its next start, as `kafkafs recover` does.",
    FindingKind.LEFT_OVER: "A broker removes it at its next start.",
    FindingKind.MISSING_SNAPSHOT: _SMALL_FILE,
    FindingKind.SNAPSHOT: _SMALL_FILE,
    FindingKind.EPOCH_CHECKPOINT: _SMALL_FILE,
    FindingKind.PARTITION_METADATA: f"The broker takes the partition for another topic's. {_BY_HAND}",
    FindingKind.METADATA_SNAPSHOT: "Copy the directory of the metadata log from another controller.",
    FindingKind.QUORUM_STATE: "Remove it while the broker is down; it is made at the next start.",
    FindingKind.META_PROPERTIES: f"The broker does not start with it. {_BY_HAND}",
    FindingKind.CHECKPOINT: _SMALL_FILE,
    FindingKind.FOREIGN_DIRECTORY: "A broker does not start while it is there: move it out of the log directory.",
    FindingKind.BARE_LOG_DIR: "Mount its disk before the broker is started: it makes missing partitions again, empty.",
    FindingKind.DUPLICATE_PARTITION: "A broker does not start with both: compare them, and move one away.",
    FindingKind.DUPLICATE_COPY: "Move one of the copies out of the store.",
    FindingKind.STRAY: f"Its partition.metadata has another topic's id, so no client gets its records. {_BY_HAND}",
    FindingKind.SETTINGS: "Settings of topics are in it: write it again with `kafkafs topics config`.",
    FindingKind.COMMITS: "Restore it from a backup; without it an interrupted commit cannot be completed.",
    FindingKind.SYMBOLIC_LINK: "Put the file or the directory itself there; kafkafs follows no link.",
    FindingKind.UNREADABLE: "Look at its owner, its mode and the kernel's log, then make the report again.",
}
assert _STEPS.keys() == set(FindingKind)


def next_step(kind: FindingKind, severity: Severity = Severity.DAMAGE) -> str:
    """Return what to do about a finding; a notice needs nothing."""
    return _NONE if severity is Severity.NOTICE else _STEPS[kind]
