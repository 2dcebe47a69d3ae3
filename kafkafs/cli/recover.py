"""`kafkafs recover`: prints what would repair a store after a crash, and repairs it with `--apply`."""

from __future__ import annotations

import errno
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_FAILED, EXIT_FOUND, say
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import (
    Form,
    JsonArray,
    chosen_form,
    counted,
    json_line,
    output_options_of,
    print_line,
)
from kafkafs.cli.progress import Progress
from kafkafs.cli.recovery_report import outcome_lines, outcome_object
from kafkafs.cli.store import (
    broker_settings,
    follow_links_option,
    server_properties_option,
    store_argument,
    store_files,
)
from storage.clock import Clock
from storage.errors import StorageError, is_full_disk
from storage.log_dir import distinct_log_dirs
from storage.store import RecoveredCommit, RecoveredLogDir, RecoveryOptions, plan_recovery, recover_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from kafkafs.cli.recovery_report import Outcome

_SALVAGE: Final = "kafkafs salvage STORE TOPIC/PARTITION DIR"


@click.command(epilog="\b\nExample:\n  kafkafs recover /var/lib/kafka\n  kafkafs recover /var/lib/kafka --apply")
@store_argument
@follow_links_option
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
@output_options_of(Form.JSON, Form.JSONL)
@click.pass_context
def recover(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    is_applied: bool,
    dry_run: bool,
    ignore_clean_shutdown: bool,
    cut_metadata: bool,
    withdraw_commit: bool,
    server_properties: Path | None,
) -> None:
    """Print what would repair a store after a crash; repair it with --apply.

    Logs that were not closed properly are read from the offset up to which they are known to be on disk. Damaged ends
    are cut, indexes and producer snapshots are built again, and then the store counts as closed properly. This is what
    a starting broker does, also for copies between log directories (-future) and strays; afterwards a broker starts at
    once. Whole batches after damage are cut with it: `kafkafs salvage` keeps them if it is run before that. A broker's
    clean-shutdown marker is trusted, as a broker trusts it, unless --ignore-clean-shutdown is given.

    The cluster's metadata log is not cut where it is damaged, unless --cut-metadata is given: a broker that starts
    without its last records renames the partitions of all topics made in them to -stray.

    A commit of records from Spark is completed if its driver died. If a file that was staged for it is damaged or
    gone, --withdraw-commit takes back the part that was written, and the job can be run again. If a broker has added
    records after that part, both stay.

    Each file that changes is printed. If a partition cannot be repaired, or a commit cannot be completed, the command
    goes on with the others, and its exit code is that of a failure. Nothing is written to a directory of several that
    has nothing in it; if partitions are missing, because its disk is not mounted, the exit code is 1.
    """
    if is_applied and dry_run:
        raise click.UsageError("--apply and --dry-run exclude each other")
    files = store_files()
    if not is_applied and any(log_dir.is_locked() for log_dir in distinct_log_dirs(map(files.directory, store))):
        say("the store is open elsewhere and changes; this is a look at it as it is now")
    options = RecoveryOptions(
        ignores_marker=ignore_clean_shutdown,
        cuts_metadata=cut_metadata,
        withdraws_commit=withdraw_commit,
        broker_settings=broker_settings(server_properties),
    )
    with finishing("everything was repaired", is_changing=is_applied) as change:
        printing = _Printing(change, is_plan=not is_applied, form=chosen_form(ctx))
        run = recover_store if is_applied else plan_recovery
        with printing.progress.beating("reading the store"), _refusing_read_only_disks():
            run(store, files=files, clock=Clock(), announce=printing.announce, tell=printing.tell, options=options)
        printing.end()
        if printing.tally.has_failed or printing.tally.lacks_log_dir:
            raise SystemExit(EXIT_FAILED if printing.tally.has_failed else EXIT_FOUND)


@contextmanager
def _refusing_read_only_disks() -> Iterator[None]:
    """Say what to do about a file system that is mounted read-only; nothing has changed on it."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        reason = "the file system is mounted read-only: remount it writable, or leave out --apply to see the plan"
        raise StorageError(reason, path=error.filename) from None


class _Printing:
    """Prints the outcome of each log as soon as it is known, and the totals at the end."""

    def __init__(self, change: Change, *, is_plan: bool, form: Form | None) -> None:
        self.tally = _Tally(is_plan=is_plan)
        self.progress = Progress.on_terminal()
        self._change = change
        self._is_plan = is_plan
        self._form = form
        self._array = JsonArray(sys.stdout)

    def announce(self, name: str, number: int, count: int) -> None:
        """Show which log is next; raises KeyboardInterrupt after a signal."""
        if self._change.is_interrupted:
            raise self._change.interruption()
        self.progress.show_count(name, number, count)

    def tell(self, outcome: Outcome) -> None:
        """Print an outcome."""
        self.tally.count(outcome)
        self.progress.erase()
        if self._form is Form.JSON:
            self._array.add(json_line(outcome_object(outcome)))
            sys.stdout.flush()
            return
        if self._form is Form.JSONL:
            print_line(json_line(outcome_object(outcome)))
            return
        for line in outcome_lines(outcome, is_plan=self._is_plan):
            print_line(line)

    def end(self) -> None:
        """Print the totals."""
        if self._form is Form.JSON:
            self._array.end()
        elif self._form is None:
            self.progress.erase()
            print_line(self.tally.sentence())
            if self._is_plan and self.tally.has_changes:
                if self.tally.loses_batches:
                    print_line(f"whole batches would be lost; `{_SALVAGE}` keeps them if it is run before")
                print_line("nothing has changed; --apply does this")
        if self.tally.has_full_disk:
            say("the disk is full: free space and run this again; it goes on from what was done")


class _Tally:
    """The totals of all partitions."""

    def __init__(self, *, is_plan: bool) -> None:
        self.has_failed = self.has_changes = self.loses_batches = self.lacks_log_dir = self.has_full_disk = False
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
            self.lacks_log_dir |= recovered.bare is not None and recovered.bare.is_damage
            self._checkpoints += recovered.damaged_checkpoints
            return
        self._partitions += 1
        if recovered.report is None:
            self.has_failed = True
            self.has_full_disk |= recovered.error is not None and is_full_disk(recovered.error)
            self._failed += 1
            self._lost_bytes += sum(step.lost_bytes for step in recovered.done)
        else:
            self._repaired += bool(recovered.report.steps)
            self.has_changes = self.has_changes or bool(recovered.report.steps)
            self._lost_bytes += recovered.report.lost_bytes
            self.loses_batches = self.loses_batches or recovered.report.lost_from_offset is not None

    def sentence(self) -> str:
        would = "to be repaired" if self._is_plan else "repaired"
        lost = f", {self._lost_bytes} bytes of logs {'to be cut' if self._is_plan else 'cut'}"
        checkpoints = f", {counted(self._checkpoints, 'damaged checkpoint')} {would}" if self._checkpoints else ""
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{counted(self._partitions, 'partition')}: {self._repaired} {would}{lost}{checkpoints}{failed}"
