"""`kafkafs topics`: what topics a store has and what holds for them; making, changing and deleting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.changing import change_any_option, check_may_change
from kafkafs.cli.command_table import CommandTable
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store_argument import store_argument
from storage.clock import Clock
from storage.config import TOPIC_SETTINGS, parse_config_lines
from storage.files import Files
from storage.ids import format_id
from storage.store.creation import are_vacant
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from storage.config import TopicConfig

_TOPIC = click.argument("topic", metavar="TOPIC")
_SETTINGS = click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")

topics = CommandTable(
    modules={},
    name="topics",
    help="List, make, change and delete topics.\n\n"
    "STORE is one log directory, or several with commas between them, as in log.dirs.",
    epilog="\b\nExample:\n  kafkafs topics create /tmp/store orders --partitions 3 retention.ms=3600000",
)


@click.command("list", epilog="\b\nExample:\n  kafkafs topics list /var/lib/kafka --json")
@store_argument
@click.argument("topic", required=False)
@output_options
@click.pass_context
def list_topics(ctx: click.Context, store: tuple[Path, ...], topic: str | None) -> None:
    """List topics, or the partitions of one and where they are.

    Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx) or Form.TABLE
    with _opened(store, Mode.READ_ONLY) as opened:
        if topic is None:
            write_rows(("topic", "partitions", "topicId"), _topic_rows(opened), form)
        else:
            write_rows(("topic", "partition", "logDir"), _partition_rows(opened, topic), form)


@click.command(epilog="\b\nExample:\n  kafkafs topics create /tmp/store orders --partitions 3 cleanup.policy=compact")
@store_argument
@_TOPIC
@_SETTINGS
@click.option("--partitions", type=click.IntRange(min=1), metavar="N", help="How many partitions it has; 1 by default.")
@change_any_option
def create(
    *, store: tuple[Path, ...], topic: str, settings: tuple[str, ...], partitions: int | None, may_change_any: bool
) -> None:
    """Make a topic, with settings of its own.

    A STORE that is missing or empty is made first, if the directory that it is in exists. Every partition goes to the
    log directory that holds the fewest.
    """
    given = {key: value for key, value in _changes(settings).items() if value is not None}
    with _created_or_opened(store, may_change_any=may_change_any) as opened:
        opened.topics.create(topic, partitions, given)
        is_made_here = opened.is_made_here
    if not is_made_here:
        click.echo(
            f"kafkafs: {topic} is a stray to the broker of this store as long as its cluster has no topic of that id",
            err=True,
        )


@click.command(epilog="\b\nExample:\n  kafkafs topics delete /tmp/store orders")
@store_argument
@_TOPIC
@change_any_option
def delete(*, store: tuple[Path, ...], topic: str, may_change_any: bool) -> None:
    """Delete a topic with all its records, at once and for good."""
    with _opened_for_change(store, may_change_any=may_change_any) as opened:
        for directory in opened.topics.delete(topic):
            opened.topics.removals.remove(directory)


@click.command(
    epilog="\b\nExample:\n  kafkafs topics config /tmp/store orders retention.ms=3600000 segment.bytes=default"
)
@store_argument
@_TOPIC
@_SETTINGS
@change_any_option
@output_options
@click.pass_context
def config(
    ctx: click.Context, *, store: tuple[Path, ...], topic: str, settings: tuple[str, ...], may_change_any: bool
) -> None:
    """Print what holds for a topic and where it comes from, or change its settings.

    KEY=default takes a setting away from the topic, so that the broker's or Kafka's own holds again.
    """
    if settings:
        _change_config(store, topic, _changes(settings), may_change_any=may_change_any)
        return
    form = chosen_form(ctx)
    with _opened(store, Mode.READ_ONLY) as opened:
        found = opened.topics.config(topic)
    if form is None:
        click.echo("\n".join(found.lines()))
    else:
        write_rows(("key", "value", "origin"), _setting_rows(found), form)


for command in (list_topics, create, delete, config):
    topics.add_command(command)


def _change_config(
    store: tuple[Path, ...], topic: str, changes: Mapping[str, str | None], *, may_change_any: bool
) -> None:
    with _opened_for_change(store, may_change_any=may_change_any) as opened:
        opened.topics.change_config(topic, changes)
        is_fully_known = opened.topics.is_fully_known(topic)
    if not is_fully_known:
        click.echo(
            f"kafkafs: a broker made {topic} and may know more of its settings; until its cleanup.policy is set here, "
            "nothing of it is deleted or compacted",
            err=True,
        )


def _changes(settings: Iterable[str]) -> Mapping[str, str | None]:
    """The settings with their values, None for those that are to be unset."""
    for setting in settings:
        if "=" not in setting or "\n" in setting:
            raise click.UsageError(f"{setting!r} is not of the form KEY=VALUE.")
    return parse_config_lines("\n".join(settings))


def _topic_rows(store: Store) -> Iterator[dict[str, object]]:
    for topic, partitions in store.topics.inventory.topics.items():
        topic_id = store.topics.topic_id(topic)
        yield {
            "topic": topic,
            "partitions": len(partitions),
            "topicId": None if topic_id is None else format_id(topic_id),
        }


def _partition_rows(store: Store, topic: str) -> Iterator[dict[str, object]]:
    for partition, log_dir in store.topics.partitions(topic).items():
        yield {"topic": topic, "partition": partition, "logDir": str(log_dir.path)}


def _setting_rows(found: TopicConfig) -> Iterator[dict[str, object]]:
    for key in sorted(TOPIC_SETTINGS):
        yield {"key": key, "value": found.value(key), "origin": found.origin(key).value}


def _opened(paths: tuple[Path, ...], mode: Mode) -> Store:
    return Store.open(paths, mode=mode, files=Files(), clock=Clock())


def _opened_for_change(paths: tuple[Path, ...], *, may_change_any: bool) -> Store:
    """The store, open for writing; one that kafkafs did not make only if the user said so."""
    check_may_change(paths, may_change_any=may_change_any)
    return _opened(paths, Mode.READ_WRITE)


def _created_or_opened(paths: tuple[Path, ...], *, may_change_any: bool) -> Store:
    if not are_vacant(Files(), paths):
        return _opened_for_change(paths, may_change_any=may_change_any)
    store = Store.create(paths, files=Files(), clock=Clock())
    click.echo(f"kafkafs: made a store in {','.join(map(str, paths))}", err=True)
    return store
