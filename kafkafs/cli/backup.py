"""`kafkafs backup`: copies a store, a broker's live one too, into a run of its own; also plans runs and checks them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from kafkafs.backup import Backup, RunCheck
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND, say
from kafkafs.cli.output import Form, chosen_form, counted, output_options, write_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    broker_settings,
    follow_links_option,
    optional_store_argument,
    server_properties_option,
    store_files,
)
from storage.clock import Clock
from storage.files import store_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkafs.backup import PartitionPlan, RunReport, TakenPartition

_COLUMNS: Final = ("topic", "partition", "startOffset", "endOffset", "copiedBytes", "linkedBytes", "aboveHighWatermark")
_SAID_MAX: Final = 20


def _path(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Path | None:
    return None if text is None else store_path(text)


@click.command(
    epilog="\b\nExamples:\n  kafkafs backup /var/lib/kafka /backup/kafka\n"
    "  kafkafs backup --check /backup/kafka/latest\n  kafkafs ls /backup/kafka/latest"
)
@optional_store_argument
@click.argument("dest", required=False, callback=_path)
@follow_links_option
@click.option("--plan", "is_plan", is_flag=True, help="Print what would be copied and linked, and make nothing.")
@click.option("--check", "checked", metavar="RUN", callback=_path, help="Check a run's files against its manifest.")
@click.option("--to-end", is_flag=True, help="Copy each log up to its end, and not only what is replicated.")
@click.option("--copy-all", is_flag=True, help="Copy every file, also those that an earlier run has.")
@click.option("--accept-missing", is_flag=True, help="Go on if a log directory of the store is missing.")
@server_properties_option
@output_options
@click.pass_context
def backup(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    dest: Path | None,
    is_plan: bool,
    checked: Path | None,
    to_end: bool,
    copy_all: bool,
    accept_missing: bool,
    server_properties: Path | None,
) -> None:
    """Copy a store, which a broker may be writing, into a run of its own in DEST.

    Each run is a complete store, DEST/runs/TIME, which every command reads; DEST/latest leads to the newest. Files that
    did not change since the run before are hard links to that run's, so a run costs what changed, and removing its
    directory removes it. Files of the store are never linked: they are copied, or share blocks where the file system
    can do that.

    Each partition is copied up to its high watermark, at a whole batch, and verified. What a log has above that is
    counted and left out. The store is only read, and its lock is not taken. What changes under a run is copied again,
    and said. An interrupted run is not a run: the next one goes on from what is there.

    Exit code 1 means that something in the store is damaged; it is copied as it is. With --check it means that the run
    is not what was written.
    """
    if checked is not None:
        if dest is not None or is_plan:
            raise click.UsageError("--check takes a run, and nothing else")
        ctx.exit(_check(checked, chosen_form(ctx) or Form.JSONL))
    if not store or dest is None:
        raise click.UsageError("name the store, STORE, and the directory of the backups, DEST")
    progress = Progress.on_terminal()
    made = Backup(
        store_files(),
        Clock(),
        store,
        dest,
        broker_settings=broker_settings(server_properties),
        to_end=to_end,
        copies_all=copy_all,
        accepts_missing=accept_missing,
        announce=lambda name, number, count: progress.show_count(f"backing up {name}", number, count),
    )
    ctx.exit((_plan if is_plan else _run)(made, dest, chosen_form(ctx), progress))


def _plan(made: Backup, _dest: Path, form: Form | None, progress: Progress) -> int:
    failures: list[str] = []
    rows = [_planned_row(plan) for plan in made.plan(failures.append)]
    progress.erase()
    for failure in failures:
        say(failure)
    write_rows(_COLUMNS, rows, form or Form.TABLE)
    return EXIT_FAILED if failures else EXIT_DONE


def _run(made: Backup, dest: Path, form: Form | None, progress: Progress) -> int:
    rows: list[Mapping[str, object]] = []
    begun_s = time.monotonic()
    try:
        report = made.run(lambda taken: rows.append(_taken_row(taken)) if form is not None else None)
    except KeyboardInterrupt:
        progress.erase()
        say("the run is not complete; the next one goes on from what is there")
        raise
    progress.erase()
    if form is not None:
        write_rows(_COLUMNS, rows, form)
    for commit in report.beyond[:_SAID_MAX]:
        say(
            f"group {commit.group} has committed {commit.committed_offset} in {commit.topic}-{commit.partition}, whose "
            f"copy ends at {commit.end_offset}"
        )
    _say_rest(report.beyond, "committed offset above the end of a copy")
    for sentences, what in (
        (report.changes, "change"),
        ([f"damaged, and copied as it is: {each}" for each in report.damage], "damage"),
        (report.failures, "failure"),
    ):
        for sentence in sentences[:_SAID_MAX]:
            say(sentence)
        _say_rest(sentences, what)
    click.echo(_summary(report, dest, time.monotonic() - begun_s), err=form is not None)
    if report.failures:
        return EXIT_FAILED
    return EXIT_FOUND if report.damage else EXIT_DONE


def _say_rest(said: Sequence[object], what: str) -> None:
    if len(said) > _SAID_MAX:
        say(f"{counted(len(said) - _SAID_MAX, f'more {what}')}; the run's manifest has all")


def _summary(report: RunReport, dest: Path, seconds: float) -> str:
    amount = f"{report.copied_bytes / 1e6:.1f} MB copied, {report.linked_bytes / 1e6:.1f} MB linked"
    latest = "it lacks something, and is not the latest" if report.failures else f"{dest / 'latest'} leads to it"
    taken = f"{counted(report.partitions, 'partition')}, {amount}, verified, {seconds:.1f} s"
    return f"{report.path}: {taken}; {latest}{_left_out(report)}"


def _left_out(report: RunReport) -> str:
    """Say what of the store is above the high watermarks, and so not in the run."""
    if not report.above:
        return ""
    offsets, partitions = counted(sum(report.above.values()), "offset"), counted(len(report.above), "partition")
    return f"; {offsets} of {partitions} above the high watermark are left out, --to-end copies them"


def _taken_row(taken: TakenPartition) -> dict[str, object]:
    partition = taken.partition
    offsets = (partition.start_offset, partition.end_offset)
    amounts = (taken.copied_bytes, taken.linked_bytes, partition.above_high_watermark)
    values = (partition.topic, partition.partition, *offsets, *amounts)
    return dict(zip(_COLUMNS, values, strict=True))


def _planned_row(plan: PartitionPlan) -> dict[str, object]:
    offsets = (plan.prefix.start_offset, plan.prefix.end_offset)
    values = (plan.topic, plan.partition, *offsets, plan.copied_bytes, plan.linked_bytes, plan.above_high_watermark)
    return dict(zip(_COLUMNS, values, strict=True))


def _check(path: Path, form: Form) -> int:
    """Check a run and print what is wrong with it; return the exit code."""
    check = RunCheck(store_files(), path)
    progress = Progress.on_terminal()
    damaged = unreadable = 0

    def rows() -> Iterator[dict[str, object]]:
        nonlocal damaged, unreadable
        for finding in check.findings(lambda: progress.show("checking", check.done_bytes, check.total_bytes)):
            progress.erase()
            yield {"path": finding.path, "reason": finding.reason}
            unreadable += finding.is_unreadable
            damaged += not finding.is_unreadable
        progress.erase()

    write_rows(("path", "reason"), rows(), form)
    verdict = f"{counted(damaged + unreadable, 'finding')} in" if damaged + unreadable else "as it was written:"
    click.echo(f"{verdict} {counted(check.files, 'file')}, {check.done_bytes / 1e6:.1f} MB", err=True)
    if damaged:
        return EXIT_FOUND
    return EXIT_FAILED if unreadable else EXIT_DONE
