"""Splits of a log in an object store, whose segments are replaced or removed while they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from object_stores import BUCKET, Failure

from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.split import PartitionPlace, SplitReader, splits_of
from storage.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from object_stores import S3Server

    from storage.errors import RecordsGoneError

SEGMENT_BYTES = 9_000_000  # more than two windows of a reader
ROWS = 500


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """Make a log of two segments, and give the offsets where they begin and where the log ends."""
    path = tmp_path_factory.mktemp("split") / "store"
    with Store.create([path], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 1, {"segment.bytes": str(SEGMENT_BYTES)})
        log = store.log("orders", 0)
        while len(log.view.segments) < 2:
            begin = log.view.end_offset
            rows = [(begin + number, None, b"%01000d" % (begin + number), ()) for number in range(ROWS)]
            (batch,) = batches_of_rows(rows, base_offset=None)
            log.append_as_leader(batch, leader_epoch=0)
        return path, [*(segment.base_offset for segment in log.view.segments), log.view.end_offset]


def offsets(uri: str, end_offset: int, on_loss: Callable[[RecordsGoneError], None]) -> list[int]:
    with Store.open([uri], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as store:
        log = store.follow_partition("orders", 0)
        splits = splits_of(log, PartitionPlace(uri, "orders", 0), 0, end_offset, on_loss=on_loss)
    reader = SplitReader(Files(), Clock(), columns=("offset",), on_loss=on_loss)
    return [offset for split in splits for rows in reader.read(split) for offset in rows["offset"].to_pylist()]


@pytest.mark.parametrize("spares", [2, 3])
def test_a_segment_that_is_copied_again_is_read_to_its_end(
    spares: int, made: tuple[Path, list[int]], s3: S3Server
) -> None:
    path, (_, _, end) = made
    uri = s3.put(path)
    key = s3.key(uri, f"orders-0/{0:020}.log")
    copied = Failure(
        lambda request: request.kind == "get" and request.key == key,
        "",
        first=lambda: s3.client.put_object(
            Bucket=BUCKET, Key=key, Body=(path / "orders-0" / f"{0:020}.log").read_bytes()
        ),
        spares=spares,
        times=1,
    )
    losses: list[RecordsGoneError] = []
    with s3.failing(copied):
        assert offsets(uri, end, losses.append) == list(range(end))
    assert (copied.times, losses) == (0, [])


@pytest.mark.parametrize("spares", [2, 3])
def test_a_segment_that_is_removed_ends_at_what_was_read_and_the_rest_is_a_loss(
    spares: int, made: tuple[Path, list[int]], s3: S3Server
) -> None:
    path, (_, second, end) = made
    uri = s3.put(path)
    key = s3.key(uri, f"orders-0/{0:020}.log")
    removed = Failure(
        lambda request: request.kind == "get" and request.key == key,
        "",
        first=lambda: s3.client.delete_object(Bucket=BUCKET, Key=key),
        spares=spares,
        times=1,
    )
    losses: list[RecordsGoneError] = []
    with s3.failing(removed):
        found = offsets(uri, end, losses.append)
    begun = found.index(second)
    assert found == [*range(begun), *range(second, end)]
    assert begun < second
    assert (removed.times, len(losses)) == (0, 1)
