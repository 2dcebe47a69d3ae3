"""Every view of a mount over a hostile store, read-only and read-write, and a sound partition beside it."""

from __future__ import annotations

import errno
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hostile.bombs import SENT_BOMBS, VALUE_BYTES
from hostile.mounted import faults_of_walk, most_memory_bytes
from hostile.runs import MEMORY_BYTES_MAX, SILENCE_S, watching
from hostile.store import sound_store
from mounts import store_mounting

from .conftest import IS_PROOF

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hostile import HostileStore
    from mounts import Mounted

pytestmark = pytest.mark.e2e

SOUND_S = 0.25 if IS_PROOF else 5.0  # beside other tests nothing is measured


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_every_view_answers(case: str, mode: str, made: Callable[[str], HostileStore], tmp_path: Path) -> None:
    store = made(case)
    mounted: Mounted | None = None
    with watching(store) as watch, store_mounting(tmp_path) as mount:
        with suppress(pytest.fail.Exception):
            mounted = mount(store.path, "-o", mode)
        if mounted is None:
            said = (tmp_path / "mnt.log").read_text()
            assert said.startswith("kafkafs: ")
            assert "Traceback" not in said
            assert "bug" not in said
            return
        faults = faults_of_walk(mounted, probe_s=SOUND_S, appends=mode == "rw")
        assert not faults, "\n".join(faults)
        assert mounted.end() == 0
        assert "hard link" in case or not watch.touched()


@pytest.mark.parametrize("sent", list(SENT_BOMBS) if IS_PROOF else ["headers in zstd"])
def test_a_producer_sends_a_bomb(sent: str, tmp_path: Path) -> None:
    """What no reader could decode within the budget is refused, and what is taken is read."""
    store = sound_store(tmp_path)
    bomb = SENT_BOMBS[sent]()
    with store_mounting(tmp_path) as mount:
        mounted = mount(store.path, "-o", "rw")
        (mounted.path / "sound" / "config").write_text("max.message.bytes=2000000000\n")
        code, started = 0, time.monotonic()
        try:
            (mounted.path / "sound" / "0" / "append.batch").write_bytes(bomb)
        except OSError as error:
            code = error.errno
        took_s = time.monotonic() - started
        assert code == errno.EFBIG or (code == 0 and sent.startswith("a value"))
        if code == 0:
            assert (mounted.path / "sound" / "0" / "offset" / "60").stat().st_size == VALUE_BYTES
        assert (mounted.path / "sound" / "0" / "offset" / "59").read_bytes() == b"59" * 100
        assert took_s < SILENCE_S
        assert most_memory_bytes(mounted) < MEMORY_BYTES_MAX
        assert mounted.end() == 0
        assert "Traceback" not in mounted.said()
