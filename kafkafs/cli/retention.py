"""`kafkafs retention`: plans which segments retention deletes, and deletes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import EXIT_FAILED, say, sentence
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import chosen_form, counted, output_options, print_line, row_of, write_detailed_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    change_any_option,
    check_may_change,
    chosen_partitions,
    follow_links_option,
    opened_store,
    say_unknown_settings,
    server_properties_option,
    store_argument,
)
from storage.cleanup import Scope
from storage.clock import Clock
from storage.errors import StorageError, UnknownPartitionError, is_full_disk
from storage.store import StoreRetention

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from storage.cleanup import RetainedSegment, RetentionPlan
    from storage.log_dir import Partition
    from storage.store import Store

_COLUMNS = (
    "topic",
    "partition",
    "segments",
    "bytes",
    "deletedSegments",
    "deletedBytes",
    "startOffset",
    "newStartOffset",
    "endOffset",
    "isApplied",
    "reason",
)
_DETAILS = ("scope", "highWatermark", "cleanupPolicy", "retentionMs", "retentionBytes", "warnings", "plan")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The plan or the report of a partition's log, or its error, before which some segments may have been deleted."""

    topic: str
    partition: int
    plan: RetentionPlan | None
    is_applied: bool
    error: StorageError | OSError | None
    deleted_before: tuple[RetainedSegment, ...] = ()


@click.command(epilog="\b\nExample:\n  kafkafs retention /var/lib/kafka orders --dry-run")
@store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted and change nothing, as without an option.")
@click.option("--apply", "is_applying", is_flag=True, help="Delete it.")
@change_any_option
@server_properties_option
@output_options
@click.pass_context
def retention(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topics: tuple[str, ...],
    dry_run: bool,
    is_applying: bool,
    may_change_any: bool,
    server_properties: Path | None,
) -> None:
    """Delete the oldest segments of a store's logs, or of some of its topics, as a broker's retention would.

    The plan names each segment that is deleted by the log's start, by retention.bytes or by retention.ms, and why.
    After it come files that take space beside the logs, with their bytes: segments that are left to be removed, and
    directories of no partition (-delete, -stray, -future). They are no part of the plan, nor of --json and the like.

    Without --apply nothing is changed, and a broker may be running. With --apply the store must not be open elsewhere,
    and the files are gone when the command ends. Topics with unknown settings are left alone.

    On a full disk a log that was not closed properly may not have the room for its recovery. Then the segments that are
    known to be on disk are deleted first, and partitions without any are tried again after all others.

    Exit code 3 means that a partition could not be read or cleaned up.
    """
    if dry_run and is_applying:
        raise click.UsageError("--dry-run and --apply exclude each other.")
    if is_applying:
        check_may_change(store, may_change_any=may_change_any)
    form = chosen_form(ctx)
    tally = _Tally()
    with finishing(is_changing=is_applying) as change:
        with opened_store(store, server_properties, is_changed=is_applying, change=change) as opened:
            chosen = chosen_partitions(opened, topics)
            outcomes = tally.counted(_Work(opened, change, is_applying=is_applying).outcomes(chosen))
            if form is None:
                for outcome in outcomes:
                    print_line("\n".join(_lines(outcome)))
                with Progress.on_terminal().beating("looking for files that are left over"):
                    for left_over in StoreRetention(opened, Clock()).left_over(topics):
                        print_line(left_over.sentence)
            else:
                write_detailed_rows(_COLUMNS, _DETAILS, map(_row, outcomes), form)
        if form is None:
            print_line(tally.sentence(is_applying=is_applying))
        say_unknown_settings(store, tally.unknown)
        if not dry_run and not is_applying:
            say("nothing was deleted; --apply does it")
        if tally.failed:
            raise SystemExit(EXIT_FAILED)


class _Work:
    """The work on each partition."""

    def __init__(self, store: Store, change: Change, *, is_applying: bool) -> None:
        self._store = store
        self._change = change
        self._is_applying = is_applying
        self._retentions = StoreRetention(store, Clock())
        self._progress = Progress.on_terminal()
        self._begun: dict[Partition, RetentionPlan] = {}  # with what was deleted before the log could be opened

    def outcomes(self, chosen: Sequence[Partition]) -> Iterator[_Outcome]:
        """Yield one for each partition. Those for which the disk had no room come last, when they were tried again."""
        without_room: list[Partition] = []
        for outcome in self._attempts(chosen):
            if self._is_applying and outcome.error is not None and is_full_disk(outcome.error):
                without_room.append((outcome.topic, outcome.partition))
            else:
                yield self._said(outcome)
        yield from map(self._said, self._attempts(without_room))

    def _attempts(self, chosen: Sequence[Partition]) -> Iterator[_Outcome]:
        for number, (topic, partition) in enumerate(chosen, start=1):
            if self._change.is_interrupted:
                break
            self._progress.show_count("planning retention", number, len(chosen))
            try:
                with self._progress.beating():
                    outcome = self._attempt(topic, partition)
            except UnknownPartitionError:
                continue  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                begun = self._begun.get((topic, partition))
                deleted_before = () if begun is None else begun.segments
                outcome = _Outcome(topic, partition, None, is_applied=False, error=error, deleted_before=deleted_before)
            yield outcome

    def _said(self, outcome: _Outcome) -> _Outcome:
        self._progress.erase()
        if outcome.error is not None:
            say(f"{outcome.topic}-{outcome.partition}: {sentence(outcome.error)}")
        return outcome

    def _attempt(self, topic: str, partition: int) -> _Outcome:
        # Opening a log for writing recovers it: open only those from which segments are deleted.
        followed = self._store.follow_partition(topic, partition)
        plan = followed.on_view(partial(self._retentions.plan, topic, partition))
        if not self._is_applying or not plan.is_due:
            return self._outcome(topic, partition, plan)
        try:
            return self._outcome(topic, partition, self._applied(topic, partition))
        except (StorageError, OSError) as error:
            made_room = self._retentions.make_room(topic, partition, plan) if is_full_disk(error) else ()
            if not made_room:
                raise
            begun = self._begun.get((topic, partition), replace(plan, segments=()))
            self._begun[topic, partition] = replace(begun, segments=(*begun.segments, *made_room))
        return self._outcome(topic, partition, self._applied(topic, partition))

    def _applied(self, topic: str, partition: int) -> RetentionPlan:
        """Delete what is due of the log, and remove the files at once: the next log may need the room."""
        plan = self._retentions.plan(topic, partition)
        for doomed in self._retentions.apply(topic, partition, plan):
            self._store.topics.removals.remove(doomed)
        return plan

    def _outcome(self, topic: str, partition: int, plan: RetentionPlan) -> _Outcome:
        begun = self._begun.get((topic, partition))
        if begun is not None:
            plan = replace(plan, start_offset=begun.start_offset, segments=(*begun.segments, *plan.segments))
        return _Outcome(topic, partition, plan, is_applied=self._is_applying and plan.is_due, error=None)


class _Tally:
    """The totals of all partitions."""

    def __init__(self) -> None:
        self.failed = 0
        self.unknown: dict[str, str] = {}  # topics in their order, and why
        self._partitions = self._segments = self._bytes = 0

    def counted(self, outcomes: Iterator[_Outcome]) -> Iterator[_Outcome]:
        for outcome in outcomes:
            self._partitions += 1
            if outcome.error is not None:
                self.failed += 1
                self._segments += len(outcome.deleted_before)
                self._bytes += sum(segment.size_bytes for segment in outcome.deleted_before)
            elif outcome.plan is not None:
                self._segments += len(outcome.plan.deleted)
                self._bytes += outcome.plan.deleted_bytes
                if outcome.plan.scope is Scope.SETTINGS_UNKNOWN:
                    self.unknown[outcome.topic] = outcome.plan.unknown
            yield outcome

    def sentence(self, *, is_applying: bool) -> str:
        done = "deleted" if is_applying else "to be deleted"
        failed = f", {self.failed} failed" if self.failed else ""
        segments = counted(self._segments, "segment")
        return f"{counted(self._partitions, 'partition')}: {segments}, {self._bytes} bytes {done}{failed}"


def _lines(outcome: _Outcome) -> Iterator[str]:
    if outcome.plan is None:
        yield f"{outcome.topic}-{outcome.partition}: failed"
    else:
        yield from outcome.plan.lines()
        if outcome.is_applied:
            yield f"{outcome.plan.log}: done"


def _row(outcome: _Outcome) -> Mapping[str, object]:
    row: dict[str, object] = dict.fromkeys((*_COLUMNS, *_DETAILS))
    row |= {"topic": outcome.topic, "partition": outcome.partition, "isApplied": outcome.is_applied}
    plan = outcome.plan
    if plan is not None:
        said = row_of(plan.as_json())
        row |= {key: value for key, value in said.items() if key in row}
        row |= {
            "segments": len(plan.segments),
            "bytes": plan.size_bytes,
            "deletedSegments": len(plan.deleted),
            "plan": said["segments"],
        }
    if outcome.error is not None:
        row["reason"] = str(outcome.error)
    return row
