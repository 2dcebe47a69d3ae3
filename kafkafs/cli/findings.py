"""What `kafkafs verify` and `kafkafs spark verify` share: their arguments, a line for each finding, and exit codes."""

from __future__ import annotations

from dataclasses import asdict
from inspect import getdoc
from typing import TYPE_CHECKING, Any, Final

import click

from kafkafs.cli.cleaning import camel, counted
from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND
from kafkafs.cli.output import json_line
from kafkafs.cli.store_argument import store_argument
from storage.verify import Severity

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from storage.verify import Finding, Verification


_EXIT_CODES: Final = (
    "Exit code 1 says that something is damaged, 3 that nothing is as far as could be seen, but not everything could "
    "be read."
)


def verify_command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that verifies a STORE, or some of its TOPICs; the name is for the example."""
    example = f"kafkafs {name} /var/lib/kafka | jq -r 'select(.severity == \"damage\") | .reason'"

    def made(function: Callable[..., Any]) -> click.Command:
        help_text = f"{getdoc(function)}\n\n{_EXIT_CODES}"
        with_topics = click.argument("topics", nargs=-1, metavar="[TOPIC]...")(function)
        command = click.command("verify", help=help_text, epilog=f"\b\nExample:\n  {example}")
        return command(store_argument(with_topics))

    return made


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
