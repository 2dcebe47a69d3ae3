"""`kafkafs verify`: what is wrong with the bytes of a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kafkafs.cli.cleaning import server_properties_option
from kafkafs.cli.findings import end_with_verdict, finding_line, verify_command
from kafkafs.cli.progress import Progress
from storage.files import Files, NamedFiles
from storage.log_dir import read_server_properties
from storage.verify import Verification

if TYPE_CHECKING:
    from pathlib import Path


@verify_command("verify")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    metavar="N",
    help="How many partitions to look through at a time; by default as many as there are processors.",
)
@server_properties_option
@click.pass_context
def verify(
    ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...], jobs: int, server_properties: Path | None
) -> None:
    """Check every checksum, record, index entry, offset and snapshot of a store, or of some of its topics.

    Not one byte is changed, and a broker may be running. Each finding is a JSON object on a line of its own. Its
    severity is `damage`, or `notice` for what sound brokers of any version leave, or `unreadable`; it has the path
    below the log directory and, where known, the positions of the bytes and the offsets of the records around them.
    """
    settings = {} if server_properties is None else read_server_properties(NamedFiles(), server_properties)
    verification = Verification(Files(), store, topics=topics, jobs=jobs, server_properties=settings)
    progress = Progress.on_terminal()
    try:
        for finding in verification.run(lambda: _show(progress, verification)):
            progress.erase()
            click.echo(finding_line(finding))
    finally:
        progress.erase()
    end_with_verdict(ctx, verification)


def _show(progress: Progress, verification: Verification) -> None:
    progress.show("verifying", verification.done_bytes, verification.total_bytes)
