"""What the indented envelope of one record says of its batch, and how long that holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from damaged_logs import DamagedLog
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from kafkafs.render.envelope_reading import rows_of_envelopes
from kafkafs.tree.options import TreeOptions
from storage.record.compression import Codec
from storage.record.encoding import BatchForm
from storage.segment.names import Kind

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.log_source import LogSource

SEGMENT = "00000000000000000000.log"


def batch_of(views: Views, source: LogSource, name: str) -> dict[str, Any]:
    batch = json.loads(views.read(source, name))["batch"]
    assert isinstance(batch, dict)
    return batch


@pytest.fixture(params=[False, True], ids=["writer", "follower"])
def is_followed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_batch_and_the_record_in_it(views: Views, *, is_followed: bool) -> None:
    lab = LogOnMemory()
    lab.produce(b"first", 0)
    form = BatchForm(codec=Codec.GZIP, producer_id=7, producer_epoch=0, base_sequence=1)
    lab.log.append_as_leader(sent([(NOW_MS + 5, b"a"), (NOW_MS + 9, b"b"), (NOW_MS, b"c")], form), leader_epoch=3)
    _, batch = lab.log.view.batches(0)
    assert batch_of(views, views.memory(lab, is_followed=is_followed), "2.json") == {
        "baseOffset": 1,
        "lastOffset": 3,
        "count": 3,
        "producerId": 7,
        "producerEpoch": 0,
        "baseSequence": 1,
        "lastSequence": 3,
        "sequence": 2,
        "partitionLeaderEpoch": 3,
        "isTransactional": False,
        "isControl": False,
        "deleteHorizonMs": None,
        "transaction": None,
        "timestampType": "CreateTime",
        "maxTimestamp": NOW_MS + 9,
        "magic": 2,
        "codec": "gzip",
        "crc": batch.crc,
        "segment": SEGMENT,
        "position": batch.position,
        "size": batch.size_bytes,
    }


def test_only_the_indented_envelope_of_one_record_has_it(views: Views) -> None:
    lab = LogOnMemory()
    lab.produce(b"v", 0)
    source = views.memory(lab)
    *envelope, last = json.loads(views.read(source, "0.json"))
    assert last == "batch"
    for name in ("0.jsonl", "all.json", "0..1.json", "all.jsonl"):
        assert list(json.loads(views.read(source, name))) == envelope


def test_what_it_says_is_passed_over_where_it_is_appended(views: Views) -> None:
    lab = LogOnMemory()
    lab.produce(b"v", 0)
    data = views.read(views.memory(lab), "0.json")
    line = json.dumps(json.loads(data)).encode()
    assert rows_of_envelopes(line, timestamp_ms=0) == [(NOW_MS, b"key", b"v", [])]


# Transactions


def test_how_transactions_ended(views: Views, *, is_followed: bool) -> None:
    """One that is open holds the last stable offset back; those that begin after it are decided all the same."""
    lab = LogOnMemory()
    lab.produce(b"committed", 0, transactional=True)
    lab.end_transaction(committed=True)
    lab.produce(b"aborted", 1, transactional=True)
    lab.end_transaction(committed=False)
    lab.produce(b"open", 0, producer_id=8, transactional=True)
    lab.produce(b"aborted later", 2, transactional=True)
    lab.end_transaction(committed=False)
    lab.produce(b"committed later", 3, transactional=True)
    lab.end_transaction(committed=True)
    lab.produce(b"open as well", 4, transactional=True)
    source = views.memory(lab, is_followed=is_followed)
    found = {offset: batch_of(views, source, f"{offset}.json")["transaction"] for offset in (0, 2, 4, 5, 7, 9)}
    assert found == {0: "committed", 2: "aborted", 4: "open", 5: "aborted", 7: "committed", 9: "open"}


def test_what_may_change_is_looked_at_again(views: Views, *, is_followed: bool) -> None:
    lab = LogOnMemory()
    lab.produce(b"v", 0, transactional=True)
    source = views.memory(lab, is_followed=is_followed)
    assert not views.node(source, "0.json").attributes().is_lasting
    assert batch_of(views, source, "0.json")["transaction"] == "open"
    lab.end_transaction(committed=True)
    assert batch_of(views, source, "0.json")["transaction"] == "committed"
    assert views.node(source, "0.json").attributes().is_lasting
    assert not views.node(source, "latest.json").attributes().is_lasting


def test_damage_decides_nothing(views: Views) -> None:
    """What ended the transaction may be there, in a batch that is no longer what was written."""
    lab = DamagedLog()
    lab.log = lab.open()
    opened = lab.produce(b"v", 0, producer_id=9, transactional=True)
    marker = lab.end_transaction(9, committed=True)
    (batch,) = lab.log.view.batches(marker)
    base = lab.log.view.bases[-1]
    lab.log.close()
    assert batch_of(views, views.memory(lab, is_followed=True), f"{opened}.json")["transaction"] == "committed"
    lab.flip(lab.path(base, Kind.LOG), batch.position + batch.size_bytes - 1)
    for snapshot in [name for name in lab.contents() if name.endswith(".snapshot")]:
        lab.files.remove(f"{DIRECTORY}/{snapshot}")
    assert batch_of(views, views.memory(lab, is_followed=True), f"{opened}.json")["transaction"] == "unknown"


def test_a_stat_does_not_read_much_of_the_log(views: Views) -> None:
    lab = LogOnMemory()
    lab.produce(b"v", 0, transactional=True)
    source = views.memory(lab, TreeOptions(counted_bytes_max=10), is_followed=True)
    node = views.node(source, "0.json")
    attributes = node.attributes()
    assert (attributes.size_bytes, attributes.is_lasting) == (None, False)
    assert node.xattrs()["user.kafkafs.size"] == b"pending"
    data = views.read_all(node.open())
    assert json.loads(data)["batch"]["transaction"] == "open"
    assert node.attributes().size_bytes == len(data)
    assert "user.kafkafs.size" not in node.xattrs()
    assert views.node(source, "0.jsonl").attributes().size_bytes is not None
