"""`kafkafs recover`: says what a crash left of a store and what would repair it, and repairs it with `--apply`."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kafkafs.cli.cleaning import counted, server_properties_option
from kafkafs.cli.failures import EXIT_FAILED, sentence
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import json_line
from kafkafs.cli.progress import Progress
from kafkafs.cli.recovered_commit import commit_lines, commit_object
from kafkafs.cli.store_argument import store_argument
from storage.clock import Clock
from storage.errors import StorageError
from storage.files import Files, NamedFiles
from storage.log_dir import distinct_log_dirs, read_server_properties
from storage.store import RecoveredCommit, RecoveredLogDir, RecoveryOptions, plan_recovery, recover_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    from kafkafs.cli.finishing import Change
    from storage.log import Step
    from storage.store import Recovered

    Outcome: TypeAlias = Recovered | RecoveredCommit | RecoveredLogDir


@click.command(epilog="\b\nExample:\n  kafkafs recover /var/lib/kafka\n  kafkafs recover /var/lib/kafka --apply")
@store_argument
@click.option("--apply", "is_applied", is_flag=True, help="Do what the plan says.")
@click.option("--dry-run", is_flag=True, help="Print the plan, as without --apply.")
@click.option(
    "--ignore-clean-shutdown",
    is_flag=True,
    help="Ignore the clean-shutdown marker and recovery points: read all logs from their first segments on.",
)
@click.option("--cut-metadata", is_flag=True, help="Cut the cluster's metadata log where it is damaged.")
@click.option("--withdraw-commit", is_flag=True, help="Take back a commit that cannot be completed.")
@server_properties_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each partition, one a line.")
def recover(
    *,
    store: tuple[Path, ...],
    is_applied: bool,
    dry_run: bool,
    ignore_clean_shutdown: bool,
    cut_metadata: bool,
    withdraw_commit: bool,
    server_properties: Path | None,
    as_json: bool,
) -> None:
    """Print what would repair a store after a crash; repair it with --apply.

    Logs that were not closed properly are read from where they are known to be on disk. Damaged ends are cut, indexes
    and producer snapshots are built again, and then the store counts as closed properly. It does what a starting broker
    would do, for copies between log directories (-future) and strays too; a broker then starts at once. A broker's
    clean-shutdown marker is believed, as a broker believes it, unless --ignore-clean-shutdown is given.

    The cluster's metadata log is not cut where it is damaged, unless --cut-metadata is given: a broker that starts
    without its last records renames the partitions of all topics made in them to -stray.

    A commit of records from Spark whose driver died is completed. If a file that was staged for it is damaged or gone,
    --withdraw-commit instead takes back its written part, and the job can be run again. If a broker has added records
    after that part, both stay.

    Each file that changes is printed. A partition that cannot be repaired, or a commit that cannot be completed, ends
    the command with the exit code of a failure, after all others are done.
    """
    if is_applied and dry_run:
        raise click.UsageError("--apply and --dry-run exclude each other")
    files = Files()
    if not is_applied and any(log_dir.is_locked() for log_dir in distinct_log_dirs(map(files.directory, store))):
        click.echo("kafkafs: the store is open elsewhere and changes; this is a look at it as it is now", err=True)
    options = RecoveryOptions(
        ignores_marker=ignore_clean_shutdown,
        cuts_metadata=cut_metadata,
        withdraws_commit=withdraw_commit,
        broker_settings={} if server_properties is None else read_server_properties(NamedFiles(), server_properties),
    )
    with finishing("everything was repaired", is_changing=is_applied) as change:
        printing = _Printing(change, is_plan=not is_applied, as_json=as_json)
        run = recover_store if is_applied else plan_recovery
        with _refusing_read_only_disks():
            run(store, files=files, clock=Clock(), announce=printing.announce, tell=printing.tell, options=options)
        printing.end()
        if printing.tally.has_failed:
            raise SystemExit(EXIT_FAILED)


@contextmanager
def _refusing_read_only_disks() -> Iterator[None]:
    """Say what to do about a file system that is mounted read-only, on which nothing has changed then."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        reason = "the file system is mounted read-only: remount it writable, or leave out --apply to see the plan"
        raise StorageError(reason, path=error.filename) from None


class _Printing:
    """Prints what became of each log as soon as that is known, and what came of all together."""

    def __init__(self, change: Change, *, is_plan: bool, as_json: bool) -> None:
        self.tally = _Tally(is_plan=is_plan)
        self._change = change
        self._progress = Progress.on_terminal()
        self._is_plan = is_plan
        self._as_json = as_json

    def announce(self, name: str, number: int, count: int) -> None:
        """Show which log is next; raises KeyboardInterrupt instead if none is to be begun any more."""
        if self._change.is_interrupted:
            raise self._change.interruption()
        self._progress.show_count(name, number, count)

    def tell(self, outcome: Outcome) -> None:
        """Print what became of something."""
        self.tally.count(outcome)
        if isinstance(outcome, RecoveredCommit):
            said = commit_object(outcome) if self._as_json else commit_lines(outcome, is_plan=self._is_plan)
        elif isinstance(outcome, RecoveredLogDir):
            said = _log_dir_object(outcome) if self._as_json else _log_dir_lines(outcome)
        else:
            said = _object(outcome) if self._as_json else _lines(outcome)
        self._progress.erase()
        for line in [json_line(said)] if isinstance(said, dict) else said:
            click.echo(line)

    def end(self) -> None:
        """Print what came of all together."""
        if not self._as_json:
            self._progress.erase()
            click.echo(self.tally.sentence())
            if self._is_plan and self.tally.has_changes:
                click.echo("nothing has changed; --apply does this")


class _Tally:
    """The totals of all partitions."""

    def __init__(self, *, is_plan: bool) -> None:
        self.has_failed = self.has_changes = False
        self._is_plan = is_plan
        self._failed = 0
        self._partitions = self._repaired = self._lost_bytes = self._checkpoints = 0

    def count(self, recovered: Outcome) -> None:
        if isinstance(recovered, RecoveredCommit):
            self.has_failed = self.has_failed or recovered.error is not None
            self.has_changes = self.has_changes or recovered.error is None
            return
        if isinstance(recovered, RecoveredLogDir):
            self.has_changes = self.has_changes or bool(recovered.steps)
            self._checkpoints += recovered.damaged_checkpoints
            return
        self._partitions += 1
        if recovered.report is None:
            self.has_failed = True
            self._failed += 1
        else:
            self._repaired += bool(recovered.report.steps)
            self.has_changes = self.has_changes or bool(recovered.report.steps)
            self._lost_bytes += recovered.report.lost_bytes

    def sentence(self) -> str:
        would = "to be repaired" if self._is_plan else "repaired"
        lost = f", {self._lost_bytes} bytes of logs {'to be cut' if self._is_plan else 'cut'}"
        checkpoints = f", {counted(self._checkpoints, 'damaged checkpoint')} {would}" if self._checkpoints else ""
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._partitions} partitions: {self._repaired} {would}{lost}{checkpoints}{failed}"


def _lines(recovered: Recovered) -> Iterator[str]:
    name, report = recovered.directory, recovered.report
    if report is None:
        yield f"{name}: failed: {_reason(recovered)}"
        return
    is_short = report.end_offset < recovered.high_watermark
    if report.steps or is_short:
        yield f"{name}: offsets {report.start_offset} to {report.end_offset}"
    yield from map(_step_line, report.steps)
    if is_short:
        yield f"  missing  offsets {report.end_offset} to {recovered.high_watermark}, which other replicas had as well"


def _reason(recovered: Recovered) -> str:
    """Return why a partition was not recovered."""
    assert recovered.error is not None
    return sentence(recovered.error)


def _log_dir_lines(log_dir: RecoveredLogDir) -> Iterator[str]:
    """Yield the changes at the top of a log directory, and why its logs were not read, or are not marked."""
    believed = log_dir.trusted_segments
    if log_dir.steps or log_dir.trusts_marker or believed or not log_dir.is_closed:
        yield f"{log_dir.path}:"
    if log_dir.trusts_marker:
        yield (
            "  the clean-shutdown marker says that all logs here were closed properly, so only their ends were read; "
            "--ignore-clean-shutdown reads all of them"
        )
    if believed:
        segments = "1 segment was" if believed == 1 else f"{believed} segments were"
        yield (
            f"  {segments} not read, because the recovery points of the logs say that they are on disk; "
            "--ignore-clean-shutdown reads all of them"
        )
    yield from map(_step_line, log_dir.steps)
    if not log_dir.is_closed:
        yield "  no clean-shutdown marker is written: not every log here is recovered"


def _log_dir_object(log_dir: RecoveredLogDir) -> dict[str, object]:
    return {
        "logDir": str(log_dir.path),
        "trustsMarker": log_dir.trusts_marker,
        "believedSegments": log_dir.trusted_segments,
        "closed": log_dir.is_closed,
        "steps": [{"repair": step.repair.value, "name": step.name, "reason": step.reason} for step in log_dir.steps],
    }


def _step_line(step: Step) -> str:
    return f"  {step.repair.value:8} {step.name}{_loss(step)}: {step.reason}"


def _loss(step: Step) -> str:
    return f", {step.lost_bytes} bytes from position {step.position}, offset {step.offset}" if step.lost_bytes else ""


def _object(recovered: Recovered) -> dict[str, object]:
    found: dict[str, object] = {
        "topic": recovered.topic,
        "partition": recovered.partition,
        "path": str(recovered.directory),
    }
    report = recovered.report
    if report is None:
        return {**found, "error": _reason(recovered)}
    return {
        **found,
        "startOffset": report.start_offset,
        "endOffset": report.end_offset,
        "highWatermark": recovered.high_watermark,
        "lostBytes": report.lost_bytes,
        "believedSegments": report.trusted_segments,
        "scannedSegments": report.scanned_segments,
        "scannedBytes": report.scanned_bytes,
        "steps": [
            {
                "repair": step.repair.value,
                "name": step.name,
                "reason": step.reason,
                "lostBytes": step.lost_bytes,
                "position": step.position,
                "offset": step.offset,
            }
            for step in report.steps
        ],
    }
