"""What was rendered to be counted is kept for the reader of that log, and gives way to work."""

from __future__ import annotations

from kafkafs.content.counted_file import CountedFile
from kafkafs.content.kept_pieces import KeptPieces
from kafkafs.content.piece import Piece
from storage.budget import Budget

COUNTED = CountedFile(0, (1, 1))
PIECES = [Piece(100 * number + 100, 100 * number, 10, b"0123456789") for number in range(4)]


def test_each_piece_is_given_once() -> None:
    kept = KeptPieces(30, budget=Budget(1000))
    assert [kept.keep(None, COUNTED, 100 * at, piece) for at, piece in enumerate(PIECES)] == [True, True, True, False]
    assert [kept.take(COUNTED, at) for at in (0, 0, 100, 300)] == [PIECES[0], None, PIECES[1], None]
    assert kept.keep(None, COUNTED, 300, PIECES[3])


def test_pieces_of_another_log_are_dropped() -> None:
    budget = Budget(1000)
    kept = KeptPieces(30, budget=budget)
    kept.keep("one", COUNTED, 0, PIECES[0])
    kept.keep("two", COUNTED, 100, PIECES[1])
    assert [kept.take(COUNTED, 0), budget.left_bytes] == [None, 990]


def test_pieces_give_way_to_work() -> None:
    budget = Budget(30)
    kept = KeptPieces(1000, budget=budget)
    assert [kept.keep(None, COUNTED, 100 * at, piece) for at, piece in enumerate(PIECES)] == [True, True, True, False]
    assert budget.take(30)
    assert [kept.take(COUNTED, 0), kept.keep(None, COUNTED, 0, PIECES[0])] == [None, False]
    budget.give(30)
    assert kept.keep(None, COUNTED, 0, PIECES[0])
