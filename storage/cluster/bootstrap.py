"""`bootstrap.checkpoint`: the records with which a KRaft cluster begins whose metadata log is empty.

A controller that becomes the leader of an empty log writes these records into it. `kafka-storage format` makes the file
with feature levels and users; nothing keeps it from having topics, partitions and settings as well. 4.4's makes the
metadata log's snapshot of offset 0 instead, but its controllers take this file too. It is laid out as a snapshot of the
metadata log: header, records, footer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.cluster.image_memory import ImageMemory
from storage.cluster.metadata_log import read_snapshot
from storage.internal import ClusterImage, control
from storage.record import BatchForm, ControlType, batches_of_rows
from storage.record.encoding import quorum_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.files import Directory

BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"

_EPOCH: Final = 0
_VERSION: Final = 0
_BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""The most that a controller writes in one batch of its log."""


def write_bootstrap(directory: Directory, records: Sequence[bytes], now_ms: int) -> None:
    """Write the file with these records of the metadata log, in one step and durably."""
    directory.replace(BOOTSTRAP_NAME, snapshot_of(records, now_ms))


def read_bootstrap(directory: Directory) -> ClusterImage | None:
    """Return the cluster with which a node begins that never ran, credentials included; None without the file.

    Raises `StorageError` for a file that is not whole or does not fit into the memory budget, and `OSError`.
    """
    if directory.status(BOOTSTRAP_NAME) is None:
        return None
    image = ClusterImage(snapshot=BOOTSTRAP_NAME, keeps_secrets=True)
    memory = ImageMemory()
    memory.begin(image, f"the records of {directory.path_of(BOOTSTRAP_NAME)}", None)
    read_snapshot(directory, BOOTSTRAP_NAME, image, memory)
    return image


def snapshot_of(records: Sequence[bytes], now_ms: int) -> bytes:
    """Return the bytes of a snapshot with these records."""
    rows = [(now_ms, None, value, ()) for value in records]
    form = BatchForm(leader_epoch=_EPOCH)
    batches = [
        _control(ControlType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": now_ms}, 0, now_ms),
        *batches_of_rows(rows, base_offset=1, max_bytes=_BATCH_BYTES_MAX, form=form),
        _control(ControlType.SNAPSHOT_FOOTER, {}, len(records) + 1, now_ms),
    ]
    return b"".join(map(bytes, batches))


def _control(kind: ControlType, fields: dict[str, object], offset: int, now_ms: int) -> bytes:
    value = control.encode_value(kind, _VERSION, fields)
    batch = quorum_batch(control.encode_key(kind), value, offset=offset, timestamp_ms=now_ms, leader_epoch=_EPOCH)
    return bytes(batch)
