"""`kafkafs topics delete`: prints what a topic has on disk, and deletes it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkafs.cli.failures import say
from kafkafs.cli.finishing import finishing
from kafkafs.cli.output import chosen_form, counted, output_options, print_line, write_rows
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import change_any_option, check_may_change, follow_links_option, opened_store, store_argument
from storage.errors import StorageError
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from storage.files import Directory
    from storage.store import Store

_COLUMNS = (
    "topic",
    "partition",
    "path",
    "segments",
    "bytes",
    "startOffset",
    "endOffset",
    "isApplied",
    "reason",
)


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A partition's directory with all that is in it; the offsets of its log are None if it cannot be read."""

    topic: str
    partition: int
    directory: Path
    size_bytes: int
    segments: int | None
    start_offset: int | None
    end_offset: int | None
    reason: str | None


@click.command(epilog="\b\nExample:\n  kafkafs topics delete /tmp/store orders --apply")
@store_argument
@follow_links_option
@click.argument("topic", metavar="TOPIC")
@click.option("--dry-run", is_flag=True, help="Print what would be deleted and change nothing, as without an option.")
@click.option("--apply", "is_applying", is_flag=True, help="Delete it.")
@change_any_option
@output_options
@click.pass_context
def delete(
    ctx: click.Context,
    *,
    store: tuple[Path, ...],
    topic: str,
    dry_run: bool,
    is_applying: bool,
    may_change_any: bool,
) -> None:
    """Delete a topic with all its records, for good.

    Without --apply nothing is changed, and a broker may be running: the directories that would be deleted are printed,
    with their bytes and the offsets of their records. With --apply the store must not be open elsewhere, and the topic
    is gone when the command ends.
    """
    if dry_run and is_applying:
        raise click.UsageError("--dry-run and --apply exclude each other.")
    if is_applying:
        check_may_change(store, may_change_any=may_change_any)
    form = chosen_form(ctx)
    with finishing("the topic is deleted", is_changing=is_applying) as change:
        progress = Progress.on_terminal(is_erased_for_results=True)
        with opened_store(store, is_changed=is_applying, change=change) as opened:
            with progress.beating(f"looking at {topic}"):
                doomed = [_doomed(opened, topic, partition) for partition in opened.topics.partitions(topic)]
            if is_applying:
                with progress.beating(f"deleting {topic}"):
                    for each in opened.topics.delete(topic):
                        opened.topics.removals.remove(each)
        if form is None:
            print_line("\n".join(_lines(doomed, is_applied=is_applying)))
        else:
            write_rows(_COLUMNS, [_row(each, is_applied=is_applying) for each in doomed], form)
        if not dry_run and not is_applying:
            say("nothing was deleted; --apply does it")


def _doomed(store: Store, topic: str, partition: int) -> _Doomed:
    place = store.topics.directory(topic, partition)
    directory, size_bytes = Path(place), _size_bytes(place)
    try:
        view = store.follow_partition(topic, partition).view
    except (StorageError, OSError) as error:
        return _Doomed(topic, partition, directory, size_bytes, None, None, None, str(error))
    return _Doomed(topic, partition, directory, size_bytes, len(view.bases), view.start_offset, view.end_offset, None)


def _size_bytes(directory: Directory) -> int:
    """Return the size of the directory's files; a removed file or a dangling link counts as empty."""
    size_bytes = 0
    for name in directory.names():
        with suppress(OSError):
            status = directory.status(name)
            size_bytes += 0 if status is None or status.is_directory else status.size_bytes
    return size_bytes


def _lines(doomed: Sequence[_Doomed], *, is_applied: bool) -> list[str]:
    lines = []
    for each in doomed:
        if each.segments is None or each.start_offset is None or each.end_offset is None:
            what = f"its log cannot be read: {each.reason}"
        else:
            records = each.end_offset - each.start_offset
            most = f", {counted(records, 'record')} at most" if records else ""
            what = f"{counted(each.segments, 'segment')}, {offsets_text(each.start_offset, each.end_offset)}{most}"
        lines.append(f"{each.directory}: {each.size_bytes} bytes, {what}")
    size_bytes = sum(each.size_bytes for each in doomed)
    done = "deleted" if is_applied else "to be deleted"
    return [*lines, f"{counted(len(doomed), 'partition')}: {size_bytes} bytes {done}"]


def _row(each: _Doomed, *, is_applied: bool) -> Mapping[str, object]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "path": str(each.directory),
        "segments": each.segments,
        "bytes": each.size_bytes,
        "startOffset": each.start_offset,
        "endOffset": each.end_offset,
        "isApplied": is_applied,
        "reason": each.reason,
    }
