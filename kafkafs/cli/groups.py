"""`kafkafs groups`: prints the offsets, the lag and the members of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import EXIT_FOUND, say
from kafkafs.cli.output import Form, chosen_form, output_options, write_rows
from kafkafs.cli.store import follow_links_option, opened_store, store_argument
from kafkafs.tree.group_lines import COLUMNS, row_in_a_line, shown_groups
from storage.clock import Clock
from storage.internal import offsets
from storage.log import FollowedLog, Log
from storage.store import InternalTopics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from storage.store import Store


@click.command(epilog="\b\nExample:\n  kafkafs groups /var/lib/kafka --table")
@store_argument
@follow_links_option
@click.argument("group", required=False)
@output_options
@click.pass_context
def groups(ctx: click.Context, *, store: tuple[Path, ...], group: str | None) -> None:
    """Print the groups of a store, or one of them: committed offset, end offset and lag of each partition.

    There is a row for each partition with a committed offset or a member of the group, and one for each member without
    partitions. The groups are those in the store's partitions of __consumer_offsets, so each broker of a cluster has
    some. logStartOffset and endOffset are the start and the end of the log in this store, and ageSeconds is how long
    ago the offset was committed. outOfRange is BelowLogStart or AboveLogEnd for a committed offset that the log does
    not have: its consumers fall back to auto.offset.reset. The logStartOffset of a tiered topic is not known here. The
    startOffset of a share group is its first unfinished offset, if the store has that partition of __share_group_state,
    and its lag leaves out finished records. Some states are not recorded: a classic group that is rebalancing is shown
    as Stable.

    Nothing is changed, and a broker may be running. Damage is skipped and reported on standard error.
    """
    form = chosen_form(ctx) or Form.TABLE
    clock = Clock()
    with opened_store(store) as opened:
        topics = InternalTopics(opened, clock, lambda topic, partition: _log(opened, topic, partition))
        found = topics.groups()
        for shortcoming in found.shortcomings:
            say(shortcoming)
        if not found.is_there:
            say(f"the store has no partition of {offsets.TOPIC}, and so has no groups")
        if group is not None and group not in found.groups:
            if found.is_there:
                say(f"there is no group {group!r} in this store's partitions of {offsets.TOPIC}")
            ctx.exit(EXIT_FOUND)
        chosen = [found.groups[group_id] for group_id in ([group] if group is not None else sorted(found.groups))]
        rows: Iterable[Mapping[str, str | int | None]] = shown_groups(topics, chosen, clock.now_ms())
        if form is Form.TABLE:
            rows = map(row_in_a_line, rows)
        write_rows(COLUMNS, rows, form)


def _log(store: Store, topic: str, partition: int) -> Log | FollowedLog:
    log = store.log(topic, partition)
    assert isinstance(log, Log | FollowedLog)
    return log
