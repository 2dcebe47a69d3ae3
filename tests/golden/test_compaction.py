"""Our cleaner on what real brokers wrote: beside what the real cleaner made of it, and beside a model."""

from __future__ import annotations

import os
import random
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compacting import MANY_KEYS, Compacting, segments_of
from compaction_model import comparable, visible
from memory_logs import StandingClock
from old_indexes import OldIndexes
from path_files import PathFiles

from storage.config import TopicConfig
from storage.files import Files
from storage.files.opened import WritableFile
from storage.log.epochs import EPOCHS_NAME
from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.segment.scan import LogScan
from storage.testing.codec import decode_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

pytestmark = pytest.mark.golden

FILES = Files()


class WatchedFile(WritableFile):
    """A file that records where each write ended."""

    ends: list[int]

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        super().write_at(position, buffers)
        self.ends.append(position + sum(memoryview(buffer).nbytes for buffer in buffers))


class WatchedFiles(PathFiles):
    """Files of which `ends` says where each write to the log of a cleaned segment ended, by the segment's name."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[str, list[int]] = {}

    def open_writing(
        self, path: str | os.PathLike[str], *, create: bool = False, exclusive: bool = False
    ) -> WritableFile:
        opened = super().open_writing(path, create=create, exclusive=exclusive)
        name, _, kind = Path(path).name.partition(".")
        if kind != "log.cleaned":
            return opened
        file = WatchedFile(opened.path, os.open(opened.path, os.O_RDWR))
        file.ends = self.ends.setdefault(name, [])  # it is opened again to be brought to disk
        opened.close()
        return file


def indexes_before_4(directory: Path, ends: dict[str, list[int]], config: TopicConfig) -> dict[str, bytes]:
    """The index files of cleaned segments as a broker before 4.0 makes them, which indexes each write as one."""
    found: dict[str, bytes] = {}
    for name, positions in ends.items():
        indexes = OldIndexes(int(name), config.index_interval_bytes)
        with FILES.open_reading(directory / f"{name}.log") as file:
            batches = list(LogScan(file))
        for end in positions:
            indexes.add([batch for batch in batches if batch.position < end])
            batches = [batch for batch in batches if batch.position >= end]
        found |= indexes.files()
    return found


YEAR_MS = 365 * 86_400_000
COMPACTED = (
    "t-compact-0",
    "t-compact-gzip-0",
    "t-compactdelete-0",
    "t-txn-compact-0",
    "t-v0-compact-0",
    "t-v1-compact-0",
)


def open_log(directory: Path, settings: dict[str, str], clock: StandingClock, files: Files = FILES) -> Log:
    config = TopicConfig.resolve(settings)
    rng = random.Random(0)
    parts = open_sound_log(clock, files.directory(directory), config, rng=rng, producer_expiration_ms=2**62)
    return Log(clock, files.directory(directory), config, parts, rng=rng)


def cleaning_times(after: Path) -> dict[str, int]:
    """When the real cleaner found each log to be the dirtiest, which is the time that its horizons count from."""
    said = (after / "hold-clean.log").read_text()
    found = {}
    for stamp, name in re.findall(r"^\[(.+?)\] INFO Cleaner 0: Beginning cleaning of log (\S+)", said, re.MULTILINE):
        moment = datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        found[name] = round(moment.timestamp() * 1000)
    return found


@pytest.mark.parametrize("name", ["t-hold-none-0", "t-hold-lz4-0"])
def test_it_does_what_the_real_cleaner_did(
    name: str, datasets: Callable[[str], Path], topic_settings: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    """Every file comes out equal, to the last byte, once our cleaner is given the real one's time.

    The broker noted a new epoch as it was restarted. A broker before 4.0 indexed what its cleaner wrote at once as one.
    """
    before, after = (datasets("kafka-3.9-compaction") / f"kafka-3.9-compaction-{part}" for part in ("before", "after"))
    ours = tmp_path / name
    shutil.copytree(before / name, ours)
    clock = StandingClock(cleaning_times(after)[name])
    files = WatchedFiles()
    log = open_log(ours, topic_settings[name.rpartition("-")[0]], clock, files)
    compacting = Compacting(clock, buffer_bytes=256 * 1024)
    plan = compacting.plan(log)
    expected = compacting.model(log, plan).kept()
    estimate = compacting.estimate(log, plan)
    report = compacting.compact(log, plan)
    log.close()

    theirs = {path.name: path.read_bytes() for path in (after / name).iterdir() if path.name != EPOCHS_NAME}
    made = {path.name: path.read_bytes() for path in ours.iterdir() if path.name != EPOCHS_NAME}
    assert made | indexes_before_4(ours, files.ends, log.config) == theirs
    topic, partition = name.rsplit("-", 1)
    checkpoints = "".join(path.read_text() for path in after.glob("cleaner-offset-checkpoint.*"))
    assert f"{topic} {partition} {report.first_dirty_offset}\n" in checkpoints
    assert (estimate.records, estimate.after_bytes) == (report.records, report.after_bytes)
    cleaned = [path for path in sorted(ours.glob("*.log")) if int(path.stem) < plan.uncleanable_offset]
    modified_ms = [path.stat().st_mtime_ns // 1_000_000 for path in cleaned]
    assert modified_ms == [segment.modified_ms for segment in plan.segments]
    assert [comparable(unit) for path in cleaned for unit in decode_batches(path.read_bytes())] == expected


@pytest.mark.parametrize(("keys_max", "is_clean"), [(MANY_KEYS, False), (MANY_KEYS, True), (23, False)])
@pytest.mark.parametrize("name", COMPACTED)
def test_what_was_compacted_is_compacted_again_as_the_model_says(
    name: str,
    keys_max: int,
    *,
    is_clean: bool,
    datasets: Callable[[str], Path],
    topic_settings: dict[str, dict[str, str]],
    tmp_path: Path,
) -> None:
    """Rounds follow each other until nothing is dirty; then once more a year later, when horizons have passed."""
    source = next((datasets("kafka-2.2") / "kafka-2.2").glob(f"d?/{name}"))
    directory = tmp_path / name
    shutil.copytree(source, directory)
    for path in directory.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    topic, _, _ = name.rpartition("-")
    clock = StandingClock(1_700_000_100_000)
    log = open_log(directory, {**topic_settings[topic], "delete.retention.ms": "1000"}, clock)
    log.roll()
    checkpoint = log.view.segments[-2].base_offset if is_clean else None
    compacting = Compacting(clock, keys_max=keys_max)
    committed = {record.key: record.value for record in visible(segments_of(log), committed=True)}
    for _ in range(2):
        end_offset = log.view.segments[-1].base_offset
        while (plan := compacting.plan(log, checkpoint)).is_applicable:
            expected = compacting.model(log, plan)
            kept = expected.kept()
            estimate = compacting.estimate(log, plan)
            report = compacting.compact(log, plan)
            units = [unit for segment in segments_of(log) for unit in segment.units]
            assert [comparable(unit) for unit in units[: len(kept)]] == kept
            assert report.first_dirty_offset == expected.map_end + 1
            assert (estimate.records, estimate.after_bytes) == (report.records, report.after_bytes)
            checkpoint = report.first_dirty_offset
        assert checkpoint == end_offset == log.view.end_offset
        left = {record.key: record.value for record in visible(segments_of(log), committed=True)}
        assert {key: value for key, value in left.items() if value} == {
            key: value for key, value in committed.items() if value and key is not None
        }
        clock.ms += YEAR_MS
        checkpoint = None
    log.close()
