"""Records as files: names, forms, attributes, and what becomes of them when the log changes."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.options import TreeOptions
from storage.log.view import Isolation
from storage.record.encoding import BatchForm, batches_of_rows

if TYPE_CHECKING:
    from conftest import Views

    from storage.record.encoding import Row

GZIP = 1


def appended(lab: LogOnMemory, *rows: Row, form: BatchForm | None = None) -> None:
    (data,) = batches_of_rows(rows, form=form or BatchForm())
    lab.log.append_as_leader(data)


@pytest.fixture
def lab() -> LogOnMemory:
    lab = LogOnMemory()
    headers = (("h", b"1"), ("h", b"2"), ("none", None), ("späte", b"\xff"))
    appended(lab, (NOW_MS, b"key", b"zero", headers), (NOW_MS + 1, None, None, ()), (NOW_MS + 2, b"", b"", ()))
    appended(lab, (NOW_MS + 3, b"\xfe", b"three", ()))
    return lab


# Names and forms


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("0", b"zero"),
        ("0000", b"zero"),
        ("1", b""),
        ("2", b""),
        ("earliest", b"zero"),
        ("latest", b"three"),
        ("-1", b"three"),
        ("last-4", b"zero"),
        ("0.key", b"key"),
        ("1.key", b""),
        ("0.headers", "h: 1\nh: 2\nnone\nspäte: \\xff\n".encode()),
        ("3.hex", b"00000000  74 68 72 65 65                                    |three|\n00000005\n"),
    ],
)
def test_a_name_leads_to_a_record_in_a_form(views: Views, lab: LogOnMemory, name: str, data: bytes) -> None:
    for is_followed in (False, True):
        node = views.node(views.memory(lab, is_followed=is_followed), name)
        assert views.read_all(node.open()) == data
        assert node.attributes().size_bytes == len(data)
        assert node.open().read_soon(1, 2) == data[1:3]
        assert node.open().size_bytes() == len(data)


def test_envelopes(views: Views, lab: LogOnMemory) -> None:
    source = views.memory(lab)
    line = views.read(source, "3.jsonl")
    indented = json.loads(views.read(source, "3.json"))
    assert list(indented.pop("batch"))[:2] == ["baseOffset", "lastOffset"]
    assert json.loads(line) == indented
    assert line == (
        b'{"topic":"topic","partition":0,"offset":3,"timestamp":%d,"timestampType":"CreateTime",'
        b'"key_base64":"/g==","value":"three","headers":[]}\n' % (NOW_MS + 3)
    )


def test_a_batch_is_the_raw_bytes_of_the_whole(views: Views, lab: LogOnMemory) -> None:
    log = lab.files.read(f"{DIRECTORY}/00000000000000000000.log")
    first, second = lab.log.view.batches(0)
    source = views.memory(lab)
    assert views.read(source, "1.batch") == log[: first.size_bytes]
    assert views.read(source, "3.batch") == log[second.position : second.position + second.size_bytes]


@pytest.mark.parametrize("name", ["4", "last-5", "9223372036854775807"])
def test_what_is_not_there(views: Views, lab: LogOnMemory, name: str) -> None:
    with pytest.raises(NotThereError, match=r"/topic/0/offset/\S+: there is no such record"):
        views.node(views.memory(lab), name)


@pytest.mark.parametrize("name", ["earliest", "latest", "0", "-1"])
def test_nothing_is_in_an_empty_log(views: Views, name: str) -> None:
    with pytest.raises(NotThereError):
        views.node(views.memory(LogOnMemory()), name)


def test_what_is_below_the_start_is_not_there(views: Views, lab: LogOnMemory) -> None:
    lab.log.advance_start(2)
    source = views.memory(lab)
    with pytest.raises(NotThereError, match=r"there is no such record to be seen: the log starts at offset 2$"):
        views.node(source, "1")
    with pytest.raises(NotThereError, match=r"there is no such record to be seen: the log ends at offset 4$"):
        views.node(source, "4")
    assert views.read(source, "earliest.key") == views.read(source, "2.key")


def test_transactions_are_seen_as_the_isolation_says(views: Views) -> None:
    lab = LogOnMemory()
    lab.produce(b"aborted", 0, transactional=True)
    lab.end_transaction(committed=False)
    lab.produce(b"committed", 1, transactional=True)
    lab.end_transaction(committed=True)
    lab.produce(b"open", 2, transactional=True)
    uncommitted = views.memory(lab)
    committed = views.memory(lab, TreeOptions(isolation=Isolation.COMMITTED))
    assert views.read(uncommitted, "all") == b"aborted\ncommitted\nopen\n"
    assert views.read(committed, "all") == b"committed\n"
    assert views.read(committed, "latest") == views.read(committed, "earliest") == b"committed"
    for name in ("0", "1", "3", "4"):
        with pytest.raises(NotThereError):
            views.node(committed, name)
    for name in ("1", "3"):
        with pytest.raises(NotThereError):
            views.node(uncommitted, name)


# Attributes


def test_attributes(views: Views, lab: LogOnMemory) -> None:
    source = views.memory(lab)
    node = views.node(source, "1")
    attributes = node.attributes()
    assert (attributes.modified_ms, attributes.is_lasting, attributes.is_writable) == (NOW_MS + 1, True, False)
    assert attributes.access == source.access()
    for name in ("latest", "earliest", "-2"):
        assert not views.node(views.memory(lab), name).attributes().is_lasting


def test_a_record_without_a_time_is_as_old_as_its_segment(views: Views) -> None:
    """Until the segment is no longer written to, that may change."""
    lab = LogOnMemory()
    appended(lab, (-1, None, b"timeless", ()))
    status = lab.files.status(f"{DIRECTORY}/00000000000000000000.log")
    assert status is not None
    attributes = views.node(views.memory(lab), "0").attributes()
    assert (attributes.modified_ms, attributes.is_lasting) == (status.modified_ms, False)
    lab.log.roll()
    assert views.node(views.memory(lab), "0").attributes().is_lasting


def test_xattrs(views: Views, lab: LogOnMemory) -> None:
    source = views.memory(lab)
    place = {
        "user.kafka.timestamp_type": b"CreateTime",
        "user.kafka.codec": b"none",
        "user.kafka.segment": b"00000000000000000000.log",
        "user.kafka.position": b"0",
    }
    assert views.node(source, "0").xattrs() == place | {
        "user.kafka.key": b"key",
        "user.kafka.timestamp": b"%d" % NOW_MS,
        "user.kafka.header.h": b"2",
        "user.kafka.header.späte": b"\xff",
    }
    assert views.node(source, "1").xattrs() == place | {
        "user.kafka.null": b"1",
        "user.kafka.timestamp": b"%d" % (NOW_MS + 1),
    }
    assert views.node(source, "2").xattrs()["user.kafka.key"] == b""
    assert "user.kafka.null" not in views.node(source, "2").xattrs()


def test_what_does_not_fit_an_xattr_is_left_out(views: Views) -> None:
    lab = LogOnMemory({"segment.bytes": str(1 << 20)})
    fits = "user.kafka.header."
    headers = (
        ("x" * (255 - len(fits)), b"longest"),
        ("y" * (256 - len(fits)), b""),
        ("nul\0", b""),
        ("large", bytes(65537)),
        ("largest", bytes(65536)),
        *((f"many{number:0>200}", b"") for number in range(1000)),
    )
    form = BatchForm(producer_id=9, producer_epoch=0, base_sequence=0, codec=GZIP)
    appended(lab, (NOW_MS, bytes(65537), b"", headers), form=form)
    xattrs = views.node(views.memory(lab), "0").xattrs()
    assert "user.kafka.key" not in xattrs
    assert xattrs["user.kafka.codec"] == b"gzip"
    assert xattrs["user.kafka.producer_id"] == b"9"
    assert xattrs[f"{fits}{'x' * (255 - len(fits))}"] == b"longest"
    assert len(xattrs[f"{fits}largest"]) == 65536
    assert not {f"{fits}large", f"{fits}nul\0"} & set(xattrs)
    assert 60_000 < sum(len(name.encode()) + 1 for name in xattrs) <= 65536


# Damage


def damage(lab: LogOnMemory, position: int) -> None:
    path = f"{DIRECTORY}/00000000000000000000.log"
    data = lab.files.read(path)
    with lab.files.open_writing(path) as file:
        file.write_at(position, [bytes([data[position] ^ 1])])


def test_a_record_in_a_damaged_batch_is_an_error_that_is_logged_once(views, caplog):
    lab = LogOnMemory()
    for number in range(3):
        lab.log.append_as_leader(sent([(NOW_MS, b"%d" % number)] * 2))
    _, second, _ = lab.log.view.batches(0)
    damage(lab, second.position + second.size_bytes - 1)
    source = views.memory(lab)
    with caplog.at_level(logging.WARNING, "kafkafs"):
        for name in ("2", "3", "3.json", "2", "0..4", "all"):
            if ".." in name or name == "all":
                with pytest.raises(DamagedError):
                    views.read_all(views.node(source, name).open(), 1)
            else:
                with pytest.raises(DamagedError, match=rf"CRC.*position {second.position}, offset 2"):
                    views.node(source, name)
    (logged,) = caplog.records
    assert f"{DIRECTORY}/00000000000000000000.log, position {second.position}" in logged.getMessage()
    assert [views.read(source, name) for name in ("0", "1", "4", "5", "latest")] == [b"0", b"0", b"2", b"2", b"2"]
    with pytest.raises(NotThereError):
        views.node(source, "6")


# A log that changes


def test_a_node_keeps_what_it_found(views: Views, lab: LogOnMemory) -> None:
    node = views.node(views.memory(lab), "latest")
    lab.produce(b"later", 0)
    assert views.read_all(node.open()) == b"three"


def test_appending_rolling_and_removing_leave_the_identity_as_it_was(views: Views, lab: LogOnMemory) -> None:
    for is_followed in (False, True):
        source = views.memory(lab, is_followed=is_followed)
        before = views.node(source, "3").identity
        assert views.node(source, "0.json").identity == before
        lab.produce(b"more", int(is_followed))
        lab.log.roll()
        lab.produce(b"more", int(is_followed), producer_id=8)
        lab.log.advance_start(1 + is_followed)
        assert views.node(source, "latest").identity == before
        assert views.node(source, "3").identity == before


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_truncation_gives_another_identity_and_no_stale_record(views, lab, is_followed):
    source = views.memory(lab, is_followed=is_followed)
    old = views.node(source, "3")
    lab.log.truncate_to(3)
    (data,) = batches_of_rows([(NOW_MS, b"key", b"THREE", ())], form=BatchForm())
    lab.log.append_as_leader(data)
    new = views.node(source, "3", NOW_MS + 1000)
    assert views.read_all(new.open()) == b"THREE"
    assert new.identity != old.identity
    assert views.read_all(old.open()) == b"three"


def test_a_compaction_gives_another_identity(views: Views, lab: LogOnMemory) -> None:
    lab.log.roll()
    lab.produce(b"last", 0)
    source = views.memory(lab, is_followed=True)
    before = views.node(source, "3")
    path = f"{DIRECTORY}/00000000000000000000.log"
    data = lab.files.read(path)
    with lab.files.open_writing(f"{path}.swap", create=True) as file:
        file.write_at(0, [data[next(lab.log.view.batches(0)).size_bytes :]])
    lab.files.rename(path, f"{path}.deleted")
    lab.files.rename(f"{path}.swap", path)
    after = views.node(source, "3", NOW_MS + 1000)
    assert views.read_all(after.open()) == b"three"
    assert after.identity != before.identity
    with pytest.raises(NotThereError):
        views.node(source, "0", NOW_MS + 1000)


def test_a_moment_long_a_followed_log_is_not_looked_at_for_what_is_known(views, lab, monkeypatch):
    source = views.memory(lab, is_followed=True)
    views.node(source, "3")
    looks = []
    monkeypatch.setattr(type(source.log), "view", property(lambda log: looks.append(log) or log._newest()))
    views.node(source, "2", NOW_MS + 200)
    assert not looks
    views.node(source, "2", NOW_MS + 300)
    assert len(looks) == 1
    with pytest.raises(NotThereError):
        views.node(source, "4", NOW_MS + 310)
    assert len(looks) == 2
    lab.produce(b"four", 0)
    assert views.read_all(views.node(source, "4", NOW_MS + 320).open()) == b"four"


def test_a_batch_is_decoded_once_for_all_of_its_records(views, lab, monkeypatch):
    source = views.memory(lab)
    views.node(source, "0")
    monkeypatch.setattr("kafkafs.tree.visible_log.batches_past_damage", None)
    assert views.read_all(views.node(source, "2.key").open()) == b""
    assert source.batches.size_bytes > 0


@pytest.mark.golden
def test_every_form_of_real_records(views: Views) -> None:
    """Forms are checked elsewhere; here that each record has them all, and sizes that are right."""
    checked = 0
    for directory in views.partitions("kafka-3.9/kafka-3.9")[::4]:
        source = views.follow(directory)
        for each in views.scan(directory, source.visible().view)[::5]:
            checked += check_forms(views, source, each)
    assert checked > 50


def check_forms(views, source, scanned) -> int:
    record = scanned.records[-1]
    assert views.read(source, f"{record.offset}") == (record.value or b"")
    assert views.read(source, f"{record.offset}.key") == (record.key or b"")
    batch = scanned.batch
    raw = (source.directory / scanned.segment_name).read_bytes()[batch.position : batch.position + batch.size_bytes]
    assert views.read(source, f"{record.offset}.batch") == raw
    envelope = json.loads(views.read(source, f"{record.offset}.jsonl"))
    assert (envelope["offset"], envelope["timestamp"]) == (record.offset, record.timestamp)
    xattrs = views.node(source, f"{record.offset}").xattrs()
    assert xattrs["user.kafka.segment"] == scanned.segment_name.encode()
    assert int(xattrs["user.kafka.position"]) == batch.position
    assert xattrs["user.kafka.codec"].decode() == batch.codec.label
    assert ("user.kafka.null" in xattrs) == (record.value is None)
    assert xattrs.get("user.kafka.key") == record.key
    return 1
