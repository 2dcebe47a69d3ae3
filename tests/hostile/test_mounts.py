"""Every view of a mount over a hostile store, read-only and read-write, and a sound partition beside it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hostile.mounted import faults_of_walk
from hostile.runs import watching
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
