"""Batches of a range that are rendered together, beside the same ones rendered one by one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_logs import DIRECTORY, NOW_MS, LogOnMemory, sent

from kafkafs.content.patience import Patience
from kafkafs.locator.formats import Format
from kafkafs.tree import record_run, visible_log
from kafkafs.tree.errors import DamagedError
from kafkafs.tree.held_batch import decode
from kafkafs.tree.options import Damage, TreeOptions
from kafkafs.tree.range_file import RangeReading
from kafkafs.tree.range_sizes import RangeSize
from kafkafs.tree.record_run import RecordRun
from storage.record.encoding import BatchForm, batches_of_rows
from storage.testing.codec import resealed

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.held_batch import Decoded
    from storage.record.reading import Batch

BATCHES = 30
FLIPS = st.tuples(st.integers(0, BATCHES - 1), st.integers(61, 400), st.integers(1, 255), st.booleans())
"""The number of a batch, a place in it, the bits to flip there, and whether its checksum is made right again."""


def filled() -> LogOnMemory:
    lab, rng = LogOnMemory(), random.Random(1)
    for number in range(BATCHES):
        values = [rng.randbytes(rng.randrange(50)) for _ in range(rng.randrange(1, 5))]
        rows = [(NOW_MS + number * 1000, b"%d" % number, value, (("h", value[:3]),)) for value in values]
        (data,) = batches_of_rows(rows, form=BatchForm(codec=number % 5))
        lab.log.append_as_leader(data)
    return lab


@pytest.mark.property
@given(
    flips=st.lists(
        st.tuples(st.integers(0, BATCHES - 1), st.integers(61, 400), st.integers(1, 255), st.booleans()), max_size=4
    ),
    bounds=st.tuples(st.integers(0, 80), st.integers(0, 80)).map(sorted),
    form=st.sampled_from([Format.VALUE, Format.KEY, Format.JSONL]),
    damage=st.sampled_from(Damage),
)
def test_both_are_the_same(views, flips, bounds, form, damage):
    """Damage is met at the same place, also where the checksum is right and the records are not."""
    lab = filled()
    path = f"{DIRECTORY}/00000000000000000000.log"
    batches = [bytearray(batch.view(0, batch.size_bytes)) for batch in lab.log.view.batches(0)]
    for number, at, bits, is_resealed in flips:
        batch = batches[number]
        batch[at % (len(batch) - 61) + 61] ^= bits
        batches[number] = bytearray(resealed(bytes(batch))) if is_resealed else batch
    with lab.files.open_writing(path) as file:
        file.write_at(0, [b"".join(batches)])
    source = views.memory(lab, TreeOptions(damage=damage, counted_bytes_max=0))
    start, end = bounds
    visible, one_by_one, failure = source.visible().fresh_copy(), [], ""
    try:
        for found in visible.batches(start, end):
            one_by_one += source.renderer(form).run(found.records)
    except DamagedError as error:
        failure = str(error)
    together, met = b"", ""
    try:
        for data in views.node(source, f"{start}..{end}{form}").contents():
            together += data
    except DamagedError as error:
        met = str(error)
    assert (together, met) == (b"".join(one_by_one), failure)
    node = views.node(source, f"{start}..{end}{form}")
    run = node._sized(source.visible())
    run.count(Patience(60))
    assert run.size == RangeSize(None if failure else len(together), visible.skipped)


def test_the_last_records_are_found_in_the_last_batches(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may take long to decode, so that no other is than those with these records."""
    decoded: list[int] = []

    def counting(batch: Batch) -> Decoded:
        decoded.append(batch.base_offset)
        return decode(batch)

    monkeypatch.setattr(visible_log, "decode", counting)
    visible = views.memory(filled(), TreeOptions()).visible()
    last = visible.view.end_offset - 1
    assert visible.from_end(1) == last
    assert len(set(decoded)) == 1


def test_batches_without_a_byte_to_show_are_steps_of_their_own(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding each of them may take long, so the caller may stop after any."""
    monkeypatch.setattr(record_run, "GATHERED_S_MAX", -1.0)
    lab = LogOnMemory()
    for number in range(5):
        lab.log.append_as_leader(sent([(NOW_MS, None)] * (number + 1)), leader_epoch=1)
    source = views.memory(lab, TreeOptions(counted_bytes_max=0))
    reading = views.node(source, "all.hex").open()
    assert isinstance(reading, RangeReading)
    reached = []

    class Reached(Patience):
        def check(self) -> None:
            reached.append(reading.reached())
            if len(reached) == 4:
                raise InterruptedError

    with pytest.raises(InterruptedError):
        reading.read(0, 10, Reached())
    assert reading.read(0, 10, Reached()) == b""
    assert reached == [None, 0, 1, 3, 3, 6, 10]
    source = views.memory(lab)
    visible = source.visible()
    run = RecordRun(visible, 0, visible.end_offset, Format.HEX, source)
    run.count(Patience(-1.0))
    assert run.size is None, "it stopped before the end"
    run.count(Patience())
    assert run.size == RangeSize(0, 0)
