"""Whatever is done to the logs of a real broker: each batch that was not hit comes out of a salvage, and kafka-python
reads the result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_logs import StandingClock
from peer_logs import Place, decoded, framed, is_sound

from kafkafs.salvage import Source, salvage
from storage.config import TopicConfig
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

pytestmark = [pytest.mark.golden, pytest.mark.property]

EXAMPLES = min(settings().max_examples, 10_000)
LOGS = ("t-none-0", "t-lz4-0", "t-v1-0", "t-txn-1", "t-upgrade-0", "t-compact-gzip-0")
OFFSET_BYTES = 8
EPOCH = slice(12, 16)


@dataclass(frozen=True)
class Edit:
    """What happens to a file at a place, given as a share of its size."""

    file: int
    place: float
    kind: str
    amount: int

    def apply(self, files: dict[str, bytearray]) -> tuple[str, int, int]:
        """Change a file, and return its name and the bytes that were hit."""
        name = sorted(files)[self.file % len(files)]
        data = files[name]
        at = min(int(len(data) * self.place), max(len(data) - 1, 0))
        if not data:
            return name, 0, 0
        if self.kind == "cut":
            del data[at:]
            return name, at, 2**62
        size = 1 if self.kind == "flip" else min(self.amount, len(data) - at)
        for position in range(at, at + size):
            data[position] = {
                "flip": data[position] ^ 1 << self.amount % 8,
                "zeros": 0,
                "noise": (self.amount * 31 + position * 7) & 0xFF,
            }[self.kind]
        return name, at, at + size


edits = st.lists(
    st.builds(
        Edit,
        file=st.integers(0, 5),
        place=st.floats(0, 1, exclude_max=True),
        kind=st.sampled_from(["flip", "flip", "flip", "noise", "zeros", "cut"]),
        amount=st.integers(0, 3000),
    ),
    min_size=1,
    max_size=6,
)


class Originals(dict[str, dict[str, bytes]]):
    """The log files of some partitions. Hypothesis prints this when a test fails."""

    def __repr__(self) -> str:
        return "originals"


@pytest.fixture(scope="module")
def originals(datasets: Callable[[str], Path]) -> Originals:
    """Give the logs of a broker that was stopped."""
    found = Originals()
    for directory in (datasets("kafka-3.9") / "kafka-3.9").glob("d*/*-*"):
        if directory.name in LOGS:
            found[directory.name] = {path.name: path.read_bytes() for path in directory.glob("*[0-9].log")}
    assert len(found) == len(LOGS)
    return found


def salvaged(files: Mapping[str, bytes | bytearray], *, even_unsummed: bool) -> dict[str, bytes]:
    """Salvage a partition that has these files, and return those of the result."""
    memory = MemoryFiles()
    memory.make_directory("/store")
    memory.make_directory("/store/t-0")
    source = memory.directory("/store/t-0")
    for name, data in files.items():
        with source.open_writing(name, create=True) as file:
            file.write_at(0, [bytes(data)])
    salvage(
        Source(source, ("t", 0), TopicConfig.resolve({})),
        Path("/out"),
        memory,
        StandingClock(),
        even_unsummed=even_unsummed,
        advance=lambda *_: None,
    )
    assert {name: source.read(name) for name in source.names()} == files
    result = memory.directory("/out/t-0")
    return {name: result.read(name) for name in result.names() if name.endswith(".log")}


def without_epoch(batch: bytes) -> bytes:
    return batch[: EPOCH.start] + batch[EPOCH.stop :]


@settings(max_examples=EXAMPLES)
@given(name=st.sampled_from(LOGS), edits=edits, even_unsummed=st.booleans())
def test_what_was_not_hit_is_salvaged(
    originals: Originals, name: str, edits: list[Edit], *, even_unsummed: bool
) -> None:
    original = originals[name]
    files = {file: bytearray(data) for file, data in original.items()}
    hits = [edit.apply(files) for edit in edits]
    unhurt, moved = [], 0
    for file, data in sorted(original.items()):
        for position, batch in framed(data):
            end = position + len(batch)
            touching = [(begin, stop) for hit, begin, stop in hits if hit == file and begin < end and stop > position]
            moved += any(begin < position + OFFSET_BYTES for begin, _ in touching)
            if not touching:
                unhurt.append(batch)
    result = salvaged(files, even_unsummed=even_unsummed)
    found = [batch for file, data in sorted(result.items()) for _, batch in framed(data)]
    for file, data in result.items():
        for position, batch in framed(data):
            if even_unsummed:
                assert is_sound(batch)
            else:
                decoded(Place(file, position), batch)
        assert sum(len(batch) for _, batch in framed(data)) == len(data)
    kept = {without_epoch(batch) for batch in found}
    lost = [batch for batch in unhurt if without_epoch(batch) not in kept]
    # Where an offset was hit, what is around it does not always tell which of two batches is in its place.
    assert len(lost) <= moved


def test_a_wrapper_that_reaches_below_its_segment_is_left_out(datasets: Callable[[str], Path]) -> None:
    """A message set's wrapper has the offset of its last record; a flipped bit moves all of them."""
    (directory,) = (datasets("kafka-2.2") / "kafka-2.2").glob("d*/t-v1-compact-0")
    files = {path.name: bytearray(path.read_bytes()) for path in directory.glob("*[0-9].log")}
    files[f"{2250:020}.log"][OFFSET_BYTES - 1] ^= 32
    result = salvaged(files, even_unsummed=False)
    _, *rest = (batch for _, batch in framed(bytes(files[f"{2250:020}.log"])))
    assert result[f"{2250:020}.log"] == b"".join(rest)
