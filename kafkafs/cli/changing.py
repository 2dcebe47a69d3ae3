"""Changing a store that kafkafs did not make: only if the user says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from storage.clock import Clock
from storage.errors import ReadOnlyStoreError
from storage.files import Files
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

change_any_option = click.option(
    "--rw", "may_change_any", is_flag=True, help="Change the store even if kafkafs did not make it."
)


def check_may_change(store: Sequence[Path], *, may_change_any: bool) -> None:
    """Raise `ReadOnlyStoreError` for a store that kafkafs did not make, unless the user said so."""
    if may_change_any:
        return
    with Store.open(store, mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as looked_at:
        if not looked_at.is_made_here:
            raise ReadOnlyStoreError(
                "kafkafs did not make this store; give --rw to change it all the same", path=store[0]
            )
