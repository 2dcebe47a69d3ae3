"""What is written to a descriptor, as records: in each form, cut anywhere, and refused as a whole."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkafs.locator.views import View
from kafkafs.render.envelope import Envelope
from kafkafs.render.intake import new_intake
from kafkafs.render.key_values import KeyValueSyntax
from kafkafs.render.packing import Packing
from storage.errors import BatchTooLargeError, InvalidRecordError, RecordTooLargeError
from storage.record import BatchForm, Codec, batches_of_rows, read_batches
from storage.testing import strategies
from storage.testing.codec import OracleRecord, encode_entry, entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

    from kafkafs.render.intake import Intake
    from storage.record.encoding import Row

    Seen: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

T = 1_700_000_000_000
PACKING = Packing(timestamp_ms=T, max_bytes=4096)
TAB = KeyValueSyntax()
FORMS = [View.APPEND, View.APPEND_KV, View.APPEND_JSONL, View.APPEND_BATCH]

rows = st.lists(
    st.tuples(strategies.timestamps, strategies.keys, strategies.values, strategies.headers), min_size=1, max_size=6
)
written_in = {
    View.APPEND: st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\r\n", b"\xff\t\n"])).map(b"".join),
    View.APPEND_KV: st.lists(st.sampled_from([b"a", b"\n", b"k\tv\n", b"k\t\n", b"\t\t\n"])).map(b"".join),
    View.APPEND_JSONL: rows.map(lambda rows: envelopes(*rows)),
    View.APPEND_BATCH: rows.map(lambda rows: b"".join(batches_of(rows))),
}


def batches_of(rows: list[Row]) -> Iterator[bytes]:
    return (batch.data for batch in batches_of_rows(rows, base_offset=None, max_bytes=8192))


def envelopes(*rows: Row) -> bytes:
    records = [record for data in batches_of_rows(rows) for batch in read_batches(data) for record in batch.records()]
    return b"".join(map(Envelope("a", 0).line, records))


def intake(form: View, syntax: KeyValueSyntax = TAB) -> Intake:
    return new_intake(form, syntax)


def records_in(batches: Sequence[Buffer]) -> list[Seen]:
    found = []
    for data in batches:
        for batch in read_batches(data):
            batch.check_crc()
            records = list(batch.records())
            assert [record.offset for record in records] == list(range(len(records)))
            found += [(record.timestamp, record.key, record.value, record.headers) for record in records]
    return found


def all_records(target: Intake, *writes: bytes, packing: Packing = PACKING) -> list[Seen]:
    found = [record for data in writes for record in records_in(target.take(data, packing))]
    return found + records_in(target.finish(packing))


def pieces(data: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


@pytest.mark.property
@pytest.mark.parametrize("form", FORMS)
@given(data=st.data(), places=st.lists(st.integers(0, 100_000), max_size=8))
def test_where_writes_are_cut_makes_no_difference(form: View, data: st.DataObject, places: list[int]) -> None:
    written = data.draw(written_in[form])
    packing = Packing(T, max_bytes=8192)
    whole = all_records(intake(form), written, packing=packing)
    assert all_records(intake(form), *pieces(written, places), packing=packing) == whole


@pytest.mark.parametrize(
    ("form", "writes", "records"),
    [
        (
            View.APPEND,
            [b"one\n\ntw", b"o\r\nlast"],
            [(None, b"one"), (None, b""), (None, b"two\r"), (None, b"last")],
        ),
        (
            View.APPEND_KV,
            [b"k\tv\tw\nno key\n\tv\n\n"],
            [(b"k", b"v\tw"), (None, b"no key"), (b"", b"v"), (None, b"")],
        ),
        (View.APPEND_JSONL, [b'{"value":null,"key":"k"}\n{"value"', b':"v"}'], [(b"k", None), (None, b"v")]),
        (View.APPEND_RAW, [b"one\n", b"", b"two\n\0"], [(None, b"one\ntwo\n\0")]),
        (View.APPEND_RAW, [b""], []),
        (View.APPEND, [], []),
    ],
)
def test_records(form: View, writes: list[bytes], records: list[tuple[bytes | None, bytes | None]]) -> None:
    assert all_records(intake(form), *writes) == [(T, key, value, ()) for key, value in records]


def test_a_separator_and_what_is_null_can_be_chosen() -> None:
    syntax = KeyValueSyntax(separator=b"::", null_marker=b"NULL")
    lines = b"k::NULL\nNULL::v\nNULL::NULL\nNULL\nk:v\nNULLs::::v\n"
    found = all_records(intake(View.APPEND_KV, syntax), lines)
    assert [(key, value) for _, key, value, _ in found] == [
        (b"k", None),
        (None, b"v"),
        (None, None),
        (None, None),
        (None, b"k:v"),
        (b"NULLs", b"::v"),
    ]


@pytest.mark.parametrize("separator", [b"", b"\n", b"a\nb"])
def test_some_separators_separate_nothing(separator: bytes) -> None:
    with pytest.raises(ValueError, match="without a newline"):
        KeyValueSyntax(separator=separator)


def test_nothing_else_is_appended_to() -> None:
    with pytest.raises(ValueError, match="values"):
        intake(View.VALUES)


def test_a_flush_commits_what_has_come_and_writing_goes_on() -> None:
    target = intake(View.APPEND)
    assert records_in(target.take(b"one\ntw", PACKING)) == [(T, None, b"one", ())]
    assert records_in(target.finish(PACKING)) == [(T, None, b"tw", ())]
    assert target.finish(PACKING) == ()
    assert records_in(target.take(b"o\n", PACKING)) == [(T, None, b"o", ())]
    raw = intake(View.APPEND_RAW)
    assert [all_records(raw, b"a", b"b"), all_records(raw), all_records(raw, b"c")] == [
        [(T, None, b"ab", ())],
        [],
        [(T, None, b"c", ())],
    ]


@pytest.mark.parametrize("form", FORMS[:2])
def test_many_lines_are_packed_into_batches_of_the_largest_size(form: View) -> None:
    packing = Packing(
        T, max_bytes=1000, form=BatchForm(codec=Codec.GZIP, producer_id=7, producer_epoch=0, base_sequence=5)
    )
    written = b"".join(b"line %d\n" % number for number in range(1000))
    batches = intake(form).take(written, packing)
    assert len(batches) > 1
    assert all(memoryview(batch).nbytes <= 1000 for batch in batches)
    found = [next(read_batches(batch)) for batch in batches]
    assert [batch.codec for batch in found] == [Codec.GZIP] * len(batches)
    assert [value for _, _, value, _ in records_in(batches)] == written.split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("form", "write", "error"),
    [
        (View.APPEND, b"good\n" + b"x" * 5000 + b"\nhal", RecordTooLargeError),
        (View.APPEND, b"good\n" + b"x" * 4095 + b"\nhal", RecordTooLargeError),
        (View.APPEND, b"good\n" + b"x" * 4097, RecordTooLargeError),
        (View.APPEND_KV, b"good\tv\nk\t" + b"x" * 4090 + b"\nhal", RecordTooLargeError),
        (View.APPEND_JSONL, b'{"value":"v"}\n{"value":1}\n{"val', InvalidRecordError),
        (View.APPEND_JSONL, b'{"value":"' + b"x" * 4090 + b'"}\n{"val', RecordTooLargeError),
    ],
)
def test_a_write_is_refused_as_a_whole_and_the_line_in_progress_too(
    form: View, write: bytes, error: type[InvalidRecordError]
) -> None:
    target = intake(form)
    with pytest.raises(error) as caught:
        target.take(write, PACKING)
    assert type(caught.value) is error
    good = b'{"value":"v"}' if form is View.APPEND_JSONL else b"v"
    assert target.take(b"the rest of it", PACKING) == ()
    assert records_in(target.take(b" and more\n" + good + b"\n", PACKING)) == [(T, None, b"v", ())]
    # What the log refuses is dropped in the same way.
    target.take(good + b"\nhal", PACKING)
    target.refuse()
    assert all_records(target, b"f\n" + good) == [(T, None, b"v", ())]


def test_a_malformed_last_line_is_refused_by_the_flush() -> None:
    target = intake(View.APPEND_JSONL)
    assert target.take(b'{"value"', PACKING) == ()
    with pytest.raises(InvalidRecordError, match="line 1: this is not JSON"):
        target.finish(PACKING)
    assert all_records(target, b'{"value":"v"}') == [(T, None, b"v", ())]


def test_an_envelope_may_be_much_longer_than_its_record() -> None:
    fits = Packing(T, max_bytes=61 + 2000)
    row: Row = (T, None, bytes(980), [("", None)] * 400)
    (data,) = batches_of_rows([row], max_bytes=fits.max_bytes)
    line = envelopes(row)
    assert len(line) > 7 * len(data)
    assert all_records(intake(View.APPEND_JSONL), *pieces(line, range(0, 20_000, 1000)), packing=fits) == [
        (T, None, bytes(980), (("", None),) * 400)
    ]


def test_a_raw_record_that_is_too_large_is_refused_to_its_end() -> None:
    target = intake(View.APPEND_RAW)
    target.take(b"x" * 4000, PACKING)
    with pytest.raises(RecordTooLargeError, match="more than 4096 bytes"):
        target.take(b"x" * 97, PACKING)
    assert all_records(target, b"the rest of it") == []
    assert all_records(target, b"next") == [(T, None, b"next", ())]
    with pytest.raises(RecordTooLargeError):
        all_records(target, b"x" * 4096)  # no larger than a batch, which its record then is


def old_entry() -> bytes:
    return encode_entry(entry_of(OracleRecord(offset=0, value=b"v"), 1))


def sent(value: bytes) -> bytes:
    (batch,) = batches_of_rows([(T, None, value, ())])
    return batch.data


def test_batches_pass_as_they_are() -> None:
    one, two = sent(b"one"), sent(b"two")
    target = intake(View.APPEND_BATCH)
    assert list(map(bytes, target.take(one + two + one[:70], PACKING))) == [one, two]
    assert list(map(bytes, target.take(one[70:], PACKING))) == [one]
    assert target.finish(PACKING) == ()


@pytest.mark.parametrize(
    ("write", "error", "reason"),
    [
        (
            lambda: sent(b"one") + b"no batch at all, only text",
            InvalidRecordError,
            "this is no record batch of version 2",
        ),
        (lambda: sent(b"one") + bytes(100), InvalidRecordError, "this is no record batch: the batch length 0 is below"),
        (lambda: sent(b"one") + old_entry(), InvalidRecordError, "this is no record batch of version 2"),
        (lambda: sent(b"one") + sent(b"x" * 5000), BatchTooLargeError, "the largest allowed is 4096"),
        (lambda: sent(b"one") + sent(b"x" * 5000)[:18], BatchTooLargeError, "the largest allowed is 4096"),
    ],
)
def test_what_is_no_batch_is_refused_up_to_the_flush(
    write: Callable[[], bytes], error: type[InvalidRecordError], reason: str
) -> None:
    target = intake(View.APPEND_BATCH)
    with pytest.raises(error, match=reason):
        target.take(write(), PACKING)
    assert target.take(sent(b"two"), PACKING) == ()
    assert target.finish(PACKING) == ()
    assert all_records(target, sent(b"two")) == [(T, None, b"two", ())]


def test_behind_a_batch_that_the_log_refused_another_may_follow() -> None:
    target = intake(View.APPEND_BATCH)
    target.take(sent(b"one"), PACKING)
    target.refuse()
    assert all_records(target, sent(b"two")) == [(T, None, b"two", ())]
    target.take(sent(b"one") + sent(b"two")[:70], PACKING)
    target.refuse()
    assert all_records(target, sent(b"two")[70:], sent(b"three")) == []


def test_a_batch_that_never_ends_is_refused_by_the_flush() -> None:
    target = intake(View.APPEND_BATCH)
    target.take(sent(b"one")[:70], PACKING)
    with pytest.raises(InvalidRecordError, match="only 70 bytes of it have come"):
        target.finish(PACKING)
    assert all_records(target, sent(b"two")) == [(T, None, b"two", ())]
