"""Very many transactions that are open at once: each step costs the same, however many there are."""

from __future__ import annotations

import random

from storage.log.producers.transactions import Transactions

COUNT = 100_000


def test_a_hundred_thousand_transactions_begin_and_end() -> None:
    """Looking at all of them at each step takes minutes."""
    transactions = Transactions()
    order = list(range(COUNT))
    random.Random(0).shuffle(order)
    for producer_id in order:
        transactions.begin(producer_id, 10 * producer_id)
    assert transactions.first_unstable_offset == 0
    for producer_id in range(COUNT):
        ended = transactions.complete(producer_id, 10 * COUNT + producer_id, is_aborted=True)
        is_last = producer_id == COUNT - 1
        assert ended.last_stable_offset == (11 * COUNT if is_last else 10 * producer_id + 10)
    assert transactions.first_unstable_offset == 0
    transactions.on_high_watermark(10 * COUNT + COUNT - 1)
    assert transactions.first_unstable_offset == 10 * (COUNT - 1)
    transactions.on_high_watermark(11 * COUNT)
    assert transactions.first_unstable_offset is None
    transactions.begin(1, 5)
    transactions.clear()
    assert transactions.first_unstable_offset is None
