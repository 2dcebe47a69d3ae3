"""`kafkafs verify`: finds damage in a store; `kafkafs spark verify` shares its arguments, lines and exit codes."""

from __future__ import annotations

import math
import os
from contextlib import closing, nullcontext
from dataclasses import asdict
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkafs.allocation import keep_freed_memory
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND
from kafkafs.cli.output import camel, counted, json_line, print_line
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    broker_settings,
    check_file_outside,
    follow_links_option,
    server_properties_option,
    store_argument,
    store_files,
)
from kafkafs.quantities import size_of
from storage.files import NamedFiles, absolute_path, is_in_object_store
from storage.verify import Severity, Verification, VerificationJournal

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from storage.verify import Finding

_LOWEST_PRIORITY: Final = 19
_POLITE_BYTES_PER_SECOND: Final = 50_000_000
_EXIT_CODES: Final = (
    "Exit code 1 means that something is damaged, 3 that no damage was found, but not everything could be read."
)


class _Rate(click.ParamType[int]):
    """Bytes in a second."""

    name = "rate"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        rate = size_of(value)
        if not rate:
            self.fail(f"{value!r} is not a number of bytes from 1, also with K, M or G after it", param, ctx)
        return rate


def verify_command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that verifies a STORE, or some of its TOPICs; the name is for the example."""
    example = f"kafkafs {name} /var/lib/kafka | jq -r 'select(.severity == \"damage\") | .reason'"

    def made(function: Callable[..., Any]) -> click.Command:
        help_text = f"{getdoc(function)}\n\n{_EXIT_CODES}"
        with_topics = click.argument("topics", nargs=-1, metavar="[TOPIC]...")(function)
        command = click.command("verify", help=help_text, epilog=f"\b\nExample:\n  {example}")
        return command(store_argument(with_topics))

    return made


@verify_command("verify")
@follow_links_option
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many processes verify; by default as many as there are processors, and one with --polite.",
)
@click.option(
    "--polite",
    is_flag=True,
    help="Spare a broker on this machine: read at the lowest priority, 50 MB a second, and leave its page cache.",
)
@click.option(
    "--rate",
    "bytes_per_second_max",
    type=_Rate(),
    metavar="BYTES",
    help="The most to read in a second, also with K, M or G after it.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep in FILE which partitions are done, and go on after them if the same command was interrupted.",
)
@server_properties_option
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topics: tuple[str, ...],
    jobs: int | None,
    polite: bool,
    bytes_per_second_max: float | None,
    resume: Path | None,
    server_properties: Path | None,
) -> None:
    """Check every checksum, record, index entry, offset and snapshot of a store, or of some of its topics.

    Not one byte is changed, and a broker may be running. Each finding is a JSON object on a line of its own. Its
    severity is `damage`, `unreadable`, or `notice` for what sound brokers of some version leave. It has the path below
    the log directory and, if known, the positions of the bytes and the offsets of the records around them.

    Beside a running broker, verify with --polite; begin a verification that takes hours with --resume.

    What a broker that starts does about it is in `startAction` (nothing, truncate, rebuild, remove, stray, offline,
    refuse) and, as a sentence, in `atStart`.
    """
    if resume is not None:
        check_file_outside(resume, store, "--resume")
    settings = broker_settings(server_properties)
    if polite:
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_PRIORITY)
        jobs, bytes_per_second_max = jobs or 1, bytes_per_second_max or _POLITE_BYTES_PER_SECOND
    jobs = jobs or os.cpu_count() or 1
    files = store_files(spares_cache=polite)
    with Progress.on_terminal(is_erased_for_results=True).beating("listing the store"):
        verification = Verification(
            files, store, topics=topics, jobs=jobs, prepare=keep_freed_memory, server_properties=settings
        )
    with nullcontext() if resume is None else journal_of(resume, store, topics) as journal:
        _print_findings(verification, journal, bytes_per_second_max or math.inf)
    if journal is not None:
        journal.remove()
    end_with_verdict(ctx, verification)


def journal_of(path: Path, store: tuple[Path, ...], topics: tuple[str, ...]) -> closing[VerificationJournal]:
    """Return the record of a verification of this store, in a file that is made if it is missing."""
    log_dirs = [absolute_path(each if is_in_object_store(each) else each.resolve()) for each in store]
    return closing(VerificationJournal(NamedFiles(), path, log_dirs, topics))


def _print_findings(
    verification: Verification, journal: VerificationJournal | None, bytes_per_second_max: float
) -> None:
    progress = Progress.on_terminal()
    try:
        with progress.beating("verifying"):
            for finding in verification.run(
                lambda: _show(progress, verification), journal=journal, bytes_per_second_max=bytes_per_second_max
            ):
                progress.erase()
                print_line(finding_line(finding))
    finally:
        progress.erase()


def finding_line(finding: Finding) -> str:
    """Return a finding as a JSON object, with what is known of its place."""
    return json_line({camel(name): value for name, value in asdict(finding).items() if value is not None})


def end_with_verdict(ctx: click.Context, verification: Verification, time_text: str = "") -> NoReturn:
    """Print the verdict on standard error and end with its exit code."""
    click.echo(f"{_summary(verification)}{time_text}", err=True)
    if verification.counts[Severity.DAMAGE]:
        ctx.exit(EXIT_FOUND)
    ctx.exit(EXIT_FAILED if verification.counts[Severity.UNREADABLE] else EXIT_DONE)


def _summary(verification: Verification) -> str:
    """Return the verdict in one line."""
    damages, notices, unreadable = (verification.counts[severity] for severity in Severity)
    if damages:
        verdict = f"damage: {counted(damages, 'finding')} in"
    elif unreadable:
        verdict = f"not all could be read: {counted(unreadable, 'finding')} in"
    else:
        verdict = "sound:"
    looked_at = (
        f"{counted(verification.partitions, 'partition')}, {counted(verification.segments, 'segment')}, "
        f"{verification.batches} {'batch' if verification.batches == 1 else 'batches'}, "
        f"{verification.size_bytes / 1e6:.1f} MB"
    )
    noted = f" ({counted(notices, 'notice')})" if notices else ""
    return f"{verdict} {looked_at}{noted}"


def _show(progress: Progress, verification: Verification) -> None:
    progress.show("verifying", verification.done_bytes, verification.total_bytes)
