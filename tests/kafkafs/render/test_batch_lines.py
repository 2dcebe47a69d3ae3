"""Whole batches as lines: those of their records, one after another, for any batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hostile.bombs import LZ4, legacy_value
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.render.batch_lines import EnvelopeLines, RenderedBatches, Visible
from kafkafs.render.envelope import Envelope
from storage.budget import LIMIT_BYTES_MIN, MEMORY
from storage.errors import CorruptBatchError, DecompressedTooLargeError
from storage.record import Batch, BatchForm, Codec, Row, batches_of_rows, read_batches
from storage.testing import strategies

if TYPE_CHECKING:
    from storage.testing.codec import OracleBatch, OracleEntry

FAR = 2**62
TOPIC, PARTITION = "or-ders", 3
LINES = EnvelopeLines(TOPIC, PARTITION)
ENVELOPE = Envelope(TOPIC, PARTITION)

any_bytes = st.one_of(strategies.small_bytes, st.binary(), st.text().map(str.encode), strategies.large_bytes)
header_names = st.one_of(strategies.header_keys, any_bytes.map(lambda name: name.decode("utf-8", "surrogateescape")))
rows = st.tuples(
    strategies.timestamps,
    st.none() | any_bytes,
    st.none() | any_bytes,
    st.lists(st.tuples(header_names, st.none() | any_bytes), max_size=4).map(tuple),
)


def check(batch: Batch, visible: Visible) -> None:
    """Lines and their size come to the lines that its records have one by one."""
    lines = b"".join(map(ENVELOPE.line, batch.records())) if visible.shows(batch) else b""
    end = batch.position + batch.size_bytes
    rendered = LINES.render(batch, visible, end, only_size=False)
    assert rendered._replace(lines=bytes(rendered.lines)) == RenderedBatches(batch.size_bytes, 0, len(lines), lines)
    assert LINES.render(batch, visible, end, only_size=True) == RenderedBatches(batch.size_bytes, 0, len(lines), b"")


@pytest.mark.property
@given(strategies.logs())
def test_batches_of_any_log_have_the_envelopes_of_their_records(
    units: tuple[OracleBatch | OracleEntry, ...],
) -> None:
    for batch in read_batches(b"".join(map(strategies.encoded, units))):
        check(batch, Visible(FAR))


@pytest.mark.property
@given(st.lists(rows, min_size=1, max_size=8), st.sampled_from(Codec), st.integers(0, 2**40))
def test_records_of_any_bytes_have_their_envelopes(written: list[Row], codec: Codec, base_offset: int) -> None:
    for data in batches_of_rows(written, form=BatchForm(codec=codec), base_offset=base_offset):
        for batch in read_batches(data):
            check(batch, Visible(FAR))


@pytest.mark.property
@given(strategies.damaged_batches())
def test_a_damaged_batch_has_its_envelopes_or_none(data: bytes) -> None:
    try:
        batch = next(read_batches(data))
        batch.check_crc()
    except (CorruptBatchError, StopIteration):
        return
    try:
        list(batch.checked_records())
    except CorruptBatchError as error:
        if Visible(FAR).shows(batch):
            for only_size in (False, True):
                with pytest.raises(type(error)) as raised:
                    LINES.render(batch, Visible(FAR), FAR, only_size=only_size)
                assert raised.value.position == batch.position
        return
    check(batch, Visible(FAR))


@pytest.mark.parametrize("only_size", [False, True])
def test_lines_of_an_old_batch_take_no_more_than_a_share(only_size: bool) -> None:
    """The text of a value of zeros is six times as long, and there is more than one copy of it."""
    (batch,) = read_batches(legacy_value(1, LZ4, LIMIT_BYTES_MIN // 16))
    limit_bytes, MEMORY.limit_bytes = MEMORY.limit_bytes, LIMIT_BYTES_MIN
    before = MEMORY.left_bytes  # what another test of this process keeps has some of it
    try:
        with pytest.raises(DecompressedTooLargeError, match="the JSON lines of the batch at offset 0 take about"):
            LINES.render(batch, Visible(FAR), FAR, only_size=only_size)
        assert MEMORY.left_bytes == before
    finally:
        MEMORY.limit_bytes = limit_bytes
