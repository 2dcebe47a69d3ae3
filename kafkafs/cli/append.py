"""`kafkafs append`: standard input as records, without a mount."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.failures import PartlyDoneError
from kafkafs.cli.finishing import finishing
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    change_any_option,
    check_may_change,
    follow_links_option,
    server_properties_option,
    store_argument,
)
from kafkafs.cli.tree import node_at, opened_tree, path_argument
from kafkafs.tree.errors import TreeError
from kafkafs.tree.node import WritableFile
from kafkafs.tree.options import TreeOptions
from storage.errors import StorageError
from storage.offset_text import offsets_text
from storage.store import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkafs.cli.finishing import Change

_READ_BYTES: Final = 1024 * 1024
_RECEIPT_BYTES: Final = 64 * 1024


@click.command(epilog="\b\nExample:\n  echo '{\"id\":1}' | kafkafs append /tmp/store orders/0/append")
@store_argument
@follow_links_option
@path_argument
@click.option("--receipts", is_flag=True, help="Print the offsets of the stored records, first..last a line.")
@change_any_option
@server_properties_option
def append(
    *, store: tuple[Path, ...], path: str, receipts: bool, may_change_any: bool, server_properties: Path | None
) -> None:
    """Append standard input to a log.

    PATH says how the input is read: orders/0/append takes a record a line, append.kv keys and values, append.jsonl
    envelopes, append.raw everything as one record, and append.batch record batches. When the command ends, everything
    is on disk. The store must not be open elsewhere; if it is mounted, write to the mount.

    A refused record ends the command, which says how many records were stored before it: fix the record, and append the
    rest of the input. SIGTERM and SIGHUP end the command as SIGINT does: it finishes the write under way and closes the
    store. If receipts cannot be printed, it stores the rest all the same, and says so.
    """
    check_may_change(store, may_change_any=may_change_any)
    with (
        finishing("everything is stored") as change,
        opened_tree(store, Mode.READ_WRITE, TreeOptions(), server_properties, change) as tree,
    ):
        with Progress.on_terminal(is_erased_for_results=True).beating(f"opening {path}"):
            node = node_at(tree, path)
            if not isinstance(node, WritableFile):
                raise click.UsageError(f"{node.path} cannot be written to; {_writable_near(str(node.path))} can")
            writing = node.open_writing()
        stored = _Stored(writing.read, is_printing=receipts)
        try:
            while data := _read(change):
                writing.write(data)
                stored.take()
            writing.flush()
            writing.sync()
            stored.take()
        except (StorageError, TreeError, OSError) as error:
            stored.take()
            raise PartlyDoneError(error, stored.sentence()) from error
        finally:
            writing.close()


class _Stored:
    """The records stored so far, and their receipts."""

    def __init__(self, read: Callable[[int], bytes], *, is_printing: bool) -> None:
        self._read = read
        self._is_printing = is_printing
        self._records = 0
        self._first = self._last = 0

    def take(self) -> None:
        """Count the new receipts, and print them if they are wanted."""
        pieces = []
        while piece := self._read(_RECEIPT_BYTES):
            pieces.append(piece)
        receipts = b"".join(pieces)
        for line in receipts.splitlines():
            first, last = map(int, line.split(b".."))
            if not self._records:
                self._first = first
            self._last = last
            self._records += last - first + 1
        if self._is_printing and receipts:
            sys.stdout.buffer.write(receipts)
            sys.stdout.buffer.flush()

    def sentence(self) -> str:
        """Return what to add to an error."""
        if not self._records:
            return "nothing was stored before it"
        were = "record was" if self._records == 1 else "records were"
        return f"{self._records} {were} stored before it ({offsets_text(self._first, self._last + 1)})"


def _read(change: Change) -> bytes:
    with change.waiting():
        try:
            return os.read(sys.stdin.fileno(), _READ_BYTES)
        except OSError as error:
            error.filename = "standard input"
            raise


def _writable_near(path: str) -> str:
    """Return the path of a file that can be written, in the same partition if the path has one."""
    topic, partition, *_ = *path.strip("/").split("/"), "", ""
    return f"{topic}/{partition}/append" if partition.isdecimal() else "orders/0/append"
