"""Every record that real brokers wrote, read through real mounts, is what other people's decoders and tools say it is.

With the test profile every third record's value is read by its name, and of its other forms every so many; `prove`
reads all. The streams and ranges, which are read whole, have each record's value and envelope.
"""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest
from mounts import store_mounting
from peer_logs import (
    FORMATS,
    PeerLog,
    as_dumped,
    dumped_as,
    gaps,
    headers_read,
    parted,
    peer_logs,
    rendered,
    run_of,
    told_of,
    xattrs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from mounts import Mounted
    from peer_logs import PeerRecord

pytestmark = pytest.mark.e2e

SETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed")
ISOLATIONS = ("read_uncommitted", "read_committed")
# Dumped by the real tool with decoders of their own.
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__cluster_metadata")
DUMP_DIED = ("kafka-3.9-killed", "t-prealloc")
PROVES = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
STEP = 1 if PROVES else 41
VALUES_STEP = 1 if PROVES else 3
ENVELOPES_STEP = 1 if PROVES else 5
TIMES_STEP = 1 if PROVES else 23
RECORDS = {"kafka-2.2": 30866, "kafka-3.9": 31919, "kafka-3.9-killed": 34841}
LATER = 2**60


class Mark(NamedTuple):
    """The state of a file that must not change; a directory has no digest."""

    modified_ns: int
    changed_ns: int
    size_bytes: int
    disk_blocks: int
    digest: bytes


class Shown(NamedTuple):
    """A data set, what is in it, and a mount of it for each isolation level."""

    name: str
    log_dirs: list[Path]
    dumps: Path
    logs: list[PeerLog]
    before: dict[Path, Mark]
    mounts: dict[str, Mounted]


@pytest.fixture(scope="module", params=SETS)
def shown(
    request: pytest.FixtureRequest, datasets: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    name: str = request.param
    root = datasets(name)
    log_dirs = sorted(path for path in (root / name).iterdir() if path.is_dir())
    logs, before = peer_logs(log_dirs), marks(root / name)
    with ExitStack() as stack:
        mount = stack.enter_context(store_mounting(tmp_path_factory.mktemp(name)))
        store = ",".join(map(str, log_dirs))
        mounts = {level: mount(store, "-o", f"isolation={level}", at=level) for level in ISOLATIONS}
        yield Shown(name, log_dirs, root / f"{name}.dump", logs, before, mounts)


def marks(root: Path) -> dict[Path, Mark]:
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        digest = hashlib.blake2b(path.read_bytes()).digest() if path.is_file() else b""
        found[path] = Mark(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_blocks, digest)
    return found


class Place:
    """A directory of a mount in which files are opened by their names; a name is one lookup."""

    def __init__(self, mounted: Mounted, *parts: object) -> None:
        self.path = mounted.path.joinpath(*map(str, parts))

    def __enter__(self) -> Self:
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def open(self, name: str) -> int:
        return os.open(name, os.O_RDONLY, dir_fd=self._descriptor)

    def link(self, name: str) -> str:
        return os.readlink(name, dir_fd=self._descriptor)

    def read(self, name: str) -> bytes:
        """All of a file, which must be as long as it says, as often as it says so."""
        descriptor = self.open(name)
        try:
            size_bytes = os.fstat(descriptor).st_size
            found = bytearray()
            while part := os.read(descriptor, size_bytes - len(found) + 1):
                found += part
            assert len(found) == size_bytes, name
            return bytes(found)
        finally:
            os.close(descriptor)

    def mtime_ms(self, name: str) -> int:
        return os.stat(name, dir_fd=self._descriptor).st_mtime_ns // 1_000_000

    def error(self, name: str) -> int | None:
        """What opening fails with."""
        try:
            os.close(self.open(name))
        except OSError as error:
            return error.errno
        return None


def visible(log: PeerLog, level: str) -> list[PeerRecord]:
    return log.uncommitted if level == "read_uncommitted" else log.committed


def spread(records: Sequence[PeerRecord]) -> list[PeerRecord]:
    """Every so many records, and the first and the last."""
    return records if STEP == 1 else [*records[::STEP], *records[-1:]]  # type: ignore[return-value]


def some_gaps(log: PeerLog, records: list[PeerRecord]) -> list[int]:
    """Offsets at which there is nothing: control records, what is beyond both ends, and of the others every so many."""
    offsets = list(gaps(log, records))
    controls = {record.offset for batch in log.batches if batch.is_control for record in batch.records}
    return sorted({*controls, *offsets[:1], *offsets[::STEP], *offsets[-1:]})


def test_the_oracles_agree(shown: Shown) -> None:
    """What other decoders read is what the real tool printed."""
    compared = 0
    for log in shown.logs:
        for path, batches in zip(log.paths, log.segments, strict=True):
            dump = shown.dumps / path.parent.parent.name / path.parent.name / f"{path.name}.txt"
            if dump.exists():
                records = [as_dumped(record) for batch in batches for record in batch.records]
                assert dumped_as(dump.read_bytes()) == records, path
                compared += len(records)
    assert compared >= RECORDS[shown.name] == sum(len(log.uncommitted) for log in shown.logs)


def test_values_and_nothing_else_are_there(shown: Shown) -> None:
    for log in shown.logs:
        with Place(shown.mounts["read_uncommitted"], log.topic, log.partition, "offset") as offset:
            for record in log.uncommitted[::VALUES_STEP]:
                name = str(record.offset)
                assert offset.read(name) == (record.value or b""), (log.directory, name)
                time_ms = record.timestamp if record.timestamp >= 0 else segment_mtime_ms(log, record)
                assert offset.mtime_ms(name) == time_ms, (log.directory, name)
            for missing in some_gaps(log, log.uncommitted):
                assert offset.error(str(missing)) == errno.ENOENT, (log.directory, missing)


def segment_mtime_ms(log: PeerLog, record: PeerRecord) -> int:
    return (log.directory / record.batch.place.segment).stat().st_mtime_ns // 1_000_000


def test_every_committed_value_and_nothing_else_is_there(shown: Shown) -> None:
    for log in shown.logs:
        is_special = any(batch.is_transactional for batch in log.batches)
        with Place(shown.mounts["read_committed"], log.topic, log.partition, "offset") as offset:
            for record in log.committed if is_special else spread(log.committed):
                assert offset.read(str(record.offset)) == (record.value or b""), (log.directory, record.offset)
            for missing in some_gaps(log, log.committed):
                assert offset.error(str(missing)) == errno.ENOENT, (log.directory, missing)


def test_every_envelope_is_right(shown: Shown) -> None:
    for log in shown.logs:
        with Place(shown.mounts["read_uncommitted"], log.topic, log.partition, "offset") as offset:
            for record in log.uncommitted[::ENVELOPES_STEP]:
                assert offset.read(f"{record.offset}.jsonl") == rendered(log, record, ".jsonl"), (
                    log.directory,
                    record.offset,
                )


def test_other_forms_and_attributes_are_right(shown: Shown) -> None:
    for log in shown.logs:
        with Place(shown.mounts["read_uncommitted"], log.topic, log.partition, "offset") as offset:
            for record in spread(log.uncommitted):
                for form in FORMATS:
                    found = offset.read(f"{record.offset}{form}")
                    if form == ".headers":
                        assert headers_read(found) == record.headers
                    elif form == ".json":
                        envelope, batch = parted(found)
                        assert envelope == rendered(log, record, form)
                        assert batch | told_of(record.batch) == batch, (log.directory, record.offset)
                    else:
                        assert found == rendered(log, record, form)
                path = offset.path / str(record.offset)
                xattrs = {name: os.getxattr(path, name) for name in os.listxattr(path)}
                assert xattrs == xattrs_of(record), (log.directory, record.offset)


@pytest.mark.parametrize("level", ISOLATIONS)
def test_ranges_and_streams_have_every_record(shown: Shown, level: str) -> None:
    for log in shown.logs:
        records = visible(log, level)
        with Place(shown.mounts[level], log.topic, log.partition) as partition:
            for form in ("", ".jsonl", ".batch"):
                assert partition.read(f"offset/all{form}") == run_of(log, records, form), (log.directory, form)
            assert partition.read("values") == run_of(log, records, ""), log.directory
            assert partition.read("records.jsonl") == run_of(log, records, ".jsonl"), log.directory
            headers = partition.read("offset/all.headers")
            assert headers.count(b"\n") == sum(len(record.headers) + 1 for record in records), log.directory
            half = len(records) // 2
            if half:
                start, end = records[half // 2].offset, records[half].offset
                assert partition.read(f"offset/{start}..{end}") == run_of(log, records[half // 2 : half], "")
                assert partition.read(f"offset/last-{half}...key") == run_of(log, records[-half:], ".key")
                assert partition.read(f"offset/last-{half}.jsonl") == rendered(log, records[-half], ".jsonl")
                assert partition.read("offset/earliest.jsonl") == rendered(log, records[0], ".jsonl")
                assert partition.read("offset/latest.jsonl") == rendered(log, records[-1], ".jsonl")


def times_of(log: PeerLog) -> list[int]:
    """Times of a log's records and those around them, without end and before all."""
    found = {record.timestamp for batch in log.batches for record in batch.records if record.timestamp >= 0}
    nudged = {max(time + nudge, 0) for time in sorted(found)[::TIMES_STEP] for nudge in (-1, 0, 1)}
    return sorted(nudged | {0, LATER})


def first_visible(log: PeerLog, time: int, level: str) -> int | None:
    """The offset that a time leads to, by looking at everything."""
    found = log.first_from(time)
    if found is None:
        return None
    return next((record.offset for record in visible(log, level) if record.offset >= found.offset), None)


def test_times_of_a_partition_lead_where_brute_force_does(shown: Shown) -> None:
    links = 0
    for log in shown.logs:
        with Place(shown.mounts["read_uncommitted"], log.topic, log.partition, "by-time") as by_time:
            for time in times_of(log):
                expected = first_visible(log, time, "read_uncommitted")
                try:
                    found = by_time.link(str(time))
                except FileNotFoundError:
                    assert expected is None, (log.directory, time)
                else:
                    assert found == f"../offset/{expected}", (log.directory, time)
                    links += 1
    assert links > 1000


def test_ranges_of_times_are_what_brute_force_finds(shown: Shown) -> None:
    for log in shown.logs:
        records, times = log.uncommitted, times_of(log)
        with Place(shown.mounts["read_uncommitted"], log.topic, log.partition, "by-time") as by_time:
            for start, end in zip(times[:: 40 * STEP], times[20 * STEP :: 40 * STEP], strict=False):
                bounds = [first_visible(log, time, "read_uncommitted") for time in (start, end)]
                first, behind = (LATER if offset is None else offset for offset in bounds)
                within = [record for record in records if first <= record.offset < behind]
                assert by_time.read(f"{start}..{end}") == run_of(log, within, ""), (log.directory, start, end)
                assert by_time.read(f"{start}.jsonl") == (
                    b"" if first == LATER else rendered(log, next(r for r in records if r.offset == first), ".jsonl")
                )


@pytest.mark.parametrize("level", ISOLATIONS)
def test_times_of_the_store_are_what_brute_force_finds(shown: Shown, level: str) -> None:
    times = sorted({time for log in shown.logs for time in times_of(log)})
    logs = sorted(shown.logs, key=lambda log: (log.topic, log.partition))
    for time in times[:: max(1, len(times) // (400 if PROVES else 25))]:
        expected = []
        for log in logs:
            found = log.first_from(time)
            end = log.end_offset if level == "read_uncommitted" else log.stable_end_offset
            if found is not None and found.offset < end:
                expected.append(f"{log.topic}:{log.partition}:{found.offset}\n")
        with Place(shown.mounts[level], "by-time") as by_time:
            found_lines = by_time.read(str(time)).decode().splitlines(keepends=True)
        assert sorted(found_lines) == sorted(expected), time


def test_segments_are_the_real_files_and_their_text_the_real_dump(shown: Shown) -> None:
    dumped = 0
    for log in shown.logs:
        with Place(shown.mounts["read_uncommitted"], log.topic, log.partition, "segments") as segments:
            for real in sorted(path for path in log.directory.iterdir() if path.is_file()):
                assert segments.read(real.name) == real.read_bytes(), real
                dump = shown.dumps / log.directory.parent.name / log.directory.name / f"{real.name}.txt"
                if real.suffix == ".log" and dump.exists() and log.topic not in INTERNAL_TOPICS:
                    heading, _, text = segments.read(f"{real.name}.txt").partition(b"\n")
                    assert heading == f"Dumping {real.name}".encode()
                    if (shown.name, log.topic) == DUMP_DIED:
                        text, _, last = text.rstrip(b"\n").rpartition(b"\n")
                        text += b"\n"
                        assert last.startswith(b"Damaged: the batch length 0 is below")
                    assert text == dump.read_bytes(), real
                    dumped += 1
    assert dumped > 50


def test_real_cat_and_getfattr_find_the_same(shown: Shown) -> None:
    mounted = shown.mounts["read_uncommitted"]
    for log in shown.logs:
        for record in log.uncommitted[:: len(log.uncommitted) // 3 + 1]:
            path = f"{log.topic}/{log.partition}/offset/{record.offset}"
            done = mounted.run_bytes(f"cat {path} {path}.jsonl; getfattr -h --only-values -n user.kafka.codec {path}")
            value, line = rendered(log, record, ""), rendered(log, record, ".jsonl")
            assert (done.returncode, done.stderr) == (0, b"")
            assert done.stdout == value + line + record.batch.codec.encode()
            assert mounted.run(f"stat -c '%s %Y' {path}").stdout.split()[0] == str(len(value))


def test_not_a_byte_of_the_store_has_changed(shown: Shown) -> None:
    for mounted in shown.mounts.values():
        assert mounted.end() == 0
        assert "Traceback" not in mounted.said()
    assert marks(shown.log_dirs[0].parent) == shown.before
