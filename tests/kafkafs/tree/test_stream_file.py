"""Streams of logs that live: sizes are exact, positions stay, and what is gone is an error."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, PRODUCER_EXPIRATION_MS, LogOnMemory, StandingClock, sent

from kafkafs.content import CountedLog, CountedText, SizeCache
from kafkafs.locator.paths import PartitionFilePath, PartitionPath, TopicPath
from kafkafs.locator.views import View
from kafkafs.render.envelope import Envelope
from kafkafs.tree import rendered_run, stream_file
from kafkafs.tree.errors import DamagedError, GoneError
from kafkafs.tree.log_source import LogSource
from kafkafs.tree.options import Damage, TreeOptions
from kafkafs.tree.rights import Rights
from kafkafs.tree.stream_file import StreamFile
from storage.log.followed_log import FollowedLog
from storage.log.view import Isolation
from storage.log_dir.log_dir import LogDir
from storage.record import BatchForm, Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.log.log import Log

FORMS = (View.VALUES, View.KEYS, View.RECORDS)
CACHE = Path("/cache")


class Streams(LogOnMemory):
    """A log in memory, and the streams of it as its writer or somebody else shows them."""

    def source(self, *, followed: bool = False, options: TreeOptions = TreeOptions()) -> LogSource:  # noqa: B008 -- frozen
        log: Log | FollowedLog = self.log
        if followed:
            log = FollowedLog(
                self.clock, self.files.directory(DIRECTORY), self.config, producer_expiration_ms=PRODUCER_EXPIRATION_MS
            )
        return LogSource(
            PartitionPath(TopicPath("topic"), 0),
            "topic",
            0,
            Path(DIRECTORY),
            log,
            options,
            files=self.files,
            log_dir=(log_dir := LogDir(self.files.directory("/"))),
            identity=5,
            writable=None,
            rights=Rights([log_dir], is_shared=False),
        )

    def append(self, *values: bytes | None, codec: Codec = Codec.NONE) -> None:
        for value in values:
            key = None if value is None else value[:3]
            self.log.append_as_leader(sent([(0, value)], BatchForm(codec=codec), key=key), leader_epoch=1)  # type: ignore[list-item]


def stream(source: LogSource, form: View = View.VALUES, sizes: SizeCache | None = None) -> StreamFile:
    return StreamFile(
        PartitionFilePath(source.path, form), source, SizeCache(source.files, None) if sizes is None else sizes
    )


def expected(source: LogSource, form: View = View.VALUES) -> bytes:
    visible = source.visible().fresh_copy()
    records = visible.records(visible.start_offset, visible.end_offset)
    if form is View.VALUES:
        return b"".join((record.value or b"") + b"\n" for record in records)
    if form is View.KEYS:
        return b"".join((record.key or b"") + b"\n" for record in records)
    return b"".join(map(Envelope(source.topic, source.partition).line, records))


def read_all(file: StreamFile, pieces: Callable[[], int] = lambda: 128 << 10) -> bytes:
    reading = file.open()
    found = bytearray()
    while part := bytes(reading.read(len(found), pieces())):
        found += part
    reading.close()
    return bytes(found)


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_sizes_follow_a_log_that_grows_rolls_and_loses_its_beginning(
    streams: Streams, form: View, *, followed: bool
) -> None:
    source, rng = streams.source(followed=followed), random.Random(3)
    sizes = SizeCache(streams.files, None)
    opened = stream(source, form, sizes)
    reading, copy = opened.open(), bytearray()
    for step in range(120):
        streams.append(*[rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(4))], None)
        if step % 7 == 0:
            streams.append(b"x" * 900, codec=Codec.LZ4)
        if step == 60:
            streams.log.advance_start(streams.log.view.end_offset // 3)
            source.log.checkpointed_start = streams.log.view.start_offset  # type: ignore[union-attr]
        now = stream(source, form, sizes)
        whole = expected(source, form)
        assert now.attributes().size_bytes == len(whole)
        assert read_all(now, lambda: rng.choice([7, 300, 5000])) == whole
        size = reading.size_bytes()
        assert size is not None
        copy += bytes(reading.read(len(copy), size))
        assert len(copy) == size == opened.attributes().size_bytes
        assert copy.endswith(whole)
        assert (now.identity == opened.identity) is (step < 60)
    assert len(streams.log.view.segments) > 5
    # What lies before the log's start is there as long as its segments are, and the rest at the same place.
    again = opened.open()
    assert bytes(again.read(0, 1 << 20)) == copy
    assert bytes(again.read(len(copy) - len(whole), 1 << 20)) == whole


@pytest.mark.parametrize("followed", [False, True])
def test_truncated_records_are_gone_and_counted_again(streams: Streams, *, followed: bool) -> None:
    source = streams.source(followed=followed)
    sizes = SizeCache(streams.files, None)
    streams.append(*[b"%d" % number * 50 for number in range(60)])
    opened = stream(source, sizes=sizes)
    reading, before = opened.open(), expected(source)
    assert bytes(reading.read(0, 1 << 20)) == before
    streams.log.truncate_to(31)
    # As many bytes as before, so that neither size nor position shows it.
    streams.append(*[b"%d" % number * 50 for number in range(70, 99)])
    now = stream(source, sizes=sizes)
    assert now.identity != opened.identity
    assert now.attributes().size_bytes == len(expected(source)) == len(read_all(now))
    assert read_all(now) == expected(source) != before
    with pytest.raises(GoneError):
        opened.open().read(len(before) - 200, 100)


def test_isolation_hides_what_is_open_and_what_was_aborted(streams: Streams) -> None:
    options = TreeOptions(isolation=Isolation.COMMITTED)
    sizes = SizeCache(streams.files, None)
    for followed in (False, True):
        source = streams.source(followed=followed, options=options)
        for round_ in range(40):
            producer_id = 100 * followed + round_
            streams.append(b"plain")
            streams.produce(b"in transaction %d" % round_, 0, producer_id=producer_id, transactional=True)
            held = stream(source, sizes=sizes)
            assert held.attributes().size_bytes == len(expected(source))
            streams.append(b"behind")
            assert not read_all(held).endswith(b"behind\n")
            streams.end_transaction(producer_id, committed=round_ % 3 == 0)
            assert held.attributes().size_bytes == len(expected(source))
            assert read_all(held) == expected(source)
        sizes = SizeCache(streams.files, None)
    assert expected(source).count(b"in transaction") == 28


def test_a_start_within_a_batch_begins_there(streams: Streams) -> None:
    rows = [(0, b"value %d" % number) for number in range(40)]
    for codec in (Codec.NONE, Codec.ZSTD):
        streams.log.append_as_leader(sent(rows, BatchForm(codec=codec)), leader_epoch=1)
    source = streams.source()
    sizes = SizeCache(streams.files, None)
    for start in (1, 17, 40, 41, 79, 80):
        streams.log.advance_start(start)
        for form in FORMS:
            now = stream(source, form, sizes)
            whole = expected(source, form)
            assert (now.attributes().size_bytes, read_all(now)) == (len(whole), whole)
            reading = now.open()
            assert all(bytes(reading.read(at, 9)) == whole[at : at + 9] for at in reversed(range(0, len(whole), 31)))


@pytest.mark.parametrize("form", FORMS)
def test_damage_ends_a_stream_after_everything_before_it_or_is_skipped(streams: Streams, form: View) -> None:
    streams.append(*[b"%d" % number * 40 for number in range(30)])
    streams.log.roll()
    streams.append(b"last")
    streams.log.close()
    whole = expected(streams.source(), form)
    path = f"{DIRECTORY}/{0:020d}.log"
    data = bytearray(streams.files.read(path))
    data[len(data) // 2] ^= 1
    with streams.files.open_writing(path) as file:
        file.write_at(0, [data])
    stopped, skipped = (
        streams.source(followed=True),
        streams.source(followed=True, options=TreeOptions(damage=Damage.SKIP)),
    )
    node = stream(stopped, form)
    assert node.attributes().size_bytes is None
    assert node.xattrs() == {"user.kafkafs.size": b"damaged"}
    reading = node.open()
    assert reading.size_bytes() is None
    before = bytes(reading.read(0, 1 << 20))
    assert before
    assert whole.startswith(before)
    for _ in range(2):
        with pytest.raises(DamagedError):
            reading.read(len(before), 100)
    with pytest.raises(DamagedError):
        node.open().read(len(before) + 5000, 1)
    node = stream(skipped, form)
    rest = read_all(node)
    assert node.attributes().size_bytes == len(rest) == len(expected(skipped, form))
    assert node.xattrs() == {"user.kafkafs.skipped": b"1"}
    assert rest.startswith(before)
    assert rest.endswith(whole.splitlines(keepends=True)[-1])


def test_what_is_too_much_to_be_counted_at_once_is_unknown_until_somebody_opens_it(streams: Streams) -> None:
    streams.append(*[b"v" * 100] * 50)
    source = streams.source(options=TreeOptions(counted_bytes_max=1000))
    sizes = SizeCache(streams.files, CACHE)
    node = stream(source, sizes=sizes)
    assert node.attributes().size_bytes is None
    assert node.xattrs() == {"user.kafkafs.size": b"pending"}
    reading = node.open()
    assert reading.size_bytes() is None or reading.size_bytes() == 50 * 101
    assert bytes(reading.read(0, 1 << 20)) == b"v" * 100 + (b"\n" + b"v" * 100) * 49 + b"\n"
    assert reading.size_bytes() == 50 * 101, "what was read was counted"
    sizes.close()
    fresh = stream(source, sizes=SizeCache(streams.files, None))
    fresh.warm(lambda: False)
    assert fresh.attributes().size_bytes == 50 * 101
    assert fresh.xattrs() == {}


class NeverCounting(SizeCache):
    """Leaves the counting to readers."""

    def begin(self, counted: CountedLog | CountedText) -> None:
        """Do nothing."""


def test_a_program_that_seeks_to_the_end_gets_the_size(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    streams.append(*[b"v" * 100] * 50)
    source = streams.source(options=TreeOptions(counted_bytes_max=1000))
    sought = stream(source, sizes=NeverCounting(streams.files, None)).open()
    assert [sought.size_bytes() for _ in range(3)] == [None, None, 50 * 101]
    assert bytes(sought.read(50 * 101 - 5, 100)) == b"vvvv\n"
    monkeypatch.setattr(rendered_run, "AHEAD_BYTES", 0)  # another thread would count the log while it goes ahead
    read = stream(streams.source(options=source.options), sizes=NeverCounting(streams.files, None)).open()
    read.read(0, 10)
    assert [read.size_bytes() for _ in range(3)] == [None, None, None]
    monkeypatch.setattr(stream_file, "SEEK_WAIT_S", -1.0)  # the log is longer than can be counted while it waits
    hasty = stream(streams.source(options=source.options), sizes=NeverCounting(streams.files, None)).open()
    assert [hasty.size_bytes() for _ in range(4)] == [None] * 4


def test_what_was_counted_is_kept_for_the_next_process(streams: Streams) -> None:
    for round_ in range(3):
        streams.append(*[b"%d" % round_ * 200] * 30)
        sizes = SizeCache(streams.files, CACHE)
        node = stream(streams.source(options=TreeOptions(counted_bytes_max=0)), sizes=sizes)
        assert node.attributes().size_bytes is None
        node.warm(lambda: False)
        sizes.close()
        before = streams.files.steps
        sizes = SizeCache(streams.files, CACHE)
        node = stream(streams.source(options=TreeOptions(counted_bytes_max=0)), sizes=sizes)
        assert node.attributes().size_bytes == (round_ + 1) * 30 * 201
        assert read_all(node) == expected(streams.source())
        assert streams.files.steps == before, "reading writes nothing"


def test_reading_soon_gives_what_is_there(streams: Streams) -> None:
    streams.append(*[b"v" * 100] * 100)
    reading = stream(streams.source()).open()
    assert reading.read_soon(0, 10) is None
    assert bytes(reading.read(0, 10)) == b"v" * 10
    soon = reading.read_soon(10, 500)
    assert soon is not None
    assert bytes(soon) == bytes(reading.read(10, 500))
    reading.close()
    assert reading.read_soon(10, 500) is None


def test_an_empty_log_is_an_empty_file_that_grows() -> None:
    streams = Streams(clock=StandingClock())
    for followed in (False, True):
        node = stream(streams.source(followed=followed))
        assert node.attributes().size_bytes == 0
        reading = node.open()
        assert bytes(reading.read(0, 10)) == b""
        streams.append(b"first")
        assert bytes(reading.read(0, 10)) == b"first\n"
        streams.log.truncate_to(0)
