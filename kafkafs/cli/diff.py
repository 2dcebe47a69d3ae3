"""`kafkafs diff`: compares two replicas, or a backup and its origin, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND, say, sentence
from kafkafs.cli.output import chosen_form, counted, output_options, print_line, write_detailed_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import follow_links_option, opened_store, other_store_argument, store_argument
from kafkafs.find.comparison import compare
from kafkafs.find.partitions import matching_partitions
from storage.errors import StorageError, UnknownPartitionError
from storage.log import FollowedLog, Log
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kafkafs.find.comparison import Comparison, Side
    from storage.log_dir import Partition
    from storage.store import Store

_COLUMNS: Final = (
    *("topic", "partition", "result", "offset", "endOffset", "otherEndOffset", "fields", "equalBytes", "reason"),
)
_DETAILS: Final = ("hasSameRecords", "isReconciled", "isOtherReconciled", "side", "other")


@click.command(epilog="\b\nExample:\n  kafkafs diff /var/lib/kafka /tmp/store orders")
@store_argument
@other_store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC[/PARTITION]]...")
@output_options
@click.pass_context
def diff(ctx: click.Context, *, store: tuple[Path, ...], other: tuple[Path, ...], topics: tuple[str, ...]) -> None:
    """Compare the partitions of two stores: replicas, or a backup and its origin.

    TOPIC and PARTITION may be patterns. Of each partition the first batch is shown in which the copies differ: its
    offset, leader epochs and what differs in it; control batches and producers count too. The leader epochs tell if a
    broker's truncation would reconcile the copies, whichever of them leads. Segments may be cut differently, and one
    copy may begin later than the other. Nothing is changed, and brokers may be running.

    Exit code 0 means that all are the same, 1 that something differs, 3 that something could not be read.
    """
    form = chosen_form(ctx)
    tally = _Tally()
    with opened_store(store) as one, opened_store(other) as two:
        rows = tally.counted(_rows(one, two, topics, Progress.on_terminal()))
        if form is None:
            for row in rows:
                if row["result"] != "same":
                    print_line(row["reason"])
        else:
            write_detailed_rows(_COLUMNS, _DETAILS, rows, form)
    if form is None:
        print_line(tally.sentence())
    ctx.exit(EXIT_FAILED if tally.failed else EXIT_FOUND if tally.differing else EXIT_DONE)


class _Tally:
    """The partitions so far."""

    def __init__(self) -> None:
        self.same = self.differing = self.failed = self.equal_bytes = 0

    def counted(self, rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            self.same += row["result"] == "same"
            self.failed += row["result"] == "failed"
            self.differing += row["result"] not in ("same", "failed")
            self.equal_bytes += row["equalBytes"] or 0
            yield row

    def sentence(self) -> str:
        failed = f", {self.failed} could not be compared" if self.failed else ""
        found = f"{counted(self.same, 'partition')} the same, {self.differing} different{failed}"
        return f"{found}; {self.equal_bytes / 1e6:.1f} MB are equal"


def _rows(one: Store, two: Store, topics: Sequence[str], progress: Progress) -> Iterator[dict[str, Any]]:
    chosen = [_chosen(store, topics) for store in (one, two)]
    partitions = dict.fromkeys([*chosen[0], *chosen[1]])
    if topics and not partitions:
        raise UnknownPartitionError(f"neither store has {', '.join(topics)}")
    for number, partition in enumerate(partitions, start=1):
        progress.show_count("comparing partitions", number, len(partitions))
        topic, index = partition
        try:
            if partition in chosen[0] and partition in chosen[1]:
                found = compare(_log(one, partition), _log(two, partition), lambda _: None)
                row = _row(partition, found)
            else:
                which = "first" if partition in chosen[0] else "second"
                row = _empty(partition, f"only in {which}", f"{topic}/{index}: only the {which} store has it")
        except (StorageError, OSError) as error:
            say(f"{topic}/{index}: {sentence(error)}")
            row = _empty(partition, "failed", sentence(error))
        progress.erase()
        yield row


def _chosen(store: Store, topics: Sequence[str]) -> dict[Partition, None]:
    found: dict[Partition, None] = {}
    for pattern in topics or ("*",):
        try:
            found |= dict.fromkeys(matching_partitions(store, [pattern]))
        except UnknownPartitionError:
            continue  # the other store may have it
    return found


def _log(store: Store, partition: Partition) -> Log | FollowedLog:
    log = store.log(*partition)
    assert isinstance(log, Log | FollowedLog)
    return log


def _empty(partition: Partition, result: str, reason: str) -> dict[str, Any]:
    nothing = dict.fromkeys((*_COLUMNS, *_DETAILS))
    return {**nothing, "topic": partition[0], "partition": partition[1], "result": result, "reason": reason}


def _row(partition: Partition, found: Comparison) -> dict[str, Any]:
    return {
        "topic": partition[0],
        "partition": partition[1],
        "result": _result(found),
        "offset": found.offset,
        "endOffset": found.one.end_offset,
        "otherEndOffset": found.other.end_offset,
        "fields": list(found.fields),
        "equalBytes": found.equal_bytes,
        "reason": None if found.is_same else "; ".join(_said(partition, found)),
        "hasSameRecords": found.has_same_records,
        "isReconciled": _reconciles(found.one, found.offset),
        "isOtherReconciled": _reconciles(found.other, found.offset),
        "side": _side(found.one),
        "other": _side(found.other),
    }


def _result(found: Comparison) -> str:
    if found.is_same:
        return "same"
    if found.one.fields is None and found.one.damage is None:
        return "shorter"
    return "longer" if found.other.fields is None and found.other.damage is None else "different"


def _said(partition: Partition, found: Comparison) -> Iterator[str]:
    topic, index = partition
    yield f"{topic}/{index}: the copies differ from offset {found.offset} on"
    for name, side in (("first", found.one), ("second", found.other)):
        if side.fields is None:
            yield f"the {name} {'is damaged there: ' + side.damage if side.damage else f'ends at {side.end_offset}'}"
        else:
            batch, damage = side.fields, f", and {side.damage}" if side.damage else ""
            offsets = offsets_text(batch["baseOffset"], batch["lastOffset"] + 1)
            yield (
                f"the {name} has a batch of {offsets} with epoch {batch['leaderEpoch']} at {side.position} of "
                f"{side.segment}{damage}"
            )
    if found.fields:
        yield f"the batches differ in {', '.join(found.fields)}"
    if found.has_same_records:
        yield "their records are the same"
    for leads, follows, side in (("second", "first", found.one), ("first", "second", found.other)):
        yield f"if the {leads} led, {_truncates(follows, side, found.offset)}"


def _truncates(name: str, side: Side, offset: int | None) -> str:
    if side.truncated_to is None:
        return f"the leader epochs would not tell the {name} where to truncate"
    if _reconciles(side, offset):
        if side.truncated_to >= side.end_offset:
            return f"the {name} would truncate nothing and fetch the rest"
        return f"the {name} would truncate to {side.truncated_to}, which reconciles them"
    return f"the {name} would truncate to {side.truncated_to} and keep what differs"


def _reconciles(side: Side, offset: int | None) -> bool | None:
    if offset is None or side.truncated_to is None:
        return None
    return side.truncated_to <= offset


def _side(side: Side) -> dict[str, Any]:
    return {
        "startOffset": side.start_offset,
        "endOffset": side.end_offset,
        "segment": side.segment,
        "position": side.position,
        "batch": side.fields,
        "damage": side.damage,
        "truncatedTo": side.truncated_to,
    }
