"""`kafkafs find`: prints the records that match, of many partitions, without a mount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND, say, sentence
from kafkafs.cli.output import line_of_json, print_line, write_pieces
from kafkafs.cli.query_options import chosen_query, chosen_time, query_options
from kafkafs.cli.store import follow_links_option, opened_store, store_argument
from kafkafs.cli.tree import damage_option, format_option, isolation_option
from kafkafs.damage import Damage
from kafkafs.find.partitions import matching_partitions
from kafkafs.find.store_search import Scope, StoreSearch
from kafkafs.render.envelope import Envelope
from storage.clock import Clock
from storage.log import Isolation

if TYPE_CHECKING:
    from pathlib import Path

    from kafkafs.find.store_search import Form
    from kafkafs.locator.times import Time
    from kafkafs.render.kcat_format import KcatFormat

_NUMBER: Final = click.IntRange(min=0)


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs find /var/lib/kafka orders --key k --first 3\n"
    "  kafkafs find /var/lib/kafka --grep '^v' --from 2026-11-21T02:14 --order time -f '%t %p %o %s\\n'"
)
@store_argument
@follow_links_option
@click.argument("topics", nargs=-1, metavar="[TOPIC[/PARTITION]]...")
@query_options
@click.option("--from", "since", callback=chosen_time, metavar="TIME", help="Begin where by-time/TIME is.")
@click.option("--until", callback=chosen_time, metavar="TIME", help="End before where by-time/TIME is.")
@click.option(
    "--order",
    type=click.Choice(["offset", "time"]),
    default="offset",
    show_default=True,
    help="Print partition after partition, or all merged by their timestamps.",
)
@click.option("--count", "is_counting", is_flag=True, help="Print how many records match, and none of them.")
@click.option("--first", type=click.IntRange(min=1), metavar="N", help="Stop after N records that match.")
@click.option("-A", "--after", type=_NUMBER, default=0, metavar="N", help="Print N records after each, too.")
@click.option("-B", "--before", type=_NUMBER, default=0, metavar="N", help="Print N records before each, too.")
@format_option
@isolation_option
@damage_option
@click.pass_context
def find(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topics: tuple[str, ...],
    since: Time | None,
    until: Time | None,
    order: str,
    is_counting: bool,
    first: int | None,
    after: int,
    before: int,
    record_format: KcatFormat | None,
    isolation: str,
    damage: str,
) -> None:
    """Print the records that match, of some topics of a store or of all.

    TOPIC and PARTITION may be patterns, such as 'ord*' or 'orders/[0-3]'. A record has to match all that is asked for.
    Nothing is changed, and a broker may be running. Each log is read from where its time index says, on all processors,
    and no further than needed.

    Exit code 1 means that no record matches, 3 that a log could not be read to its end: the others are searched all the
    same. With --damage skip, damaged batches are reported and left out.
    """
    if (after or before) and (is_counting or order == "time"):
        raise click.UsageError("-A and -B are for records in the order of their offsets, and not for --count.")
    if first is not None and is_counting:
        raise click.UsageError("--first and --count exclude each other.")
    query, form = chosen_query(ctx), _form(record_format)
    scope = Scope(since, until, Isolation(isolation), Clock().now_ms())
    with opened_store(store) as opened:
        search = StoreSearch(opened, query, scope, Damage(damage), lambda error: say(sentence(error)))
        partitions = matching_partitions(opened, topics)
        if is_counting:
            print_line(str(search.count(partitions)))
        else:
            write_pieces(
                search.lines(partitions, form, by_time=order == "time", first=first, before=before, after=after)
            )
    ctx.exit(EXIT_FAILED if search.failures else EXIT_DONE if search.matches else EXIT_FOUND)


def _form(record_format: KcatFormat | None) -> Form:
    """Return the chosen format, or the lines of `records.jsonl`."""
    if record_format is None:
        return lambda topic, partition: line_of_json(Envelope(topic, partition).line)
    return record_format.over
