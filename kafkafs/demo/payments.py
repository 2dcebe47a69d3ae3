"""`payments`: written in transactions, most of which were committed, some aborted, and one left open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkafs.demo.orders import FIRST_ORDER, ORDER_COUNT
from kafkafs.demo.producer import Producer
from kafkafs.demo.traffic import draw_for, moments

if TYPE_CHECKING:
    from storage.record import Row
    from storage.store import Store

PAYMENTS: Final = "payments"

_SETTINGS: Final = {"segment.bytes": "16384", "retention.ms": "-1"}
_PRODUCER_IDS: Final = (2001, 2002)
_FORGOTTEN_ID: Final = 2003
_TRANSACTION_COUNT: Final = 120
_ABORTED_EVERY: Final = 9
_FORGOTTEN_AT: Final = 115  # so that a few transactions come after the one that is never ended
_STATES: Final = ("authorised", "captured")
_STEP_MS: Final = 150


def write_payments(store: Store, now_ms: int) -> None:
    """Make the topic, with a day of payments."""
    store.topics.create(PAYMENTS, 1, _SETTINGS)
    rng = draw_for(PAYMENTS)
    producers = [Producer(store, PAYMENTS, 0, producer_id=each, is_transactional=True) for each in _PRODUCER_IDS]
    forgotten = Producer(store, PAYMENTS, 0, producer_id=_FORGOTTEN_ID, is_transactional=True)
    for number, timestamp_ms in enumerate(moments(_TRANSACTION_COUNT, now_ms - _STEP_MS * len(_STATES), rng), 1):
        order = FIRST_ORDER + ORDER_COUNT * number // (_TRANSACTION_COUNT + 1)
        cents = rng.randrange(100, 10_000)
        if number == _FORGOTTEN_AT:
            forgotten.send([_row(order, cents, _STATES[0], timestamp_ms)])
            continue
        producer = rng.choice(producers)
        for step, state in enumerate(_STATES):
            producer.send([_row(order, cents, state, timestamp_ms + step * _STEP_MS)])
        ended_ms = timestamp_ms + len(_STATES) * _STEP_MS
        producer.end_transaction(ended_ms, is_committed=number % _ABORTED_EVERY != 0)


def _row(order: int, cents: int, state: str, timestamp_ms: int) -> Row:
    value = {"order": order, "amount": cents / 100, "state": state}
    return timestamp_ms, str(order).encode(), json.dumps(value, separators=(",", ":")).encode(), ()
