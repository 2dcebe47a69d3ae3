"""`kafkafs verify`: what is wrong with the bytes of a store."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.output import json_line
from kafkafs.cli.progress import Progress
from kafkafs.cli.store_argument import store_argument
from storage.errors import StorageError
from storage.files import Files
from storage.segment.finding import Severity
from storage.store.verify import Verification

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

    from storage.segment.finding import Finding

EXIT_SOUND: Final = 0
EXIT_DAMAGED: Final = 1
EXIT_NOT_LOOKED_AT: Final = 2


@click.command(
    epilog="\b\nExample:\n  kafkafs verify /var/lib/kafka | jq -r 'select(.severity == \"damage\") | .reason'"
)
@store_argument
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    metavar="N",
    help="How many partitions to look through at a time; by default as many as there are processors.",
)
@click.pass_context
def verify(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...], jobs: int) -> None:
    """Check every checksum, record, index entry, offset and snapshot of a store, or of some of its topics.

    Not one byte is changed, and a broker may be running. Each finding is a JSON object on a line of its own. Its
    severity is `damage`, or `notice` for what a broker tidies up at its next start, or `unreadable`; it has the path
    below the log directory and, where known, the positions of the bytes and the offsets of the records around them.

    Exit codes: 0 sound, 1 something is damaged, 2 nothing is, as far as everything could be looked at, which it could
    not.
    """
    try:
        verification = Verification(Files(), store, topics=topics, jobs=jobs)
    except StorageError as error:
        _end(ctx, str(error))
    except OSError as error:
        _end(ctx, f"{error.filename}: {error.strerror}")
    progress = Progress.on_terminal()
    try:
        for finding in verification.run(lambda: _show(progress, verification)):
            progress.erase()
            click.echo(_line(finding))
    except StorageError as error:
        progress.erase()
        _end(ctx, str(error))
    progress.erase()
    click.echo(_summary(verification), err=True)
    if verification.counts[Severity.DAMAGE]:
        ctx.exit(EXIT_DAMAGED)
    ctx.exit(EXIT_NOT_LOOKED_AT if verification.counts[Severity.UNREADABLE] else EXIT_SOUND)


def _show(progress: Progress, verification: Verification) -> None:
    progress.show("verifying", verification.done_bytes, verification.total_bytes)


def _end(ctx: click.Context, sentence: str) -> NoReturn:
    """End without a verdict."""
    click.echo(f"kafkafs: {sentence}", err=True)
    ctx.exit(EXIT_NOT_LOOKED_AT)


def _line(finding: Finding) -> str:
    return json_line({_key(name): value for name, value in asdict(finding).items() if value is not None})


def _key(name: str) -> str:
    """A field's name as JSON has names everywhere in kafkafs."""
    first, *rest = name.split("_")
    return "".join([first, *map(str.capitalize, rest)])


def _summary(verification: Verification) -> str:
    """All of it in one line."""
    damages, notices, unreadable = (verification.counts[severity] for severity in Severity)
    if damages:
        verdict = f"damage: {damages} findings in"
    elif unreadable:
        verdict = f"not all could be read: {unreadable} findings in"
    else:
        verdict = "sound:"
    looked_at = (
        f"{verification.partitions} partitions, {verification.segments} segments, {verification.batches} batches, "
        f"{verification.size_bytes / 1e6:.1f} MB"
    )
    return f"{verdict} {looked_at}{f' ({notices} notices)' if notices else ''}"
