"""`clicks`: lines of text without keys, compressed in two ways, with limited retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.demo.producer import Producer
from kafkafs.demo.traffic import draw_for, moments, runs
from storage.record import Codec

if TYPE_CHECKING:
    import random

    from storage.record import Row
    from storage.store import Store

CLICKS: Final = "clicks"

_SETTINGS: Final = {"segment.bytes": "16384", "retention.ms": "-1", "retention.bytes": "32768"}
_PARTITION_COUNT: Final = 2
_LINE_COUNT: Final = 6000  # of each partition
_CODECS: Final = (Codec.ZSTD, Codec.GZIP)
_PAGES: Final = ("/", "/tea", "/coffee", "/honey", "/basket", "/basket/pay", "/search?q=wool", "/about")
_STATUSES: Final = (200,) * 40 + (304,) * 6 + (404,) * 3 + (500,)
_BATCH_RECORDS_MAX: Final = 100


def write_clicks(store: Store, now_ms: int) -> None:
    """Make the topic, with a day of requests."""
    store.topics.create(CLICKS, _PARTITION_COUNT, _SETTINGS)
    rng = draw_for(CLICKS)
    for partition in range(_PARTITION_COUNT):
        rows: list[Row] = [(at_ms, None, _line(rng), ()) for at_ms in moments(_LINE_COUNT, now_ms, rng)]
        producer = Producer(store, CLICKS, partition)
        for run in runs(rows, _BATCH_RECORDS_MAX, rng):
            producer.send(run, rng.choice(_CODECS))


def _line(rng: random.Random) -> bytes:
    address = f"192.0.2.{rng.randrange(1, 255)}"
    return f"{address} GET {rng.choice(_PAGES)} {rng.choice(_STATUSES)} {rng.randrange(2, 400)}ms".encode()
