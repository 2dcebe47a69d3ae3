"""`.kafkafs/transactions`: every open transaction of the store, the oldest first, and what it holds up.

One line each. `state` is the coordinator's, `-` where its records are not in the store. A transaction that is open in a
partition and closed for its coordinator hangs. `holdsUp` are the partitions whose last stable offset it keeps where it
began, as `topic-partition@offset`. `abort` is a line for a shell that would end it there.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from kafkafs.allocation import without_looks_for_cycles
from kafkafs.tree.generated_file import Generated, GeneratedFile
from kafkafs.tree.group_lines import in_a_line
from kafkafs.tree.groups_directory import failure_of
from kafkafs.tree.stream_file import unknown_xattr
from kafkafs.tree.tab_separated import TABLE_BYTES_MAX, UNKNOWN, BoundedRows, tab_separated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkafs.locator.paths import StoreFilePath
    from kafkafs.tree.context import TreeContext
    from storage.cluster import OpenInPartition, OpenTransaction

_NUMBER_CHARACTERS: Final = 12
_NAMES: Final = (
    "transactionalId",
    "producerId",
    "producerEpoch",
    "state",
    "ageSeconds",
    "timeoutMs",
    "partitions",
    "holdsUp",
    "abort",
)


class OpenTransactionsFile(GeneratedFile):
    """The open transactions. The size is unknown until it is opened, because that takes asking every log of the store.

    If something cannot be read, reading ends with an error, unless damage is skipped. Of more partitions than
    `PARTITIONS_ASKED_MAX` none is asked, and reading is refused.
    """

    def __init__(self, path: StoreFilePath, context: TreeContext) -> None:
        super().__init__(path, context.clock, rights=context.rights, access=context.access_to_all)
        self._context = context

    def takes_long(self) -> bool:
        """True unless it was opened a moment ago."""
        return not self.is_made

    def xattrs(self) -> Mapping[str, bytes]:
        """That the size is unknown, if it is."""
        return unknown_xattr(self.attributes().size_bytes)

    def generate(self) -> Generated:
        """Ask the coordinators' records and every log."""
        self._context.sources.refresh()
        now_ms = self._clock.now_ms()
        refusal = self._context.lack_of_time()
        if refusal is not None:
            return Generated(b"", now_ms, refusal)
        with without_looks_for_cycles():
            found = self._context.internal_topics.transactions()
            rows = BoundedRows(list(map(in_a_line, _row(each, now_ms))) for each in found.transactions)
            data = tab_separated(_NAMES, rows)
        return Generated(data, now_ms, rows.failure or failure_of(found.shortcomings, self._context.options))


def _row(each: OpenTransaction, now_ms: int) -> tuple[str | int | None, ...]:
    coordinated, began_ms = each.coordinated, each.began_ms
    return (
        None if coordinated is None else coordinated.transactional_id,
        each.producer_id,
        each.producer_epoch,
        None if coordinated is None else coordinated.state_name,
        None if began_ms is None else (now_ms - began_ms) // 1000,
        None if coordinated is None else coordinated.timeout_ms,
        _listed(each.partitions),
        ",".join(f"{at.topic}-{at.partition}@{at.first_offset}" for at in each.in_partitions if at.holds_up),
        "; ".join(map(_abort, each.in_partitions)),
    )


def _listed(partitions: tuple[tuple[str, int], ...]) -> str:
    """The partitions; of so many with such names that no broker writes them, how many there are."""
    size_bytes = sum(len(topic) + _NUMBER_CHARACTERS for topic, _ in partitions)
    if size_bytes > TABLE_BYTES_MAX // 4:
        return f"({len(partitions)} partitions)"
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions) or UNKNOWN


def _abort(at: OpenInPartition) -> str:
    """Return the command that ends a transaction in a partition, for a broker to be filled in."""
    return (
        f"kafka-transactions.sh --bootstrap-server BROKER:9092 abort --topic {shlex.quote(at.topic)} "
        f"--partition {at.partition} --start-offset {at.first_offset}"
    )
