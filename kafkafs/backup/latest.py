"""`DEST/latest` that leads nowhere: the run that it led to was removed, and a later one would set it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.backup.places import LATEST_NAME, is_backup_place, newest_complete
from storage.errors import NotAStoreError

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Files


def check_latest_leads_to_a_run(files: Files, path: Path) -> None:
    """Raise `NotAStoreError` if the path is the `latest` of some backups and leads nowhere; it names the newest run."""
    if path.name != LATEST_NAME or files.directory(path).own_status() is not None:
        return
    dest = files.directory(path.parent)
    found = dest.status(LATEST_NAME) if dest.own_status() is not None else None
    if found is None or not found.is_link or not is_backup_place(dest):
        return
    run = newest_complete(files, path.parent)
    newest = "no complete run is left" if run is None else f"the newest complete run is {run}"
    target = dest.link_target(LATEST_NAME)
    raise NotAStoreError(f"it is a link that leads nowhere, to {target}, which was removed; {newest}", path=path)
