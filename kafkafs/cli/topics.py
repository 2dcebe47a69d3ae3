"""`kafkafs topics`: lists, makes and changes the topics of a store."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kafkafs.cli import CommandTable
from kafkafs.cli.deletion import delete
from kafkafs.cli.failures import EXIT_FAILED, EXIT_USAGE, say, sentence
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import Form, chosen_form, output_options, print_line, write_rows
from kafkafs.cli.store import (
    broker_settings,
    change_any_option,
    check_may_change,
    follow_links_option,
    opened_store,
    server_properties_option,
    store_argument,
    store_files,
)
from storage.clock import Clock
from storage.config import parse_settings
from storage.errors import ConfigError, InvalidTopicError, StorageError, TopicExistsError
from storage.ids import format_id
from storage.log_dir import are_vacant
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kafkafs.cli.finishing import Change
    from storage.config import TopicConfig

_POLICY = "cleanup.policy"
_TOPIC = click.argument("topic", metavar="TOPIC")
_SETTINGS = click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")

topics = CommandTable(
    modules={},
    aliases={"ls": "list", "rm": "delete"},
    hints={
        "add": "`kafkafs topics create STORE TOPIC` makes a topic",
        "alter": "`kafkafs topics config STORE TOPIC KEY=VALUE` changes the settings of a topic",
        "describe": "`kafkafs topics list STORE TOPIC` lists its partitions, `kafkafs topics config STORE TOPIC` its "
        "settings",
    },
    name="topics",
    help="List, make, change and delete topics.\n\n"
    "STORE is one log directory, or several with commas between them, as in log.dirs.",
    epilog="\b\nExample:\n  kafkafs topics create /tmp/store orders --partitions 3 retention.ms=3600000",
)


@click.command("list", epilog="\b\nExample:\n  kafkafs topics list /var/lib/kafka --json")
@store_argument
@follow_links_option
@click.argument("topic", required=False)
@output_options
@click.pass_context
def list_topics(ctx: click.Context, store: tuple[Path, ...], topic: str | None) -> None:
    """List topics, or the partitions of one and their log directories.

    Nothing is changed, and a broker may be running.
    """
    form = chosen_form(ctx) or Form.TABLE
    with opened_store(store) as opened:
        if topic is None:
            unreadable: list[str] = []
            write_rows(("topic", "partitions", "topicId"), _topic_rows(opened, unreadable), form)
            for reason in unreadable:
                say(reason)
            if unreadable:
                raise SystemExit(EXIT_FAILED)
        else:
            write_rows(("topic", "partition", "logDir"), _partition_rows(opened, topic), form)


@click.command(epilog="\b\nExample:\n  kafkafs topics create /tmp/store orders --partitions 3 cleanup.policy=compact")
@store_argument
@follow_links_option
@_TOPIC
@_SETTINGS
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many partitions to make; by default num.partitions, which is 1.",
)
@change_any_option
@server_properties_option
def create(
    *,
    store: tuple[Path, ...],
    topic: str,
    settings: tuple[str, ...],
    partitions: int | None,
    may_change_any: bool,
    server_properties: Path | None,
) -> None:
    """Make a topic, with settings of its own.

    A missing or empty STORE is made first, if its parent directory exists. Each partition goes to the log directory
    that has the fewest.
    """
    given = {key: value for key, value in _changes(settings).items() if value is not None}
    with (
        finishing(f"{topic} is made") as change,
        _created_or_opened(store, server_properties, change, may_change_any=may_change_any) as opened,
    ):
        with _usage_errors():
            opened.topics.create(topic, partitions, given)
        if not opened.is_made_here:
            say(f"{topic} is a stray to the broker of this store as long as its cluster has no topic of that id")


@click.command(
    epilog="\b\nExample:\n  kafkafs topics config /tmp/store orders retention.ms=3600000 segment.bytes=default"
)
@store_argument
@follow_links_option
@_TOPIC
@_SETTINGS
@change_any_option
@server_properties_option
@output_options
@click.pass_context
def config(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topic: str,
    settings: tuple[str, ...],
    may_change_any: bool,
    server_properties: Path | None,
) -> None:
    """Print the settings of a topic and where they come from, or change them.

    KEY=default removes a setting of the topic, so that the broker's or Kafka's own applies again.
    """
    if settings:
        check_may_change(store, may_change_any=may_change_any)
        with (
            finishing("the settings are changed") as change,
            opened_store(store, server_properties, is_changed=True, change=change) as opened,
        ):
            _change_config(opened, topic, _changes(settings))
        return
    form = chosen_form(ctx)
    with opened_store(store, server_properties) as opened:
        found = opened.topics.config(topic)
    if form is None:
        print_line("\n".join(found.lines()))
    else:
        write_rows(("key", "value", "origin"), _setting_rows(found), form)


for command in (list_topics, create, delete, config):
    topics.add_command(command)


def _change_config(opened: Store, topic: str, changes: Mapping[str, str | None]) -> None:
    opened.topics.partitions(topic)
    with _usage_errors():
        opened.topics.change_config(topic, changes)
    if not opened.is_made_here:
        say("brokers do not read these settings: set them with kafka-configs on one that runs")
    unknown = opened.topics.config(topic).why_unknown(_POLICY)
    if unknown:
        say(f"nothing of {topic} is deleted or compacted as long as its cleanup.policy is not set here: {unknown}")


@contextmanager
def _usage_errors() -> Iterator[None]:
    """End with the exit code of wrong usage if a name or a setting of the command line is invalid."""
    try:
        yield
    except TopicExistsError:
        raise
    except (ConfigError, InvalidTopicError) as error:
        if error.path is not None:  # it is in a file
            raise
        say(sentence(error))
        raise SystemExit(EXIT_USAGE) from None


def _changes(settings: Collection[str]) -> Mapping[str, str | None]:
    """Return the settings with their values, None for those to unset."""
    for setting in settings:
        if "=" not in setting or "\n" in setting:
            raise click.UsageError(f"{setting!r} is not of the form KEY=VALUE.")
    with _usage_errors():
        return parse_settings(settings)


def _topic_rows(store: Store, unreadable: list[str]) -> Iterator[dict[str, object]]:
    """Yield a row for each topic, and add the reasons why ids cannot be read to `unreadable`."""
    for topic, partitions in store.topics.inventory.topics.items():
        try:
            topic_id = store.topics.topic_id(topic)
        except (StorageError, OSError) as error:
            unreadable.append(sentence(error))
            topic_id = None
        yield {
            "topic": topic,
            "partitions": len(partitions),
            "topicId": None if topic_id is None else format_id(topic_id),
        }


def _partition_rows(store: Store, topic: str) -> Iterator[dict[str, object]]:
    for partition, log_dir in store.topics.partitions(topic).items():
        yield {"topic": topic, "partition": partition, "logDir": str(log_dir.path)}


def _setting_rows(found: TopicConfig) -> Iterator[dict[str, object]]:
    for key in found.keys:
        value = None if key in found.unknown else found.value(key)
        yield {"key": key, "value": value, "origin": found.origin(key)}


def _created_or_opened(
    paths: tuple[Path, ...], server_properties: Path | None, change: Change, *, may_change_any: bool
) -> AbstractContextManager[Store]:
    """Create a store, or open one for writing; raises `ReadOnlyStoreError` as `check_may_change` does."""
    files = store_files()
    if not are_vacant([files.directory(path) for path in paths]):
        check_may_change(paths, may_change_any=may_change_any)
        return opened_store(paths, server_properties, is_changed=True, change=change)
    store = Store.create(paths, files=files, clock=Clock(), broker_settings=broker_settings(server_properties))
    say(f"made a store in {','.join(map(str, paths))}")
    return store
