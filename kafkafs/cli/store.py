"""What commands share that work on a store: its arguments and options, how it is opened, and how it is left."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkafs.cli.failures import say
from kafkafs.cli.output import counted
from kafkafs.cli.progress import Progress
from storage.clock import Clock
from storage.errors import NotAStoreError, ReadOnlyStoreError
from storage.files import Files, NamedFiles, store_path
from storage.log_dir import CLUSTER_METADATA, COMPACTED_BY_BROKERS, read_server_properties
from storage.store import Mode, Store, recover_unclosed_logs
from storage.topics import MAY_SET_IT, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkafs.cli.finishing import Change
    from storage.log_dir import Partition

Command = TypeVar("Command", bound="Callable[..., Any]")

_FAILURES_MAX: Final = 10
_FOLLOWS: Final = f"{__name__}.follows"
# These settings are not set with `topics config`: a file of the broker has them, or a log that cannot be read now.
_SET_ELSEWHERE: Final = re.compile(f"{re.escape(MAY_SET_IT)}|{re.escape(UNREADABLE)}")


def store_paths(ctx: click.Context, parameter: click.Parameter, text: str) -> tuple[Path, ...]:
    """Return log directories with commas between them, as in `log.dirs`; blanks are part of a name."""
    parts = [part for part in text.split(",") if part]
    paths = tuple(map(store_path, parts))
    if not paths:
        raise click.BadParameter(
            "a store is the path of a directory, or several with commas between them", ctx, parameter
        )
    for part in parts:
        if part != part.strip() and not os.path.lexists(part):
            end = "begins" if part != part.lstrip() else "ends"
            raise NotAStoreError(f"there is no such directory; its name {end} with a blank, as it was given", path=part)
        if Path(part).is_symlink() and not Path(part).exists():
            from kafkafs.backup import check_latest_leads_to_a_run

            check_latest_leads_to_a_run(Files(), Path(part))
    return paths


only_store_argument = click.argument("store", metavar="STORE", callback=store_paths)
"""The paths of a store's log directories, in their order."""

_named_store_option = click.option(
    "-s",
    "--store",
    "named_store",
    metavar="STORE",
    expose_value=False,
    help="The store, in place of the first argument; KAFKAFS_STORE names it too.",
)


def store_argument(command: Command) -> Command:
    """Give a command the argument STORE, which an option and the environment may name instead of the first word."""
    return only_store_argument(_named_store_option(command))


def optional_store_argument(command: Command) -> Command:
    """Give a command the same argument, which may be left out; then it is an empty tuple."""

    def paths(ctx: click.Context, parameter: click.Parameter, text: str | None) -> tuple[Path, ...]:
        return () if text is None else store_paths(ctx, parameter, text)

    argument = click.argument("store", metavar="STORE", required=False, callback=paths)
    return argument(_named_store_option(command))


other_store_argument = click.argument("other", metavar="OTHER", callback=store_paths)
"""The paths of a second store."""


def other_store_option(name: str, text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds an option for a second store, with this help; it is None if not given."""

    def paths(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[Path, ...] | None:
        return None if value is None else store_paths(ctx, parameter, value)

    return click.option(name, metavar="STORE", callback=paths, help=text)


server_properties_option = click.option(
    "--server-properties",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A broker's settings, used where a topic sets none.",
)


def _follow(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    ctx.meta[_FOLLOWS] = is_given


follow_links_option = click.option(
    "--follow-links",
    is_flag=True,
    expose_value=False,
    callback=_follow,
    help="Follow links in the place of partitions' directories.",
)
"""`store_files` does what it says."""


def store_files(*, spares_cache: bool = False) -> Files:
    """Return the files of the running command's store; what is read can leave the page cache as it was."""
    context = click.get_current_context(silent=True)  # None in tests, which give no options
    follows_partitions = context is not None and bool(context.meta.get(_FOLLOWS))
    return Files(follows_partitions=follows_partitions, spares_cache=spares_cache)


change_any_option = click.option(
    "--rw", "may_change_any", is_flag=True, help="Change the store even if kafkafs did not make it."
)


def check_may_change(store: Sequence[Path], *, may_change_any: bool) -> None:
    """Raise `ReadOnlyStoreError` for a store that kafkafs did not make, unless --rw was given."""
    if may_change_any:
        return
    with opened_store(store) as opened:
        if not opened.is_made_here:
            raise ReadOnlyStoreError(
                "kafkafs did not make this store; give --rw to change it all the same", path=store[0]
            )


def broker_settings(server_properties: Path | None) -> Mapping[str, str]:
    """Return the settings in the file of --server-properties; none without one."""
    return {} if server_properties is None else read_server_properties(NamedFiles(), server_properties)


def opened_store(
    paths: Sequence[Path],
    server_properties: Path | None = None,
    *,
    is_changed: bool = False,
    change: Change | None = None,
) -> AbstractContextManager[Store]:
    """Open a store, for writing if it is changed; then it is left closed properly, as `left_clean` says."""
    settings = broker_settings(server_properties)
    with _progress().beating("opening the store"):
        store = Store.open(
            paths,
            mode=Mode.READ_WRITE if is_changed else Mode.READ_ONLY,
            files=store_files(),
            clock=Clock(),
            broker_settings=settings,
        )
    return left_clean(store, change) if is_changed else store


@contextmanager
def left_clean(store: Store, change: Change | None) -> Iterator[Store]:
    """Close the store after the block; first recover the logs that were not closed properly and the block left alone.

    So one command reports an unclean shutdown, and the next one does not pay for it. If the block raises, or its
    `change` is interrupted, the store stays as it is.
    """
    with store:
        unclosed = store.partitions_to_recover()
        yield store
        opened = len(store.open_logs().keys() & unclosed)
        with _progress().beating("recovering logs that were not closed properly"):
            rest = recover_unclosed_logs(
                store, Clock(), is_stopped=lambda: change is not None and change.is_interrupted
            )
        recovered = opened + rest.recovered
        if (recovered or rest.failures) and not rest.is_given_up:
            more = "".join(f"; {failure}" for failure in rest.failures[:_FAILURES_MAX])
            if len(rest.failures) > _FAILURES_MAX:
                more += f"; and {len(rest.failures) - _FAILURES_MAX} more"
            were = "was" if recovered == 1 else "were"
            say(f"the store was not closed properly: {counted(recovered, 'log')} {were} recovered{more}")
        with _progress().beating("closing the store"):
            store.close()


def _progress() -> Progress:
    return Progress.on_terminal(is_erased_for_results=True)


def chosen_partitions(store: Store, topics: Sequence[str]) -> list[Partition]:
    """Return the partitions of some topics, or of all if none are named; raises `UnknownPartitionError`."""
    names = dict.fromkeys(topics or store.topics.inventory.topics)
    return [(topic, partition) for topic in names for partition in store.topics.partitions(topic)]


def say_unknown_settings(store: Sequence[Path], unknown: Mapping[str, str]) -> None:
    """Say which topics have unknown settings, why, and which command sets them.

    The cluster's metadata is left out: no command of kafkafs takes settings for it.
    """
    named = [topic for topic in unknown if topic != CLUSTER_METADATA]
    set_elsewhere = [topic for topic in named if _SET_ELSEWHERE.search(unknown[topic])]
    if set_elsewhere:
        why = unknown[set_elsewhere[0]].rpartition("unknown: ")[2]
        say(f"the settings of {_first_of(set_elsewhere)} are unknown: {why}")
    others = [topic for topic in named if topic not in set_elsewhere]
    if others:
        command = shlex.join(["kafkafs", "topics", "config", ",".join(map(str, store)), others[0]])
        policy = "compact`" if others[0] in COMPACTED_BY_BROKERS else "delete` (or compact)"
        say(
            f"the settings of {_first_of(others)} are unknown, since a broker made it and may have been told more; "
            f"`{command} cleanup.policy={policy}, with --rw and the other settings that it had, makes them known"
        )


def _first_of(topics: Sequence[str]) -> str:
    first, *others = topics
    return first + (f" and of {counted(len(others), 'more topic')}" if others else "")


def check_file_outside(path: Path, store: tuple[Path, ...], option: str) -> None:
    """Refuse a file that could not be written, before the store is read, or that would be a change to the store."""
    if path.is_dir():
        raise click.BadParameter(f"{path} is a directory; name a file in it", param_hint=option)
    if not path.parent.is_dir():
        raise click.BadParameter(f"there is no directory {path.parent}", param_hint=option)
    target = os.path.realpath(path)
    for log_dir in store:
        if target.startswith(os.path.realpath(log_dir).rstrip("/") + "/"):
            raise click.BadParameter(
                f"{path} is in the store, of which nothing is changed; name a file elsewhere", param_hint=option
            )
