"""`customers`: the last that is known of each, in a compacted topic: keys that come again, and tombstones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kafkafs.demo.producer import Producer
from kafkafs.demo.traffic import draw_for, moments, runs

if TYPE_CHECKING:
    import random

    from storage.record import Row
    from storage.store import Store

CUSTOMERS: Final = "customers"

_SETTINGS: Final = {"cleanup.policy": "compact", "segment.bytes": "16384"}
_CUSTOMER_COUNT: Final = 60
_CHANGE_COUNT: Final = 600
_LEFT_EVERY: Final = 40  # one of so many changes is that a customer leaves
_NAMES: Final = ("Ada", "Chinua", "Elif", "Jorge", "Keiko", "Marta", "Olu", "Priya", "Sven", "Tove")
_TOWNS: Final = ("Accra", "Bergen", "Cusco", "Galway", "Hue", "Izmir", "Kyoto", "Lagos", "Porto", "Pune")
_BATCH_RECORDS_MAX: Final = 5


def customer_id(rng: random.Random) -> str:
    """One of the customers."""
    return f"c-{rng.randrange(_CUSTOMER_COUNT):04}"


def write_customers(store: Store, now_ms: int) -> None:
    """Make the topic, with a day of changes."""
    store.topics.create(CUSTOMERS, 1, _SETTINGS)
    rng = draw_for(CUSTOMERS)
    rows: list[Row] = []
    for number, timestamp_ms in enumerate(moments(_CHANGE_COUNT, now_ms, rng), 1):
        customer = customer_id(rng)
        value = None if number % _LEFT_EVERY == 0 else _value(customer, rng)
        rows.append((timestamp_ms, customer.encode(), value, ()))
    producer = Producer(store, CUSTOMERS, 0)
    for run in runs(rows, _BATCH_RECORDS_MAX, rng):
        producer.send(run)


def _value(customer: str, rng: random.Random) -> bytes:
    value = {
        "customer": customer,
        "name": rng.choice(_NAMES),
        "town": rng.choice(_TOWNS),
        "points": rng.randrange(1000),
    }
    return json.dumps(value, separators=(",", ":")).encode()
