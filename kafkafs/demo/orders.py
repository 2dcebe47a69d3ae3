"""`orders`: JSON under the customer's key, with headers; each partition has another codec and several segments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kafkafs.demo.customers import customer_id
from kafkafs.demo.producer import Producer
from kafkafs.demo.traffic import draw_for, moments, runs
from storage.record import Codec

if TYPE_CHECKING:
    import random

    from storage.record import Headers, Row
    from storage.store import Store

ORDERS: Final = "orders"
FIRST_ORDER: Final = 1001
ORDER_COUNT: Final = 4000

_SETTINGS: Final = {"segment.bytes": "65536", "index.interval.bytes": "2048", "retention.ms": "-1"}
_CODECS: Final = (Codec.NONE, Codec.LZ4, Codec.SNAPPY)  # of the partitions
_PRODUCER_ID: Final = 1000
_ITEMS: Final = ("tea", "coffee", "honey", "soap", "candles", "paper", "ink", "wool", "salt", "brushes")
_CHANNELS: Final = (b"web", b"app", b"shop")
_BATCH_RECORDS_MAX: Final = 8


def write_orders(store: Store, now_ms: int) -> None:
    """Make the topic, with a day of orders."""
    store.topics.create(ORDERS, len(_CODECS), _SETTINGS)
    rng = draw_for(ORDERS)
    partitions: list[list[Row]] = [[] for _ in _CODECS]
    for number, timestamp_ms in enumerate(moments(ORDER_COUNT, now_ms, rng), FIRST_ORDER):
        row = _row(number, timestamp_ms, rng)
        assert row[1] is not None
        partitions[crc32(row[1]) % len(partitions)].append(row)
    for partition, (rows, codec) in enumerate(zip(partitions, _CODECS, strict=True)):
        producer = Producer(store, ORDERS, partition, producer_id=_PRODUCER_ID + partition)
        for run in runs(rows, _BATCH_RECORDS_MAX, rng):
            producer.send(run, codec)


def _row(number: int, timestamp_ms: int, rng: random.Random) -> Row:
    customer = customer_id(rng)
    value = {
        "order": number,
        "customer": customer,
        "item": rng.choice(_ITEMS),
        "quantity": rng.randint(1, 9),
        "price": rng.randrange(100, 10_000) / 100,
    }
    headers: Headers = [("channel", rng.choice(_CHANNELS)), ("trace", f"{rng.getrandbits(64):016x}".encode())]
    return timestamp_ms, customer.encode(), json.dumps(value, separators=(",", ":")).encode(), headers
