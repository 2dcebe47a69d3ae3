"""`clicks`: lines of text without keys, compressed in two ways, of which only so much is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.demo.producer import Producer
from kafkafs.demo.traffic import draw_for, moments, runs
from storage.record.compression import Codec

if TYPE_CHECKING:
    import random

    from storage.record.encoding import Row
    from storage.store.store import Store

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
    draw = draw_for(CLICKS)
    for partition in range(_PARTITION_COUNT):
        rows: list[Row] = [(at_ms, None, _line(draw), ()) for at_ms in moments(_LINE_COUNT, now_ms, draw)]
        producer = Producer(store, CLICKS, partition)
        for run in runs(rows, _BATCH_RECORDS_MAX, draw):
            producer.send(run, draw.choice(_CODECS))


def _line(draw: random.Random) -> bytes:
    address = f"192.0.2.{draw.randrange(1, 255)}"
    return f"{address} GET {draw.choice(_PAGES)} {draw.choice(_STATUSES)} {draw.randrange(2, 400)}ms".encode()
