"""`kafkafs revive`: from the log directories of dead brokers to those with which a fresh broker starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kafkafs import revive as reviving
from kafkafs.cli.failures import EXIT_DONE, EXIT_FOUND, say
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import json_line, print_line
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    Command,
    broker_settings,
    follow_links_option,
    server_properties_option,
    store_files,
    store_paths,
)
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.times import Instant, parse_time
from kafkafs.plain_text import lines
from storage.clock import Clock
from storage.errors import ConfigError
from storage.files import copied_bits, plain_path
from storage.log_dir import DirectoryState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from kafkafs.locator.times import Time
    from storage.files import Directory, Files

_NODE_ID: Final = 1
_EXAMPLE: Final = "\b\nExample:\n  kafkafs revive /var/lib/kafka --into /tmp/revived"


def _sources(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> tuple[Path, ...]:
    return tuple(path for text in texts for path in store_paths(ctx, parameter, text))


def _time(ctx: click.Context, parameter: click.Parameter, text: str | None) -> Time | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except BadNameError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


def _topics(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    if not all(text.strip(",") for text in texts):
        raise click.BadParameter("name a topic, or several with commas between them", ctx, parameter)
    return tuple(topic for text in texts for topic in text.split(",") if topic)


def _choosing(command: Command) -> Command:
    """Give the command the options that say what is revived."""
    for option in (
        click.option(
            "--include",
            "included",
            multiple=True,
            type=click.Choice(["stray", "future"]),
            help="Take in directories with this suffix too; may be given twice.",
        ),
        click.option(
            "--undelete", is_flag=True, help="Take in -delete directories, and .deleted segments before the first."
        ),
        click.option("--until", metavar="TIME", callback=_time, help="Revive what was there before this time."),
        click.option(
            "--topics",
            multiple=True,
            metavar="TOPIC,...",
            callback=_topics,
            help="Revive these topics only; the groups' offsets come with __consumer_offsets.",
        ),
    ):
        command = option(command)
    return command


@click.command(epilog=_EXAMPLE)
@click.argument("sources", nargs=-1, required=True, metavar="DIR...", callback=_sources)
@click.option(
    "--into", "target", required=True, metavar="DEST", callback=store_paths, help="The log directories to make."
)
@click.option("--plan", "is_plan", is_flag=True, help="Print what would come from where, and make nothing.")
@click.option(
    "--commands", "as_commands", is_flag=True, help="Print a script that brings the topics into a running cluster."
)
@_choosing
@click.option("--link", "links", is_flag=True, help="Link the .log files of closed segments instead of copying them.")
@click.option("--metadata-version", metavar="VERSION", help="The new cluster's metadata.version, such as 4.0; or 3.9.")
@server_properties_option
@follow_links_option
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON object.")
def revive(
    *,
    sources: tuple[Path, ...],
    target: tuple[Path, ...],
    is_plan: bool,
    as_commands: bool,
    topics: tuple[str, ...],
    until: Time | None,
    undelete: bool,
    included: tuple[str, ...],
    links: bool,
    metadata_version: str | None,
    server_properties: Path | None,
    as_json: bool,
) -> None:
    """Make log directories with which a fresh KRaft broker starts, from those of dead brokers or from backups.

    DIR are log directories of one or more brokers of a cluster, of any version since 0.8, with ZooKeeper or KRaft. Each
    partition is made of the replica with the highest leader epoch at its end, and of those the longest; where that is
    damaged, of others. Topics keep their ids, settings, offsets, transactions and consumer groups. The sources are
    only read. Every batch is read before it is copied, and again in the copy.

    The broker deletes nothing by itself: every topic gets retention.ms=-1 and retention.bytes=-1, and the plan prints
    the command that releases it. Kafka's own tools reach the broker at localhost:9092, as revived.properties says.

    With --commands the output is a script for Bash, which makes the topics in a cluster that runs, with their settings,
    records and committed offsets; everything else is printed on standard error.

    Exit code 1 means that replicated offsets are on no disk, that some are damaged on all disks, or that a replica that
    was not chosen has others; what is left is revived. The same command goes on with a run that was interrupted.
    `kafkafs help revive` has rehearsed examples.
    """
    _check_uses(as_commands=as_commands, makes_no_store=is_plan or as_json)
    files = store_files()
    disks = reviving.read_disks(files, sources)
    chosen = reviving.with_groups(topics, disks) if as_commands else topics
    cluster, flaws = reviving.read_cluster(disks, Clock())
    log_dirs = tuple(plain_path(path.absolute()) for path in target)
    level = _level(metadata_version, cluster, target)
    _prepare(files, disks, log_dirs, is_plan=is_plan)
    resolved = _resolved(until, files.add_root(log_dirs[0]))
    choice = reviving.Choice(chosen, resolved and resolved.time_ms, _states(included, undelete=undelete))
    making = _making(disks, log_dirs, level, resolved, server_properties, links=links)
    notes = [*flaws, *(reviving.unlinked(files, disks, log_dirs) if links else ())]
    progress, tell = Progress.on_terminal(), _print_aside if as_commands else print_line
    with finishing("everything was revived", is_changing=not is_plan) as change:
        plan = reviving.make_plan(disks, cluster, choice, _advance("reading", progress, change)).noting(notes)
        progress.erase()
        _print_plan(plan, making.level, tell, as_json=as_json)
        if not is_plan:
            reviving.revive(plan, making, files, Clock(), advance=_advance("copying", progress, change))
            progress.erase()
        if not (is_plan or as_json):
            _print_outcome(plan, making, disks, files, tell, as_commands=as_commands)
    click.get_current_context().exit(EXIT_FOUND if plan.has_losses else EXIT_DONE)


def _making(
    disks: Sequence[reviving.Disk],
    log_dirs: tuple[Path, ...],
    level: int,
    until: reviving.Until | None,
    server_properties: Path | None,
    *,
    links: bool,
) -> reviving.Making:
    settings, bits = broker_settings(server_properties), copied_bits(reviving.directories_of(disks))
    return reviving.Making(log_dirs, _NODE_ID, level, links, settings, until, bits)


def _prepare(files: Files, disks: Sequence[reviving.Disk], log_dirs: Sequence[Path], *, is_plan: bool) -> None:
    """Refuse, before everything is read, to make a store where it cannot be."""
    reviving.check_apart(files, disks, log_dirs)
    if not is_plan:
        reviving.prepare_target([files.add_root(path) for path in log_dirs])


def _resolved(until: Time | None, first: Directory) -> reviving.Until | None:
    """Return the time of --until; a relative one means what it meant to the run that is gone on with."""
    if until is None:
        return None
    begun = reviving.begun_until(first)
    found = reviving.Until(str(until), until.resolve(Clock().now_ms()))
    if begun is None or begun.text != found.text or begun == found:
        return found
    say(f"--until {found.text} means {Instant(begun.time_ms)}, as it did when this run was begun")
    return begun


def _states(included: Sequence[str], *, undelete: bool) -> frozenset[DirectoryState]:
    """Return the states of the directories that are taken."""
    states = {DirectoryState.CURRENT, *(DirectoryState(f"-{each}") for each in included)}
    return frozenset(states | {DirectoryState.DELETE} if undelete else states)


def _check_uses(*, as_commands: bool, makes_no_store: bool) -> None:
    if as_commands and makes_no_store:
        raise click.UsageError("--commands reads what was revived: leave out --plan and --json")


def _level(metadata_version: str | None, cluster: reviving.Cluster, target: Sequence[Path]) -> int:
    try:
        return reviving.chosen_level(metadata_version, cluster, log_dirs=len(target))
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint="--metadata-version") from None


def _print_aside(line: str) -> None:
    click.echo(lines(line), err=True)


def _print_commands(plan: reviving.Plan, making: reviving.Making, files: Files) -> None:
    groups = reviving.committing_groups(making.log_dirs, files, Clock())
    for line in reviving.command_lines(plan, making.log_dirs, groups):
        print_line(line)


def _print_outcome(
    plan: reviving.Plan,
    making: reviving.Making,
    disks: Sequence[reviving.Disk],
    files: Files,
    tell: Callable[[str], None],
    *,
    as_commands: bool,
) -> None:
    for line in reviving.outcome_lines(reviving.look(making.log_dirs, files, Clock()), plan):
        tell(line)
    given = reviving.owner_command(disks, making.log_dirs, files)
    tell(f"revived into {', '.join(map(str, making.log_dirs))}; start the broker with")
    for command in (given, reviving.start_command(making.log_dirs)):
        if command is not None:
            tell(f"  {command}")
    if as_commands:
        _print_commands(plan, making, files)


def _print_plan(plan: reviving.Plan, level: int, tell: Callable[[str], None], *, as_json: bool) -> None:
    if as_json:
        tell(json_line(reviving.plan_object(plan, level)))
        return
    for line in reviving.plan_lines(plan, level):
        tell(line)
    tell("once the broker runs and you have looked at the topics, these commands release them:")
    for line in reviving.release_lines(plan):
        tell(f"  {line}")


def _advance(doing: str, progress: Progress, change: Change) -> Callable[[str, int, int], None]:
    """Return what shows progress; it raises KeyboardInterrupt after a signal."""

    def advance(name: str, done_bytes: int, total_bytes: int) -> None:
        if change.is_interrupted:
            raise change.interruption()
        progress.show(f"{doing} {name}", done_bytes, total_bytes)

    return advance
