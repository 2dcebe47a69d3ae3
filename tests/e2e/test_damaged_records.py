"""Logs that were damaged on purpose: what is sound is there, what is not is an error, and nothing ends in silence."""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

import pytest
from mounts import store_mounting
from peer_logs import Place, decoded, framed, is_sound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mounts import Mounted
    from peer_logs import PeerRecord

pytestmark = pytest.mark.e2e

# Of the 18 ways in which the set is damaged, those that leave a batch whose bytes are not what its checksum says.
FLIPPED = {"t-lz4-0", "t-zstd-0", "t-v1-0"}
LAST_OFFSET_DELTA = 23


class Looked(NamedTuple):
    """What other people's decoders make of a log: its sound records, and those offsets that a damaged batch has."""

    directory: Path
    records: list[PeerRecord]
    before: list[PeerRecord]  # the first damaged batch
    lost: list[int]

    @property
    def path(self) -> str:
        topic, _, partition = self.directory.name.rpartition("-")
        return f"{topic}/{partition}"


def look(directory: Path) -> Looked:
    records: list[PeerRecord] = []
    lost: list[int] = []
    before = None
    for path in sorted(directory.glob("[0-9]*.log")):
        for position, data in framed(path.read_bytes()):
            if is_sound(data):
                batch = decoded(Place(path.name, position), data)
                records += [] if batch.is_control else batch.records
                continue
            before = len(records) if before is None else before
            (first,) = struct.unpack_from(">q", data)
            is_legacy = data[16] < 2  # the offset is that of its last message then
            (delta,) = (0,) if is_legacy else struct.unpack_from(">i", data, LAST_OFFSET_DELTA)
            lost += range(first, first + delta + 1)
    return Looked(directory, records, records[:before], lost)


def values(records: list[PeerRecord]) -> bytes:
    return b"".join((record.value or b"") + b"\n" for record in records)


@pytest.fixture(scope="module")
def damaged(
    datasets: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[Looked], Mounted, Mounted]]:
    root = datasets("kafka-3.9-recovery") / "kafka-3.9-recovery" / "before"
    logs = [look(path) for path in sorted(root.glob("d?/*-[0-9]*")) if any(path.glob("[0-9]*.log"))]
    assert {log.directory.name for log in logs if log.lost} == FLIPPED
    with store_mounting(tmp_path_factory.mktemp("damaged")) as mount:
        store = f"{root / 'd1'},{root / 'd2'}"
        yield logs, mount(store, at="stop"), mount(store, "-o", "damage=skip", at="skip")


def test_sound_records_are_read_and_damaged_ones_are_errors(damaged: tuple[list[Looked], Mounted, Mounted]) -> None:
    logs, stop, _ = damaged
    for log in logs:
        directory = stop.path / log.path / "offset"
        for record in log.records if log.lost else log.records[::17]:
            assert (directory / str(record.offset)).read_bytes() == (record.value or b""), (
                log.directory,
                record.offset,
            )
        for offset in log.lost:
            with pytest.raises(OSError, match="Input/output error") as error:
                (directory / str(offset)).read_bytes()
            assert error.value.errno == errno.EIO
            assert f"{directory.parent.parent.name}-0" in stop.said()


@pytest.mark.parametrize("view", ["values", "offset/all"])
def test_runs_have_everything_before_damage_and_then_fail(
    damaged: tuple[list[Looked], Mounted, Mounted], view: str
) -> None:
    logs, stop, skip = damaged
    failed = 0
    for log in logs:
        done = stop.run_bytes(f"cat {log.path}/{view}")
        if done.returncode:
            assert done.stderr.endswith(b"Input/output error\n")
            assert os.getxattr(stop.path / log.path / view, "user.kafkafs.size") == b"damaged"
            failed += 1
        assert done.stdout == values(log.before), log.directory
        assert bool(done.returncode) >= bool(log.lost)
        done = skip.run_bytes(f"cat {log.path}/{view}")
        assert (done.stdout, done.stderr, done.returncode) == (values(log.records), b"", 0), log.directory
        skipped = int(os.getxattr(skip.path / log.path / view, "user.kafkafs.skipped"))
        assert (skipped > 0) >= bool(log.lost)
    assert failed >= len(FLIPPED)
