"""How much memory a log takes that somebody looked at once: a store may have tens of thousands."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

from memory_logs import NOW_MS, PRODUCER_EXPIRATION_MS, StandingClock, sent

from storage.config import TopicConfig
from storage.files import Files
from storage.log.followed_log import FollowedLog
from storage.log.log import Log
from storage.store import Store

if TYPE_CHECKING:
    from pathlib import Path

LOGS = 100
BYTES_MAX = 4000


def test_a_log_that_was_looked_at_takes_little(tmp_path: Path) -> None:
    with Store.create([tmp_path / "store"], files=Files(), clock=StandingClock()) as store:
        store.topics.create("t", 1)
        log = store.log("t", 0)
        assert isinstance(log, Log)
        log.append_as_leader(sent([(NOW_MS, b"a")]))
    config, clock = TopicConfig.resolve({}), StandingClock()
    top = Files().directory(tmp_path / "store")

    def looked_at() -> FollowedLog:
        log = FollowedLog(clock, top.at("t-0"), config, producer_expiration_ms=PRODUCER_EXPIRATION_MS)
        assert log.view.end_offset == 1
        return log

    looked_at()
    gc.collect()
    tracemalloc.start()
    try:
        logs = [looked_at() for _ in range(LOGS)]
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(logs) < BYTES_MAX
