"""Runs of records as files: what they hold, how long they are, and what stops them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from kafkafs.content.held_files import HeldFiles
from kafkafs.locator.formats import Format
from kafkafs.render.record_renderer import RecordRenderer
from kafkafs.tree.errors import DamagedError, GoneError
from kafkafs.tree.options import Damage, TreeOptions
from storage.log.view import Isolation
from storage.record.encoding import BatchForm, batches_of_rows

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource
    from kafkafs.tree.node import Reading

WHOLE = (
    "kafka-2.2/kafka-2.2",
    "kafka-3.9/kafka-3.9",
    "kafka-3.9-compaction/kafka-3.9-compaction-after",
)
LARGE = {"segment.bytes": str(1 << 20), "segment.index.bytes": "1200", "index.interval.bytes": "4096"}


def filled(settings: dict[str, str] | None = None, *, batches: int = 40, size_bytes: int = 50) -> LogOnMemory:
    lab = LogOnMemory() if settings is None else LogOnMemory(settings)
    rng = random.Random(1)
    for number in range(batches):
        values = [rng.randbytes(rng.randrange(size_bytes)) for _ in range(rng.randrange(1, 5))]
        rows = [(NOW_MS + number * 1000, b"%d" % number, value, (("h", value[:3]),)) for value in values]
        (data,) = batches_of_rows(rows, form=BatchForm(codec=number % 5))
        lab.log.append_as_leader(data)
    return lab


def expected(source: LogSource, lab: LogOnMemory, start: int, end: int, form: Format) -> bytes:
    """The run, made of all batches of the log one after another."""
    view = lab.log.view
    batches = [batch for segment in view.segments for batch in segment.batches()]
    if form is Format.BATCH:
        held = [each for each in batches if each.last_offset >= start and each.base_offset < end and start < end]
        return b"".join(bytes(batch.view(0, batch.size_bytes)) for batch in held)
    records = [record for batch in batches for record in batch.records() if start <= record.offset < end]
    return b"".join(RecordRenderer(form, source.topic, source.partition).run(records))


@pytest.mark.parametrize("form", Format)
def test_a_range_has_its_records_and_no_others(views: Views, form: Format) -> None:
    lab = filled()
    source = views.memory(lab)
    last = lab.log.view.end_offset
    for name, start, end in [
        ("all", 0, last),
        ("10..20", 10, 20),
        ("..7", 0, 7),
        ("30..", 30, last),
        ("20..10", 20, 20),
        ("last-12..", last - 12, last),
        ("-12..-2", last - 12, last - 2),
        ("latest..", last - 1, last),
        ("..latest", 0, last),
        ("..last-1", 0, last - 1),
        ("40..1000000", 40, last),
        ("1000000..", last, last),
    ]:
        assert views.read(source, f"{name}{form}") == expected(source, lab, start, end, form), name


@pytest.fixture(scope="module")
def large(views: Views) -> tuple[LogOnMemory, LogSource]:
    """Several megabytes, in several segments, some of it in batches larger than what is made at a time."""
    lab = filled(LARGE, batches=150, size_bytes=2000)
    for size_bytes in (300_000, 10, 700_000):
        lab.log.append_as_leader(sent(bytes([size_bytes % 251]) * size_bytes))
    lab.log.append_as_leader(sent([(NOW_MS, b"x" * 3000)] * 200))
    lab.log.append_as_leader(sent(b"last"))
    return lab, views.memory(lab)


@pytest.mark.property
@given(
    bounds=st.tuples(st.integers(0, 700), st.integers(0, 700)),
    form=st.sampled_from(Format),
    rng=st.randoms(use_true_random=False),
    counted_bytes_max=st.sampled_from([0, 10_000, 1 << 30]),
)
def test_pieces_in_any_order_make_up_the_whole(views, large, bounds, form, rng, counted_bytes_max):
    lab, _ = large
    source = views.memory(lab, TreeOptions(counted_bytes_max=counted_bytes_max))
    start, end = sorted(min(bound, lab.log.view.end_offset) for bound in bounds)
    whole = expected(source, lab, start, end, form)
    reading = views.node(source, f"{start}..{end}{form}").open()
    assert reading.size_bytes() in ((None, len(whole)) if counted_bytes_max < 1 << 30 else (len(whole),))
    position = 0
    for _ in range(12):
        position = rng.choice([position, rng.randrange(len(whole) + 10)])
        size_bytes = rng.choice([1, 100, 4096, 131_072, 1 << 20])
        soon = reading.read_soon(position, size_bytes)
        piece = bytes(reading.read(position, size_bytes))
        assert piece == whole[position : position + size_bytes]
        assert soon is None or bytes(soon) == piece
        position += len(piece)
    reading.close()


def test_reading_on_makes_everything_once(views, large, monkeypatch):
    _, source = large
    node = views.node(source, "all")
    whole = views.read_all(node.open())
    made = []
    run_type = type(node.open()._run)
    original = run_type.pieces_from
    monkeypatch.setattr(
        run_type,
        "pieces_from",
        lambda run, position: (made.append(piece[0]) or piece for piece in original(run, position)),
    )
    assert views.read_all(node.open(), 131_072) == whole
    assert len(made) == len(set(made))
    reading = node.open()
    made.clear()
    for position in (len(whole) - 5, len(whole) // 2, 5):  # where something has been made before
        assert bytes(reading.read(position, 4)) == whole[position : position + 4]
    reading.close()


# Sizes


def test_the_size_is_exact_or_unknown_until_it_was_read(views: Views) -> None:
    lab = filled()
    log_bytes = lab.log.view.end_position + sum(segment.size_bytes for segment in lab.log.view.segments[:-1])
    whole = views.read(views.memory(lab), "all")
    source = views.memory(lab, TreeOptions(counted_bytes_max=log_bytes - 1))
    node = views.node(source, "all")
    assert node.attributes().size_bytes is None
    assert node.xattrs() == {"user.kafkafs.size": b"pending"}
    reading = node.open()
    assert reading.size_bytes() is None
    assert views.read_all(reading) == whole
    assert reading.size_bytes() == len(whole)
    assert node.attributes().size_bytes == len(whole)
    assert node.xattrs() == {}
    assert node.open().size_bytes() == len(whole)
    some = views.node(source, "5..9")
    assert some.attributes().size_bytes == len(views.read_all(some.open()))
    assert views.node(views.memory(lab, TreeOptions(counted_bytes_max=log_bytes)), "all").attributes().size_bytes


def test_what_was_counted_is_not_counted_again(views, monkeypatch):
    source = views.memory(filled())
    size_bytes = views.node(source, "3..30").attributes().size_bytes
    monkeypatch.setattr("kafkafs.tree.record_run.RecordRun.count", None)
    assert views.node(source, "3..30").attributes().size_bytes == size_bytes


def test_an_open_end_stays_where_it_was(views: Views) -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent(b"one"))
    node = views.node(views.memory(lab), "0..")
    before = node.open()
    lab.log.append_as_leader(sent(b"two"))
    lab.log.roll()
    lab.log.append_as_leader(sent(b"three"))
    assert node.attributes().size_bytes == len(b"one\ntwo\nthree\n")
    after = node.open()
    assert views.read_all(before) == b"one\n"
    assert views.read_all(after) == b"one\ntwo\nthree\n"


def test_an_empty_range(views: Views) -> None:
    node = views.node(views.memory(LogOnMemory()), "all")
    attributes = node.attributes()
    assert (attributes.size_bytes, attributes.is_lasting) == (0, False)
    assert views.read_all(node.open()) == b""
    assert bytes(node.open().read_soon(7, 1) or b"") == b""


# Times


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("1700000001000..1700000003000", b"1\n9\n2\n"),
        ("1700000000000..1700000000001", b"0\n"),
        ("1700000002000..", b"9\n2\n3\n"),
        ("..1700000001001", b"0\n1\n"),
        ("1700000003001..", b""),
        ("1700000002000..1700000001000", b""),
        ("-2s..", b"9\n2\n3\n"),
        ("-3s..-2s", b"1\n"),
        ("2023-11-14T22:13:20..2023-11-14T22:13:21.5Z.key", b"key\nkey\n"),
    ],
)
def test_a_range_of_times(views: Views, name: str, data: bytes) -> None:
    """The second 9 is out of order: it is later than the record after it."""
    lab = LogOnMemory()
    for time_ms, value in ((0, b"0"), (1000, b"1"), (2500, b"9"), (2000, b"2"), (3000, b"3")):
        lab.log.append_as_leader(sent([(1_700_000_000_000 + time_ms, value)]))
    node = views.by_time(views.memory(lab), name, 1_700_000_004_000)
    assert views.read_all(node.open()) == data
    assert node.attributes().size_bytes == len(data)


def test_a_range_of_times_that_is_open_at_the_start_has_what_has_no_time(views: Views) -> None:
    lab = LogOnMemory()
    lab.log.append_as_leader(sent([(-1, b"timeless")]))
    lab.log.append_as_leader(sent([(NOW_MS, b"timed")]))
    assert views.read_all(views.by_time(views.memory(lab), f"..{NOW_MS + 1}").open()) == b"timeless\ntimed\n"


# Damage


def damaged_lab() -> tuple[LogOnMemory, int]:
    """Nine records, three a batch, whose second batch is damaged; and its place."""
    lab = LogOnMemory()
    for number in range(3):
        lab.log.append_as_leader(sent([(NOW_MS, b"%d" % (number * 3 + each)) for each in range(3)]))
    _, second, _ = lab.log.view.batches(0)
    path = f"{DIRECTORY}/00000000000000000000.log"
    with lab.files.open_writing(path) as file:
        file.write_at(second.position + second.size_bytes - 1, [b"\xff"])
    return lab, second.position


def read_until_damage(reading: Reading, size_bytes: int) -> bytes:
    data = b""
    while True:
        try:
            piece = bytes(reading.read(len(data), size_bytes))
        except DamagedError:
            break
        assert piece  # an end would be a lie
        data += piece
    with pytest.raises(DamagedError):
        reading.read(len(data), 1)
    return data


@pytest.mark.parametrize("size_bytes", [1, 4, 4096])
@pytest.mark.parametrize("counted_bytes_max", [0, 1 << 20])
def test_everything_before_damage_is_given_and_then_an_error(views, size_bytes, counted_bytes_max):
    lab, position = damaged_lab()
    source = views.memory(lab, TreeOptions(counted_bytes_max=counted_bytes_max))
    node = views.node(source, "all")
    assert node.attributes().size_bytes is None
    assert node.open().size_bytes() is None
    reading = node.open()
    assert read_until_damage(reading, size_bytes) == b"0\n1\n2\n"
    assert bytes(reading.read(1, 3)) == b"\n1\n"
    assert reading.size_bytes() is None
    assert node.xattrs() == {"user.kafkafs.size": b"damaged"}
    assert read_until_damage(views.node(source, "4..").open(), size_bytes) == b""
    assert views.read(source, "6..") == b"6\n7\n8\n"
    assert views.read(source, "..3") == b"0\n1\n2\n"
    assert len(views.read(source, "1..3.batch")) == position


def test_damage_may_be_skipped(views: Views) -> None:
    lab, _ = damaged_lab()
    source = views.memory(lab, TreeOptions(damage=Damage.SKIP))
    assert views.read(source, "all") == b"0\n1\n2\n6\n7\n8\n"
    assert views.node(source, "all").xattrs() == {"user.kafkafs.skipped": b"1"}
    assert views.node(source, "6..").xattrs() == {"user.kafkafs.skipped": b"0"}
    assert views.read(source, "last-5..") == b"1\n2\n6\n7\n8\n"
    with pytest.raises(DamagedError):
        views.node(source, "4")


def test_damage_within_the_last_so_many_keeps_them_from_being_counted(views: Views) -> None:
    lab, _ = damaged_lab()
    source = views.memory(lab)
    assert views.read(source, "last-3..") == b"6\n7\n8\n"
    with pytest.raises(DamagedError):
        views.node(source, "last-4..").open()


def test_damage_that_comes_once_the_size_is_known(views: Views) -> None:
    """Nothing short is given, which the kernel would fill up with zeros."""
    lab = filled(batches=3)
    node = views.node(views.memory(lab), "all")
    reading = node.open()
    size_bytes = reading.size_bytes()
    assert size_bytes
    *_, last = lab.log.view.batches(0)
    with lab.files.open_writing(f"{DIRECTORY}/00000000000000000000.log") as file:
        file.write_at(last.position + last.size_bytes - 1, [b"\xff"])
    with pytest.raises(DamagedError):
        reading.read(0, size_bytes)
    assert len(memoryview(reading.read(0, 4))) == 4


# What goes away


@pytest.mark.parametrize("counted_bytes_max", [0, 1 << 20])
def test_what_is_removed_is_gone_for_who_reads_it(views, counted_bytes_max):
    lab = LogOnMemory()
    for number in range(4):
        lab.log.append_as_leader(sent(b"%d" % number))
        lab.log.roll()
    source = views.memory(lab, TreeOptions(counted_bytes_max=counted_bytes_max), is_followed=True)
    reading = views.node(source, "all").open()
    assert bytes(reading.read(0, 1)) == b"0"
    reading = views.node(source, "all", held=HeldFiles(removed_bytes_max=0)).open()
    other = views.memory(lab, TreeOptions(counted_bytes_max=counted_bytes_max), is_followed=True)
    held = views.node(other, "all").open()
    for name in lab.files.names(DIRECTORY):
        if name.startswith(("00000000000000000000.", "00000000000000000001.")):
            lab.files.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(GoneError):
        reading.read(0, 100)
    assert bytes(held.read(0, 100)) == b"0\n1\n2\n3\n"
    held._rendered.close()  # as if enough had been read for the beginning to be forgotten
    assert bytes(held.read(0, 2)) == b"0\n"
    held.close()
    with pytest.raises(GoneError):
        held.read(0, 2)
    assert views.read(source, "all") == b"2\n3\n"
    assert views.read(source, "0..3") == b"2\n"


def test_what_is_replaced_is_gone_too(views: Views) -> None:
    """A compaction puts another file in its place; what is known of the old one means nothing in there."""
    lab = filled(batches=30)
    lab.log.roll()
    source = views.memory(lab, TreeOptions(counted_bytes_max=0), is_followed=True)
    node = views.node(source, "all", held=HeldFiles(removed_bytes_max=0))
    other = views.memory(lab, TreeOptions(counted_bytes_max=0), is_followed=True)
    reading, held = node.open(), views.node(other, "all").open()
    whole = views.read_all(node.open())
    assert bytes(reading.read(0, 10)) == whole[:10]
    path = f"{DIRECTORY}/00000000000000000000.log"
    first = next(lab.log.view.batches(0))
    cleaned = lab.files.read(path)[first.size_bytes :]
    with lab.files.open_writing(f"{path}.swap", create=True) as file:
        file.write_at(0, [cleaned])
    lab.files.rename(path, f"{path}.deleted")
    lab.files.rename(f"{path}.swap", path)
    reading._rendered.close()  # as if enough had been read for the beginning to be forgotten
    with pytest.raises(GoneError):
        reading.read(0, 10)
    assert views.read_all(held) == whole, "within the budget it is read as it was"
    assert views.read_all(node.open()) == expected(source, lab, 0, lab.log.view.end_offset, Format.VALUE)


# Real logs


@pytest.mark.golden
@pytest.mark.parametrize("isolation", Isolation)
@pytest.mark.parametrize("name", WHOLE)
def test_every_form_of_real_logs(views: Views, name: str, isolation: Isolation) -> None:
    forms = 0
    for directory in views.partitions(name):
        source = views.follow(directory, TreeOptions(isolation=isolation))
        view = source.visible().view
        scanned = views.scan(directory, view, is_committed=isolation is Isolation.COMMITTED)
        records = [record for each in scanned for record in each.records]
        rng = random.Random(str(directory.name))
        for form in Format:
            start, end = sorted(rng.randint(view.start_offset, view.end_offset) for _ in range(2))
            if form is Format.BATCH:
                raw = [
                    bytes(each.batch.view(0, each.batch.size_bytes))
                    for each in scanned
                    if any(start <= record.offset < end for record in each.records)
                ]
                data = b"".join(raw)
            else:
                asked = [record for record in records if start <= record.offset < end]
                data = b"".join(RecordRenderer(form, source.topic, source.partition).run(asked))
            assert views.read(source, f"{start}..{end}{form}") == data
            forms += bool(data)
        last = [each.value or b"" for each in records[-rng.randint(1, 200) :]]
        if last:
            assert views.read(source, f"last-{len(last)}..") == b"".join(value + b"\n" for value in last)
    assert forms >= 4
