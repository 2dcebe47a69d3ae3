"""`kafkafs tail`: prints the last records of many partitions and those that are appended, without a mount."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND, EXIT_INTERRUPTED, say, sentence
from kafkafs.cli.output import line_of_json, write_pieces
from kafkafs.cli.query_options import chosen_query, chosen_time, query_options
from kafkafs.cli.standard_streams import wait_for_no_reader
from kafkafs.cli.store import follow_links_option, opened_store, store_argument
from kafkafs.cli.tree import FORMAT_HELP, compiled_format, isolation_option
from kafkafs.find.matching import Matching
from kafkafs.find.query import Query
from kafkafs.library.context import Context
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.formats import Format
from kafkafs.render.record_renderer import RecordRenderer
from kafkafs.tail.beginnings import From, Last, Since
from kafkafs.tail.tail import Tail
from kafkafs.tail.targets import Target, parse_target
from storage.clock import Clock
from storage.log import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkafs.locator.times import Time
    from kafkafs.render.kcat_format import KcatFormat
    from kafkafs.tail.beginnings import Beginning
    from kafkafs.tail.tail import Form
    from kafkafs.tail.targets import Followed
    from storage.record import Record
    from storage.store import Store

_LAST_RECORDS: Final = 10
_NUMBER: Final = re.compile(r"(\+?)([0-9]{1,18})")
_INTERVAL_S: Final = 0.1
_INTERVAL_MAX_S: Final = 0.8  # so that what is appended is printed within a second
_REST: Final = 3  # how many times as long as a look takes, so that many partitions leave most of a processor free


def _number(_: click.Context, parameter: click.Parameter, text: str | None) -> Last | From | None:
    found = None if text is None else _NUMBER.fullmatch(text)
    if text is None:
        return None
    if found is None:
        raise click.BadParameter(f"{text!r} is neither a number of records, nor a + with one", param=parameter)
    return From(max(int(found[2]), 1)) if found[1] else Last(int(found[2]))


def _format(ctx: click.Context, parameter: click.Parameter, text: str | None) -> KcatFormat | None:
    compiled = compiled_format(ctx, parameter, text)
    if compiled is not None and not compiled.has_tokens:
        raise click.BadParameter(
            f"{text!r} is a format without a token such as %s; to follow, leave -F out", ctx, parameter
        )
    return compiled


@click.command(
    epilog="\b\nExamples:\n"
    "  kafkafs tail /var/lib/kafka orders | head -n 3\n"
    "  kafkafs tail /var/lib/kafka 'ord*/*/values' --grep '^v' | head -n 3\n"
    "  kafkafs tail /var/lib/kafka orders/0 -n 5 --no-follow -F '%T %p %o %k %s\\n'"
)
@store_argument
@follow_links_option
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "-n",
    "--lines",
    "number",
    metavar="N",
    callback=_number,
    help=f"Begin with the last N records of each partition, by default {_LAST_RECORDS}; with +N, with its Nth record.",
)
@click.option("--from", "since", callback=chosen_time, metavar="TIME", help="Begin where by-time/TIME is.")
@click.option(
    "-f",
    "--follow/--no-follow",
    "follows",
    default=True,
    help="Wait for what is appended, which is the default, or end at the ends that the logs have now.",
)
@query_options
@click.option("-F", "--format", "record_format", metavar="FORMAT", callback=_format, help=FORMAT_HELP)
@isolation_option
@click.pass_context
def tail(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    paths: tuple[str, ...],
    number: Last | From | None,
    since: Time | None,
    follows: bool,
    record_format: KcatFormat | None,
    isolation: str,
) -> None:
    """Print the last records of some partitions, and then those that are appended.

    PATH is a topic, a partition such as orders/0, or its values, keys or records.jsonl; it may be a pattern, such as
    'ord*' or 'orders/*/values'. Of a topic or a partition the lines of records.jsonl are printed. A partition that is
    added later is followed from its start if a PATH means it. Nothing is changed, and a broker may be running.

    Records of one partition come in the order of its log, and each once. Rolls, retention and compaction end nothing.
    Records that were deleted before they could be printed, and a log that a broker has cut, are reported, and what
    stands after the cut is printed. With criteria, as of kafkafs find, only records that match count and are printed.

    It ends by SIGINT (exit code 130), or when nothing reads the output any more (141). Exit code 1 means that no PATH
    is there, or with --no-follow that one is not, or that no record matches, 3 that a log could not be read: the others
    are followed all the same.
    """
    query, clock = chosen_query(ctx), Clock()
    beginning = _beginning(number, since, clock)
    matching = None if query == Query() else Matching(query)
    try:
        with opened_store(store) as opened:
            targets = _targets(opened, paths)
            missing = _say_missing(opened, paths, targets)
            context = Context(opened, opened.files, clock, Isolation(isolation))
            following = Tail(context, targets, _form(record_format), beginning, matching, _report)
            if missing < len(targets):
                _print(following, clock, follows=follows)
    except KeyboardInterrupt:  # as following ends, which is no news
        ctx.exit(EXIT_INTERRUPTED)
    is_without = missing > 0 or (matching is not None and not following.records)
    ctx.exit(EXIT_FAILED if following.failures else EXIT_FOUND if is_without else EXIT_DONE)


def _beginning(number: Last | From | None, since: Time | None, clock: Clock) -> Beginning:
    if since is None:
        return Last(_LAST_RECORDS) if number is None else number
    if number is not None:
        raise click.UsageError("--from and --lines exclude each other.")
    return Since(since.resolve(clock.now_ms()))


def _report(error: Exception) -> None:
    say(sentence(error))


def _targets(store: Store, paths: Sequence[str]) -> list[Target]:
    topics = store.topics.inventory.topics
    try:
        return [parse_target(path, topics) for path in paths]
    except BadNameError as error:
        raise click.UsageError(str(error)) from None


def _say_missing(store: Store, paths: Sequence[str], targets: Sequence[Target]) -> int:
    """Say which paths lead to no partition, and return how many."""
    inventory = store.topics.inventory
    missing = [path for path, target in zip(paths, targets, strict=True) if not any(target.matches(inventory))]
    for path in missing:
        say(f"nothing in the store matches {path}")
    return len(missing)


def _form(record_format: KcatFormat | None) -> Form:
    """Return the chosen format, or the form of the files that are followed."""

    def line(followed: Followed) -> Callable[[Record], bytes]:
        topic, partition, form = followed
        if record_format is not None:
            return record_format.over(topic, partition)
        renderer = RecordRenderer(form, topic, partition)
        if form is Format.JSONL:
            return line_of_json(renderer.envelope.line)
        return lambda record: b"".join((renderer.one(record), b"\n"))

    return line


def _print(following: Tail, clock: Clock, *, follows: bool) -> None:
    """Print the records, and if it follows, those that are appended, until no log is left that can be read."""
    while True:
        begun_s = clock.elapsed_s()
        for lines in following.look():
            write_pieces(lines)
        if not follows or following.is_over:
            return
        took_s = clock.elapsed_s() - begun_s
        wait_for_no_reader(min(max(_INTERVAL_S, _REST * took_s), _INTERVAL_MAX_S))
