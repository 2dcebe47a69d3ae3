"""A salvage is cut at every step: the partition is there whole, or not at all, and the next run makes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from memory_logs import StandingClock
from replica_directories import ReplicaDirectory, Written

from kafkafs.salvage import Source, salvage
from storage.config import TopicConfig
from storage.errors import BuildError
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from conftest import Crashes

pytestmark = pytest.mark.crash

SOURCE: Final = "/store/t-0"
TARGET: Final = Path("/out")


@dataclass
class Salvage:
    """A damaged partition, and the run that salvages it."""

    files: MemoryFiles = field(default_factory=MemoryFiles)

    def run(self) -> None:
        source = Source(self.files.directory(SOURCE), ("t", 0), TopicConfig.resolve({}))
        salvage(source, TARGET, self.files, StandingClock(), even_unsummed=True, advance=lambda *_: None)

    def contents(self, path: str) -> dict[str, bytes]:
        directory = self.files.directory(path)
        if not directory.exists():
            return {}
        return {
            name: directory.read(name)
            for name, status in directory.statuses().items()
            if not status.is_directory and name != ".lock"
        }


def prepared() -> Salvage:
    made = Salvage()
    made.files.make_directory("/store")
    replica = ReplicaDirectory(made.files, SOURCE, [Written(1)] * 4)
    replica.damage(1)
    replica.sync()
    for path in ("/store", "/"):
        made.files.directory(path).sync()
    return made


def test_the_partition_is_there_whole_or_not_at_all(crashes: Crashes) -> None:
    whole = prepared()
    before = whole.contents(SOURCE)
    whole.run()
    expected = whole.contents(f"{TARGET}/t-0")
    beside = whole.contents(str(TARGET))
    with pytest.raises(BuildError, match="there already"):
        whole.run()
    for _, later in crashes.of(prepared, Salvage.run):
        for files, _ in later:
            again = Salvage(files)
            found = again.contents(f"{TARGET}/t-0")
            if not found:
                again.run()
            assert again.contents(f"{TARGET}/t-0") == expected
            assert again.contents(str(TARGET)) == beside
            assert again.contents(SOURCE) == before
