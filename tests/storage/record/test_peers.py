"""Independent codecs read every batch that we write, and we read every batch that they write."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record import default_records as aiokafka_default
from aiokafka.record import memory_records as aiokafka_memory
from hypothesis import given
from hypothesis import strategies as st

from storage.record import Codec, RecordBatch, read_batches
from storage.record.encoding import BatchForm, batches_of_rows
from storage.testing import strategies

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # importing kafka-python calls what Python has deprecated
    from kafka.record import default_records as kafka_python_default
    from kafka.record import memory_records as kafka_python_memory

if TYPE_CHECKING:
    from storage.record.encoding import Row

pytestmark = pytest.mark.property

PEERS = {
    "aiokafka": (aiokafka_memory.MemoryRecords, aiokafka_default.DefaultRecordBatchBuilder),
    "kafka-python": (kafka_python_memory.MemoryRecords, kafka_python_default.DefaultRecordBatchBuilder),
}

rows = st.lists(
    st.tuples(strategies.usual_timestamps, strategies.keys, strategies.values, strategies.headers),
    min_size=1,
    max_size=12,
)
codecs = st.sampled_from(list(Codec))
forms = st.builds(
    BatchForm,
    codec=codecs,
    leader_epoch=st.integers(-1, 2**31 - 1),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
    transactional=st.booleans(),
)


def peer_rows(memory_records: Any, data: bytes) -> list[tuple[int, Row]]:
    """What the peer reads, each batch's checksum found right."""
    walk = memory_records(data)
    seen = []
    while walk.has_next():
        batch = walk.next_batch()
        assert batch.validate_crc()
        for record in batch:
            timestamp = -1 if record.timestamp is None else record.timestamp
            seen.append((record.offset, (timestamp, record.key, record.value, tuple(record.headers))))
    return seen


@given(rows, forms, st.integers(0, 2**62), st.sampled_from([200, 2000, 2**20]))
def test_peers_read_what_we_write(made: list[Row], form: BatchForm, base_offset: int, max_bytes: int) -> None:
    largest_bytes = max(len(next(batches_of_rows([row]))) for row in made)
    batches = list(batches_of_rows(made, base_offset=base_offset, max_bytes=max_bytes + largest_bytes, form=form))
    data = b"".join(batches)
    for memory_records, _builder in PEERS.values():
        seen = peer_rows(memory_records, data)
        assert [row for _offset, row in seen] == made
        assert [offset for offset, _row in seen] == list(range(base_offset, base_offset + len(made)))


@pytest.mark.parametrize("peer", PEERS)
@given(made=rows, codec=codecs, producer_id=st.integers(-1, 2**63 - 1), transactional=st.booleans())
def test_we_read_what_peers_write(
    peer: str, made: list[Row], codec: Codec, producer_id: int, transactional: bool
) -> None:
    if peer == "aiokafka":
        # Its builder counts from the first record's time only where that is not -1.
        made = [(max(timestamp, 0), key, value, headers) for timestamp, key, value, headers in made]
    builder = PEERS[peer][1](2, int(codec), transactional, producer_id, 3, 7, 2**24)
    for offset, (timestamp, key, value, headers) in enumerate(made):
        assert builder.append(offset, timestamp, key, value, list(headers)) is not None
    (batch,) = read_batches(bytes(builder.build()))
    assert isinstance(batch, RecordBatch)
    batch.check_crc()
    assert batch.codec in (codec, Codec.NONE)  # kafka-python leaves alone what compression would make larger
    assert (batch.producer_id, batch.is_transactional) == (producer_id, transactional)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in batch.records()] == made
    assert [record.offset for record in batch.records()] == list(range(len(made)))
