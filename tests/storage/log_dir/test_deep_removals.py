"""What is deeper than Python's stack is removed when it is due."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage.files import Files
from storage.log_dir.removals import Doomed, Removals

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_that_is_deeper_than_the_stack_is_removed(tmp_path: Path) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=place)
        outside, place = place, os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(outside)
    os.close(place)
    Removals().remove(Doomed(Files().directory(tmp_path), "d"))
    assert list(tmp_path.iterdir()) == []
