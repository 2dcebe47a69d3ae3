"""A follower is given each record once, in any order of what others do to the log and of when it looks and reads."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from memory_logs import LogOnMemory, sent

from kafkafs.content import SizeCache
from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.tree.stream_file import StreamFile

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.stream_file import StreamReading


class Followed:
    """A log that others change, and a descriptor of its values that lags."""

    def __init__(self, views: Views, rng: random.Random, *, is_followed: bool) -> None:
        self.lab = LogOnMemory()
        self.rng = rng
        self.values: list[bytes] = []  # by their offsets
        self.given = bytearray()
        self.expected = bytearray()
        self.epoch = 1
        self.append()
        source = views.memory(self.lab, is_followed=is_followed)
        self.sizes = SizeCache(source.files, None)
        path = PartitionFilePath(source.path, View.VALUES)
        self.node = lambda: StreamFile(path, source, self.sizes)
        self.reading: StreamReading = self.node().open()
        self.look()

    def append(self) -> None:
        for _ in range(self.rng.randrange(1, 6)):
            value = b"%d-%d " % (self.epoch, len(self.values)) * self.rng.randrange(1, 60)
            self.lab.log.append_as_leader(sent([(0, value)]), leader_epoch=self.epoch)
            self.values.append(value)
            self.expected += value + b"\n"

    def roll(self) -> None:
        self.lab.log.roll()
        self.lab.run_tasks()

    def remove(self) -> None:
        bases = self.lab.log.view.bases
        for name in self.lab.log.remove_before(self.rng.choice(bases)):
            self.lab.log.directory.remove(name)

    def truncate(self) -> None:
        """Cut what everybody has seen, as followers of a new leader do, and go on in its epoch."""
        view = self.lab.log.view
        offset = self.rng.randrange(view.start_offset, view.end_offset + 1)
        self.lab.log.truncate_to(offset)
        del self.values[offset:]
        self.epoch += 1
        self.append()

    def look(self) -> None:
        """What others do is seen in time."""
        if self.rng.random() < 0.5:
            self.node().attributes()
        assert self.reading.size_bytes() == len(self.expected)

    def read(self) -> None:
        size_bytes = self.rng.choice([1, 100, 4096, 10**6])
        found = bytes(self.reading.read(len(self.given), size_bytes))
        self.given += found
        assert self.given == self.expected[: len(self.given)]
        assert len(found) == size_bytes or len(self.given) == len(self.expected)

    def read_all(self) -> None:
        while len(self.given) < len(self.expected):
            self.read()

    def read_page(self) -> None:
        """What the kernel asks for again when it has forgotten a page."""
        start = len(self.given) // 4096 * 4096
        found = bytes(self.reading.read(start, len(self.given) - start))
        assert found == self.given[start:]


@pytest.mark.parametrize("is_followed", [False, True], ids=["written", "followed"])
@pytest.mark.parametrize("seed", range(15))
def test_what_is_removed_is_given_nevertheless(views: Views, seed: int, *, is_followed: bool) -> None:
    rng = random.Random(seed)
    followed = Followed(views, rng, is_followed=is_followed)
    for _ in range(120):
        rng.choice([followed.append, followed.roll, followed.remove, followed.read, followed.read_page])()
        followed.look()
    followed.reading.close()


@pytest.mark.parametrize("is_followed", [False, True], ids=["written", "followed"])
@pytest.mark.parametrize("seed", range(15))
def test_what_a_new_leader_writes_follows_on_what_it_cut(views: Views, seed: int, *, is_followed: bool) -> None:
    rng = random.Random(seed)
    followed = Followed(views, rng, is_followed=is_followed)
    followed.read_all()
    for _ in range(60):
        rng.choice([followed.append, followed.append, followed.roll, followed.truncate])()
        followed.look()
        followed.read_all()
        followed.read_page()
    followed.reading.close()
