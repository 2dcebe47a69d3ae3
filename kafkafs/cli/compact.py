"""`kafkafs compact`: plans the compaction of a store's logs, and does it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from time import sleep
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
from storage.cleanup import Verdict
from storage.clock import Clock
from storage.errors import StorageError, UnknownPartitionError
from storage.store import StoreCompaction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from storage.cleanup import CompactionPlan, CompactionReport
    from storage.log_dir import Partition
    from storage.store import Store

_COLUMNS = (
    "topic",
    "partition",
    "verdict",
    "cleanBytes",
    "dirtyBytes",
    "beforeBytes",
    "afterBytes",
    "recordsRead",
    "recordsKept",
    "isApplied",
    "reason",
)
_DETAILS = ("checkpoint", "firstDirtyOffset", "uncleanableOffset", "warnings", "plan", "report")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The plan or the report of a partition's log, or its error."""

    topic: str
    partition: int
    plan: CompactionPlan | None
    report: CompactionReport | None
    is_applied: bool
    error: StorageError | OSError | None


@click.command(epilog="\b\nExample:\n  kafkafs compact /var/lib/kafka customers --dry-run")
@store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("--dry-run", is_flag=True, help="Find out what would be left, to the byte; change nothing.")
@click.option("--apply", "is_applying", is_flag=True, help="Compact what is due.")
@click.option(
    "--force", is_flag=True, help="Compact also logs that are not dirty enough, and despite log.cleaner.enable=false."
)
@change_any_option
@server_properties_option
@output_options
@click.pass_context
def compact(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topics: tuple[str, ...],
    dry_run: bool,
    is_applying: bool,
    force: bool,
    may_change_any: bool,
    server_properties: Path | None,
) -> None:
    """Compact a store's logs, or those of some of its topics: the latest record of each key stays.

    Without an option only the plan is printed. With --dry-run the logs are read to find out what would be left of them;
    nothing is changed, and a broker may be running. With --apply the store must not be open elsewhere. Topics with
    unknown settings are left alone.

    Exit code 3 means that a partition could not be read or compacted.
    """
    if dry_run and is_applying:
        raise click.UsageError("--dry-run and --apply exclude each other.")
    if is_applying:
        check_may_change(store, may_change_any=may_change_any)
    form = chosen_form(ctx)
    with finishing(is_changing=is_applying) as change:
        with opened_store(store, server_properties, is_changed=is_applying, change=change) as opened:
            work = _Work(opened, change, is_reading=dry_run, is_applying=is_applying, is_forced=force)
            outcomes = work.outcomes(chosen_partitions(opened, topics), is_named=bool(topics))
            if form is None:
                for outcome in outcomes:
                    print_line("\n".join(_lines(outcome)))
            else:
                write_detailed_rows(_COLUMNS, _DETAILS, map(_row, outcomes), form)
        if form is None:
            print_line(work.sentence)
        say_unknown_settings(store, work.unknown)
        if not dry_run and not is_applying:
            say("nothing was changed; --dry-run says what would be left, --apply does it")
        if work.failed:
            raise SystemExit(EXIT_FAILED)


class _Work:
    """The work on each partition. `failed` counts the partitions that failed.

    `unknown` are topics that are left alone because their settings are not known.
    """

    def __init__(self, store: Store, change: Change, *, is_reading: bool, is_applying: bool, is_forced: bool) -> None:
        self.failed = 0
        self.unknown: dict[str, str] = {}
        self._change = change
        self._partitions = self._due = self._dirty_bytes = self._before_bytes = self._after_bytes = 0
        self._store = store
        self._compactions = StoreCompaction(store, Clock(), wait=sleep)
        self._is_reading = is_reading
        self._is_applying = is_applying
        self._is_forced = is_forced

    def outcomes(self, chosen: Sequence[Partition], *, is_named: bool) -> Iterator[_Outcome]:
        """Yield one for each partition; without names, only for those that are compacted."""
        progress = Progress.on_terminal()
        for number, (topic, partition) in enumerate(chosen, start=1):
            if self._change.is_interrupted:
                break
            progress.show_count("compacting" if self._is_applying else "planning", number, len(chosen))
            try:
                with progress.beating():
                    outcome = self._outcome(topic, partition)
            except UnknownPartitionError:
                continue  # it was deleted meanwhile
            except (StorageError, OSError) as error:
                self.failed += 1
                outcome = _Outcome(topic, partition, None, None, is_applied=False, error=error)
            progress.erase()
            if outcome.error is not None:
                say(f"{topic}-{partition}: {sentence(outcome.error)}")
            if is_named or outcome.plan is None or outcome.plan.verdict is not Verdict.NOT_COMPACTED:
                self._count(outcome)
                yield outcome

    def _count(self, outcome: _Outcome) -> None:
        self._partitions += 1
        if outcome.plan is not None and outcome.plan.verdict is Verdict.SETTINGS_UNKNOWN:
            self.unknown[outcome.topic] = outcome.plan.unknown
        if outcome.plan is not None and self._is_chosen(outcome.plan):
            self._due += 1
            self._dirty_bytes += outcome.plan.dirty_bytes
        if outcome.report is not None:
            self._before_bytes += outcome.report.before_bytes
            self._after_bytes += outcome.report.after_bytes

    @property
    def sentence(self) -> str:
        """Return the totals of all partitions."""
        if self._is_applying or self._is_reading:
            done = "compacted" if self._is_applying else "to be compacted"
            due = f"{self._due} {done}, {self._before_bytes} bytes become {self._after_bytes}"
        else:
            due = f"{self._due} to be compacted, {self._dirty_bytes} bytes dirty"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{counted(self._partitions, 'partition')}: {due}{failed}"

    def _is_chosen(self, plan: CompactionPlan) -> bool:
        return plan.is_applicable if self._is_forced else plan.is_due

    def _outcome(self, topic: str, partition: int) -> _Outcome:
        # Opening a log to write it recovers it: that is for those alone that are compacted.
        followed = self._store.follow_partition(topic, partition)
        plan = followed.on_view(partial(self._compactions.plan, topic, partition))
        report = None
        if self._is_chosen(plan) and self._is_applying:
            plan = self._compactions.plan(topic, partition)
        if self._is_chosen(plan) and self._is_applying:
            report = self._compactions.apply(topic, partition, plan)
        elif self._is_chosen(plan) and self._is_reading:
            report = self._compactions.estimate(topic, partition, plan)
        return _Outcome(topic, partition, plan, report, self._is_applying and report is not None, None)


def _lines(outcome: _Outcome) -> Iterator[str]:
    if outcome.plan is None:
        yield f"{outcome.topic}-{outcome.partition}: {outcome.error}"
        return
    yield from outcome.plan.lines()
    if outcome.report is not None:
        yield outcome.report.sentence
    if outcome.is_applied:
        yield f"{outcome.plan.log}: done"


def _row(outcome: _Outcome) -> Mapping[str, object]:
    row: dict[str, object] = dict.fromkeys((*_COLUMNS, *_DETAILS))
    row |= {"topic": outcome.topic, "partition": outcome.partition, "isApplied": outcome.is_applied}
    for said in (outcome.report, outcome.plan):
        if said is not None:
            row |= {key: value for key, value in row_of(said.as_json()).items() if key in row}
    if outcome.plan is not None:
        row["plan"] = row_of(outcome.plan.as_json())["segments"]
    if outcome.report is not None:
        row |= {"recordsRead": outcome.report.records.read, "recordsKept": outcome.report.records.kept}
        row["report"] = row_of(outcome.report.as_json())
    if outcome.error is not None:
        row["reason"] = str(outcome.error)
    return row
