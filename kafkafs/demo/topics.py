"""The topics of the shop: orders, customers, payments and clicks, each with a day of records up to now.

`orders` is JSON under the customer's key, with headers; each partition has another codec and several segments.
`customers` is compacted: keys come again, and some customers leave with a tombstone. `payments` is written in
transactions, of which some were aborted and one is still open. `clicks` has lines of text without keys, compressed in
two ways, and limited retention.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kafkafs.demo.producer import MINUTE_MS, Producer, draw_for, moments, runs
from storage.record import Codec

if TYPE_CHECKING:
    import random

    from storage.record import Headers, Row
    from storage.store import Store

ORDERS: Final = "orders"
CUSTOMERS: Final = "customers"
PAYMENTS: Final = "payments"
CLICKS: Final = "clicks"

FIRST_ORDER: Final = 1001
ORDER_COUNT: Final = 4000
RECENT_MS: Final = 30 * MINUTE_MS
_RECENT_COUNT: Final = 84
_ORDER_SETTINGS: Final = {"segment.bytes": "65536", "index.interval.bytes": "2048", "retention.ms": "-1"}
_ORDER_CODECS: Final = (Codec.NONE, Codec.LZ4, Codec.SNAPPY)  # of the partitions
_ORDER_PRODUCER_ID: Final = 1000
_ORDER_BATCH_RECORDS_MAX: Final = 8
_ITEMS: Final = ("tea", "coffee", "honey", "soap", "candles", "paper", "ink", "wool", "salt", "brushes")
_CHANNELS: Final = (b"web", b"app", b"shop")

_CUSTOMER_SETTINGS: Final = {"cleanup.policy": "compact", "segment.bytes": "16384"}
_CUSTOMER_COUNT: Final = 60
_CUSTOMER_BATCH_RECORDS_MAX: Final = 5
_CHANGE_COUNT: Final = 600
_LEAVES_EVERY: Final = 40  # one change in so many is that a customer leaves
_NAMES: Final = ("Ada", "Chinua", "Elif", "Jorge", "Keiko", "Marta", "Olu", "Priya", "Sven", "Tove")
_TOWNS: Final = ("Accra", "Bergen", "Cusco", "Galway", "Hue", "Izmir", "Kyoto", "Lagos", "Porto", "Pune")

_PAYMENT_SETTINGS: Final = {"segment.bytes": "16384", "retention.ms": "-1"}
_PAYMENT_PRODUCER_IDS: Final = (2001, 2002)
_TRANSACTION_COUNT: Final = 120
_ABORTED_EVERY: Final = 9
_OPEN_PRODUCER_ID: Final = 2003
_OPEN_AT: Final = 115  # a few transactions follow the one that is never ended
_STATES: Final = ("authorised", "captured")
_STEP_MS: Final = 150

_CLICK_SETTINGS: Final = {"segment.bytes": "16384", "retention.ms": "-1", "retention.bytes": "32768"}
_CLICK_CODECS: Final = (Codec.ZSTD, Codec.GZIP)
_CLICK_PARTITION_COUNT: Final = 2
_CLICK_BATCH_RECORDS_MAX: Final = 100
_LINE_COUNT: Final = 6000  # of each partition
_PAGES: Final = ("/", "/tea", "/coffee", "/honey", "/basket", "/basket/pay", "/search?q=wool", "/about")
_STATUSES: Final = (200,) * 40 + (304,) * 6 + (404,) * 3 + (500,)


def write_orders(store: Store, now_ms: int) -> None:
    """Make `orders`, with a day of orders."""
    store.topics.create(ORDERS, len(_ORDER_CODECS), _ORDER_SETTINGS)
    rng = draw_for(ORDERS)
    partitions: list[list[Row]] = [[] for _ in _ORDER_CODECS]
    for number, timestamp_ms in enumerate(moments(ORDER_COUNT, now_ms, rng), FIRST_ORDER):
        row = _order(number, timestamp_ms, rng)
        assert row[1] is not None
        partitions[crc32(row[1]) % len(partitions)].append(row)
    for partition, (rows, codec) in enumerate(zip(partitions, _ORDER_CODECS, strict=True)):
        producer = Producer(store, ORDERS, partition, producer_id=_ORDER_PRODUCER_ID + partition)
        for run in runs(rows, _ORDER_BATCH_RECORDS_MAX, rng):
            producer.send(run, codec)


def has_orders_since(store: Store, timestamp_ms: int) -> bool:
    """Return True if every partition of `orders` has a record at or after this time."""
    views = [store.log(ORDERS, partition).view for partition in store.topics.partitions(ORDERS)]
    return all(view.find_timestamp(timestamp_ms) is not None for view in views)


def write_recent_orders(store: Store, now_ms: int) -> int:
    """Add the orders of the half hour before now, with the numbers that come next, and return how many."""
    partitions = store.topics.partitions(ORDERS)
    first = FIRST_ORDER + sum(store.log(ORDERS, partition).view.end_offset for partition in partitions)
    rng = draw_for(f"{ORDERS} {now_ms}")
    for number in range(_RECENT_COUNT):
        timestamp_ms = now_ms - RECENT_MS + (number + 1) * RECENT_MS // (_RECENT_COUNT + 1)
        row = _order(first + number, timestamp_ms, rng)
        assert row[1] is not None
        Producer(store, ORDERS, crc32(row[1]) % len(partitions)).send([row])
    return _RECENT_COUNT


def write_customers(store: Store, now_ms: int) -> None:
    """Make `customers`, with a day of changes."""
    store.topics.create(CUSTOMERS, 1, _CUSTOMER_SETTINGS)
    rng = draw_for(CUSTOMERS)
    rows: list[Row] = []
    for number, timestamp_ms in enumerate(moments(_CHANGE_COUNT, now_ms, rng), 1):
        customer = _customer_id(rng)
        value = None if number % _LEAVES_EVERY == 0 else _customer(customer, rng)
        rows.append((timestamp_ms, customer.encode(), value, ()))
    producer = Producer(store, CUSTOMERS, 0)
    for run in runs(rows, _CUSTOMER_BATCH_RECORDS_MAX, rng):
        producer.send(run)


def write_payments(store: Store, now_ms: int) -> None:
    """Make `payments`, with a day of transactions."""
    store.topics.create(PAYMENTS, 1, _PAYMENT_SETTINGS)
    rng = draw_for(PAYMENTS)
    producers = [
        Producer(store, PAYMENTS, 0, producer_id=each, is_transactional=True) for each in _PAYMENT_PRODUCER_IDS
    ]
    never_ending = Producer(store, PAYMENTS, 0, producer_id=_OPEN_PRODUCER_ID, is_transactional=True)
    for number, timestamp_ms in enumerate(moments(_TRANSACTION_COUNT, now_ms - _STEP_MS * len(_STATES), rng), 1):
        order = FIRST_ORDER + ORDER_COUNT * number // (_TRANSACTION_COUNT + 1)
        cents = rng.randrange(100, 10_000)
        if number == _OPEN_AT:
            never_ending.send([_payment(order, cents, _STATES[0], timestamp_ms)])
            continue
        producer = rng.choice(producers)
        for step, state in enumerate(_STATES):
            producer.send([_payment(order, cents, state, timestamp_ms + step * _STEP_MS)])
        ended_ms = timestamp_ms + len(_STATES) * _STEP_MS
        producer.end_transaction(ended_ms, is_committed=number % _ABORTED_EVERY != 0)


def write_clicks(store: Store, now_ms: int) -> None:
    """Make `clicks`, with a day of requests."""
    store.topics.create(CLICKS, _CLICK_PARTITION_COUNT, _CLICK_SETTINGS)
    rng = draw_for(CLICKS)
    for partition in range(_CLICK_PARTITION_COUNT):
        rows: list[Row] = [(at_ms, None, _click(rng), ()) for at_ms in moments(_LINE_COUNT, now_ms, rng)]
        producer = Producer(store, CLICKS, partition)
        for run in runs(rows, _CLICK_BATCH_RECORDS_MAX, rng):
            producer.send(run, rng.choice(_CLICK_CODECS))


def _customer_id(rng: random.Random) -> str:
    return f"c-{rng.randrange(_CUSTOMER_COUNT):04}"


def _order(number: int, timestamp_ms: int, rng: random.Random) -> Row:
    customer = _customer_id(rng)
    value = {
        "order": number,
        "customer": customer,
        "item": rng.choice(_ITEMS),
        "quantity": rng.randint(1, 9),
        "price": rng.randrange(100, 10_000) / 100,
    }
    headers: Headers = [("channel", rng.choice(_CHANNELS)), ("trace", f"{rng.getrandbits(64):016x}".encode())]
    return timestamp_ms, customer.encode(), _json(value), headers


def _customer(customer: str, rng: random.Random) -> bytes:
    return _json(
        {
            "customer": customer,
            "name": rng.choice(_NAMES),
            "town": rng.choice(_TOWNS),
            "points": rng.randrange(1000),
        }
    )


def _payment(order: int, cents: int, state: str, timestamp_ms: int) -> Row:
    value = {"order": order, "amount": cents / 100, "state": state}
    return timestamp_ms, str(order).encode(), _json(value), ()


def _click(rng: random.Random) -> bytes:
    address = f"192.0.2.{rng.randrange(1, 255)}"
    return f"{address} GET {rng.choice(_PAGES)} {rng.choice(_STATUSES)} {rng.randrange(2, 400)}ms".encode()


def _json(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
