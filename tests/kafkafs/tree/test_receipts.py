"""Receipts are given once, oldest first, every one of them, and each takes 16 bytes until then."""

from __future__ import annotations

import tracemalloc

import pytest

from kafkafs.tree.receipts import Receipts
from storage.log.appending import Appended


@pytest.mark.parametrize(
    ("appended", "text"),
    [
        ([], b""),
        ([Appended(5, 5)], b"5..5\n"),
        ([Appended(5, 7), Appended(8, 8)], b"5..8\n"),
        ([Appended(3, 4, is_duplicate=True), Appended(8, 9), Appended(10, 10)], b"3..4\n8..10\n"),
        ([Appended(3, 4, is_duplicate=True), Appended(3, 4, is_duplicate=True)], b"3..4\n3..4\n"),
    ],
)
def test_what_was_appended_together_is_a_line_for_each_run(appended: list[Appended], text: bytes) -> None:
    receipts = Receipts()
    receipts.add(appended)
    assert [receipts.take(100), receipts.take(100)] == [text, b""]


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 7, 8, 9, 100])
def test_no_byte_is_given_twice_however_few_are_asked_for(size_bytes: int) -> None:
    receipts = Receipts()
    taken = b""
    for first in range(0, 40, 2):
        receipts.add([Appended(first, first + 1)])
        taken += receipts.take(size_bytes)
    while piece := receipts.take(size_bytes):
        assert len(piece) <= size_bytes
        taken += piece
    assert taken == b"".join(b"%d..%d\n" % (first, first + 1) for first in range(0, 40, 2))


def test_every_receipt_is_kept_in_16_bytes_until_it_is_read() -> None:
    receipts = Receipts()
    receipts.add([Appended(12345, 12346)])
    assert receipts.take(3) == b"123"
    tracemalloc.start()
    for first in range(100_000, 300_000, 2):
        receipts.add([Appended(first, first + 1)])
    kept_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept_bytes < 100_000 * 16 * 1.25  # an array has room for an eighth more
    assert receipts.take(10) == b"45..12346\n"
    lines = []
    for first in range(100_000, 300_000, 2):
        line = b"%d..%d\n" % (first, first + 1)
        lines.append(receipts.take(len(line)))
        assert lines[-1] == line
    assert len(lines) == 100_000
    assert receipts.take(100) == b""


def test_receipts_of_writes_that_follow_each_other_are_never_merged() -> None:
    receipts = Receipts()
    for offset in range(3):
        receipts.add([Appended(offset, offset)])
    assert receipts.take(100) == b"0..0\n1..1\n2..2\n"
