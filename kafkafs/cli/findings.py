"""How a check of a store is told, whoever has done it: a line for each finding, one for all of it, and an exit code."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from kafkafs.cli.cleaning import camel, counted
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND
from kafkafs.cli.output import json_line
from storage.verify import Severity

if TYPE_CHECKING:
    from typing import NoReturn

    from storage.verify import Finding, Verification


def finding_line(finding: Finding) -> str:
    """A finding as a JSON object, with what is known of its place."""
    return json_line({camel(name): value for name, value in asdict(finding).items() if value is not None})


def end_with_verdict(ctx: click.Context, verification: Verification, time_text: str = "") -> NoReturn:
    """Say on standard error how it stands with the store, and end with the exit code for that."""
    click.echo(f"{_summary(verification)}{time_text}", err=True)
    if verification.counts[Severity.DAMAGE]:
        ctx.exit(EXIT_FOUND)
    ctx.exit(EXIT_FAILED if verification.counts[Severity.UNREADABLE] else EXIT_DONE)


def _summary(verification: Verification) -> str:
    """All of it in one line."""
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
