"""`kafkafs spark verify`: what is wrong with the bytes of a store, looked for with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.findings import end_with_verdict, finding_line, verify_command
from kafkafs.cli.jobs.job_options import job_options
from kafkafs.cli.jobs.job_session import job_session

if TYPE_CHECKING:
    from pathlib import Path


@verify_command("spark verify")
@job_options
@click.pass_context
def verify(ctx: click.Context, *, store: tuple[Path, ...], topics: tuple[str, ...]) -> None:
    """Check a store, or some of its topics, as `kafkafs verify` does: the findings and the exit codes are the same.

    Not one byte is changed, and a broker may be running. Each finding is a JSON object on a line of its own.
    """
    with job_session(ctx) as session:
        from kafkafs.spark.jobs.verify import check_store

        verification, findings = session.result(lambda: check_store(session.spark, store, topics), "verifying")
    for finding in findings:
        click.echo(finding_line(finding))
    end_with_verdict(ctx, verification, session.time_text)
