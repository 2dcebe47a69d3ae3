"""`kafkafs recover`: repairs what a crash left of a store, or says what it would repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import EXIT_FAILED
from kafkafs.cli.output import json_line
from kafkafs.cli.progress import Progress
from kafkafs.cli.recovered_commit import commit_lines, commit_object
from kafkafs.cli.store_argument import store_argument
from storage.clock import Clock
from storage.files import Files
from storage.store.log_dir import LogDir
from storage.store.recovering import RecoveredCommit, plan_recovery, recover_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from storage.partition.recovery_report import Step
    from storage.store.recovering import Recovered


@click.command(epilog="\b\nExample:\n  kafkafs recover /var/lib/kafka --dry-run")
@store_argument
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--withdraw-commit", is_flag=True, help="Take back a commit that cannot be completed.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each partition, one a line.")
def recover(*, store: tuple[Path, ...], dry_run: bool, withdraw_commit: bool, as_json: bool) -> None:
    """Repair what a crash left of a store that nobody has open.

    Logs that were not closed properly are read from where they are known to be on disk. What cannot be kept is cut,
    indexes and producer snapshots are built anew, and then the store counts as closed properly. What a broker would do
    when it starts is done; it then starts at once.

    A commit of records from Spark whose driver died is completed. If a file that was staged for it is damaged or gone,
    that cannot be; then --withdraw-commit takes back what there is of it, and the job can be run again. Records that a
    broker may have added behind them stay, and so do those.

    Every repair is printed, and every partition that is repaired. Exit code 1 says that some partition could not be, or
    the commit not be completed.
    """
    files = Files()
    if dry_run and any(LogDir(files, path).is_locked() for path in store):
        click.echo("kafkafs: the store is open elsewhere and changes; this is a look at it as it is now", err=True)
    progress = Progress.on_terminal()
    recover_each = plan_recovery if dry_run else recover_store
    tally = _Tally(is_plan=dry_run)
    found = recover_each(
        store, files=files, clock=Clock(), announce=progress.show_count, withdraws_commit=withdraw_commit
    )
    for recovered in found:
        progress.erase()
        tally.count(recovered)
        if isinstance(recovered, RecoveredCommit):
            lines = [json_line(commit_object(recovered))] if as_json else commit_lines(recovered, is_plan=dry_run)
        else:
            lines = [json_line(_object(recovered))] if as_json else _lines(recovered)
        for line in lines:
            click.echo(line)
    if not as_json:
        click.echo(tally.sentence())
    if tally.has_failed:
        raise SystemExit(EXIT_FAILED)


class _Tally:
    """What came of all partitions together."""

    def __init__(self, *, is_plan: bool) -> None:
        self.has_failed = False
        self._is_plan = is_plan
        self._failed = 0
        self._partitions = self._repaired = self._lost_bytes = 0

    def count(self, recovered: Recovered | RecoveredCommit) -> None:
        if isinstance(recovered, RecoveredCommit):
            self.has_failed = self.has_failed or recovered.error is not None
            return
        self._partitions += 1
        if recovered.report is None:
            self.has_failed = True
            self._failed += 1
        else:
            self._repaired += bool(recovered.report.steps)
            self._lost_bytes += recovered.report.lost_bytes

    def sentence(self) -> str:
        would = "to be repaired" if self._is_plan else "repaired"
        lost = f", {self._lost_bytes} bytes of logs {'to be cut' if self._is_plan else 'cut'}"
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._partitions} partitions: {self._repaired} {would}{lost}{failed}"


def _lines(recovered: Recovered) -> Iterator[str]:
    name, report = recovered.directory, recovered.report
    if report is None:
        yield f"{name}: failed: {recovered.error}"
        return
    is_short = report.end_offset < recovered.high_watermark
    if report.steps or is_short:
        yield f"{name}: offsets {report.start_offset} to {report.end_offset}"
    for step in report.steps:
        yield f"  {step.repair.value:8} {step.name}{_loss(step)}: {step.reason}"
    if is_short:
        yield f"  missing  offsets {report.end_offset} to {recovered.high_watermark}, which other replicas had as well"


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
        return {**found, "error": str(recovered.error)}
    return {
        **found,
        "startOffset": report.start_offset,
        "endOffset": report.end_offset,
        "highWatermark": recovered.high_watermark,
        "lostBytes": report.lost_bytes,
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
