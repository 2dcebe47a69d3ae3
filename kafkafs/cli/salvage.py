"""`kafkafs salvage`: copies what is intact of a damaged partition, and accounts for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkafs.cli.finishing import print_afterwards
from kafkafs.cli.output import json_line
from kafkafs.cli.progress import Progress
from kafkafs.cli.store import (
    follow_links_option,
    opened_store,
    server_properties_option,
    store_argument,
    store_files,
)
from kafkafs.locator.errors import BadNameError
from kafkafs.salvage import account_lines, find_source
from kafkafs.salvage import salvage as salvaged
from storage.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command(epilog="\b\nExample:\n  kafkafs salvage /var/lib/kafka orders/0 /tmp/salvaged")
@store_argument
@follow_links_option
@click.argument("path", metavar="PATH")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--even-unsummed",
    is_flag=True,
    help="Take also records of broken batches, where they decode by themselves; the account marks them.",
)
@server_properties_option
@click.option("--json", "as_json", is_flag=True, help="Print the account as one JSON object.")
def salvage(
    *,
    store: tuple[Path, ...],
    path: str,
    target: Path,
    even_unsummed: bool,
    server_properties: Path | None,
    as_json: bool,
) -> None:
    """Copy the intact batches of a partition, on both sides of every damage, into a new one in DIR.

    PATH names the partition: orders/0, or .kafkafs/unattached/ and the name of a -delete, -stray or -future directory.
    Batches keep their bytes and their offsets; indexes and producer snapshots are built from them. The copy is verified
    before it gets its name, and DIR is then a store with TOPIC-PARTITION in it, for `kafkafs ls`, `mount` and `revive`.
    More partitions may be salvaged into the same DIR. The store is only read.

    There are two ways back: put DIR/TOPIC-PARTITION in the place of the damaged directory while the broker is stopped,
    or give DIR to `kafkafs revive`, which makes log directories for a fresh broker. `kafkafs help revive` shows both.

    The account says which offsets are lost, which bytes of which file are damaged and why. It is printed, and kept in
    DIR/TOPIC-PARTITION.salvage.json.

    With --even-unsummed batches whose checksum is wrong are copied too, with a checksum that fits, as far as their
    records decode. Nothing vouches for such records: any byte of them may be wrong.
    """
    progress = Progress.on_terminal()
    with progress.beating(f"reading {path}"), opened_store(store, server_properties) as opened:
        try:
            source = find_source(opened, path)
        except BadNameError as error:
            raise click.UsageError(str(error)) from None
        account = salvaged(
            source, target.absolute(), store_files(), Clock(), even_unsummed=even_unsummed, advance=_advance(progress)
        ).to_json()
    progress.erase()
    text = json_line(account) if as_json else "\n".join(account_lines(account))
    print_afterwards(text, f"the partition was salvaged into {account['salvaged']}")


def _advance(progress: Progress) -> Callable[[str, int, int], None]:
    def advance(doing: str, done_bytes: int, total_bytes: int) -> None:
        progress.show(doing, done_bytes, total_bytes)

    return advance
