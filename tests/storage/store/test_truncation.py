"""A truncated log is not believed for what it had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_logs import sent

from storage.log.log import Log
from storage.log_dir.checkpoints import OffsetCheckpoint, read_offsets
from storage.store.log_opener import LogOpener

if TYPE_CHECKING:
    from pathlib import Path


def test_no_checkpoint_says_more_of_a_log_than_a_truncation_leaves(stores) -> None:
    store = stores.create(open_log=LogOpener())
    store.topics.create("t", 2, {"segment.index.bytes": "120"})
    for number in range(2):
        log = store.log("t", number)
        assert isinstance(log, Log)
        for _ in range(5):
            log.append_as_leader(sent(b"x"))
        log.advance_start(4)
        log.flush()
    store.write_checkpoints()
    truncated = store.log("t", 0)
    assert isinstance(truncated, Log)
    truncated.truncate_to(2)
    assert offsets(stores, store.topics.location("t", 0)[1].path, 0) == {2}
    assert offsets(stores, store.topics.location("t", 1)[1].path, 1) == {4, 5}


def offsets(stores, log_dir: Path, number: int) -> set[int]:
    """What the checkpoints have of the partition, however the power is lost."""
    return {
        found[("t", number)]
        for seed in range(10)
        for checkpoint in OffsetCheckpoint
        if ("t", number) in (found := read_offsets(stores.files.after_power_loss(seed).directory(log_dir), checkpoint))
    }
