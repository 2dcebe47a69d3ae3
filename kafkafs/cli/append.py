"""`kafkafs append`: standard input as records, without a mount."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

import click

from kafkafs.cli.changing import change_any_option, check_may_change
from kafkafs.cli.opened_tree import node_at, opened_tree, path_argument
from kafkafs.cli.store_argument import store_argument
from kafkafs.tree.node import WritableFile
from kafkafs.tree.options import TreeOptions
from storage.store.store import Mode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_READ_BYTES: Final = 1024 * 1024
_RECEIPT_BYTES: Final = 64 * 1024


@click.command(epilog="\b\nExample:\n  echo '{\"id\":1}' | kafkafs append /tmp/store orders/0/append")
@store_argument
@path_argument
@click.option("--receipts", is_flag=True, help="Print the offsets that the records got, first..last a line.")
@change_any_option
def append(*, store: tuple[Path, ...], path: str, receipts: bool, may_change_any: bool) -> None:
    """Append what standard input has to a log.

    PATH says how it is read: orders/0/append for a record a line, append.kv for keys and values, append.jsonl for
    envelopes, append.raw for all of it as one record, append.batch for record batches. Everything is on disk when the
    command ends. The store must not be open elsewhere: where it is mounted, write to the mount.
    """
    check_may_change(store, may_change_any=may_change_any)
    with opened_tree(store, Mode.READ_WRITE, TreeOptions()) as tree:
        node = node_at(tree, path)
        if not isinstance(node, WritableFile):
            raise click.UsageError(f"{node.path} is not written to; orders/0/append is an example of what is")
        writing = node.open_writing()
        try:
            while data := os.read(sys.stdin.fileno(), _READ_BYTES):
                writing.write(data)
                _print_receipts(writing.read, wanted=receipts)
            writing.flush()
            writing.sync()
            _print_receipts(writing.read, wanted=receipts)
        finally:
            writing.close()


def _print_receipts(read: Callable[[int], bytes], *, wanted: bool) -> None:
    while receipt := read(_RECEIPT_BYTES):
        if wanted:
            sys.stdout.buffer.write(receipt)
