"""Receipts are given once, oldest first, and never take more room than they may."""

from __future__ import annotations

import pytest

from kafkafs.tree.receipts import RECEIPT_BYTES_MAX, Receipts
from storage.partition.appending import Appended


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


def test_of_too_many_the_newest_whole_lines_are_kept_behind_what_was_begun() -> None:
    receipts = Receipts()
    receipts.add([Appended(12345, 12346)])
    assert receipts.take(3) == b"123"
    for first in range(100_000, 120_000, 2):
        receipts.add([Appended(first, first + 1)])
    assert receipts.take(10) == b"45..12346\n"
    lines = receipts.take(10 * RECEIPT_BYTES_MAX).splitlines(keepends=True)
    assert sum(map(len, lines)) <= RECEIPT_BYTES_MAX < sum(map(len, lines)) + len(lines[0])
    assert lines == [b"%d..%d\n" % (first, first + 1) for first in range(120_000 - 2 * len(lines), 120_000, 2)]
    assert receipts.take(100) == b""
