"""The next sound batch after bytes that are none."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import CorruptBatchError, DecompressedTooLargeError
from storage.files import Files
from storage.record import read_batches
from storage.segment import scan, sound_batch_search
from storage.segment.scan import GappedScan, LogScan
from storage.segment.sound_batch_search import find_sound_batch, position_after
from storage.testing.codec import OracleRecord, batch_of, encode_batch
from storage.testing.legacy_codec import encode_entry, entry_of

BASE = 2**32 - 20


def batch(offset: int) -> bytes:
    return encode_batch(batch_of([OracleRecord(offset, 1000, b"k", b"v" * 50)]))


def find(path: Path, data: bytes, *, next_offset: int = BASE, start: int = 0) -> int | None:
    (path / "log").write_bytes(data)
    with Files().open_reading(path / "log") as file:
        return find_sound_batch(file, start, len(data), base_offset=BASE, next_offset=next_offset)


@pytest.mark.parametrize("noise", [0, 1, 17, 1000, 1024 * 1024 - 5, 1024 * 1024 + 5])
def test_behind_noise(tmp_path: Path, noise: int) -> None:
    for garbage in (random.Random(noise).randbytes(noise), bytes(noise), b"\x02" * noise, b"\0\0\0\1" * (noise // 4)):
        for sound in (
            batch(BASE + 3),
            batch(BASE + 40),
            encode_entry(entry_of(OracleRecord(BASE + 3, 5, b"k", b"v"), 1)),
        ):
            assert find(tmp_path, garbage + sound + b"\0" * 10) == len(garbage)
        assert find(tmp_path, garbage) is None


def test_only_what_goes_on_is_found(tmp_path: Path) -> None:
    data = batch(BASE - 1) + batch(BASE + 3) + batch(BASE + 2**31) + batch(BASE + 9)
    size = len(batch(BASE))
    assert find(tmp_path, data) == size
    assert find(tmp_path, data, start=1) == size
    assert find(tmp_path, data, next_offset=BASE + 4) == 3 * size
    assert find(tmp_path, data, next_offset=BASE + 10) is None


def test_only_what_is_whole_and_has_its_checksum_is_found(tmp_path: Path) -> None:
    data = batch(BASE + 3)
    assert find(tmp_path, data[:-1]) is None
    for at in range(8, len(data)):
        if not 12 <= at < 16:  # the leader epoch, of which nothing here knows what it should be
            changed = bytearray(data)
            changed[at] ^= 1
            assert find(tmp_path, bytes(changed)) is None, at


def test_what_somebody_contrived_takes_no_forever(tmp_path: Path) -> None:
    """Headers one after the other, each of a batch up to the end: trying them all would read a terabyte."""
    count = 50_000
    headers = b"".join(
        (BASE + 1).to_bytes(8, "big") + (18 * (count - at) - 12).to_bytes(4, "big") + b"\0\0\0\0\x02\0"
        for at in range(count)
    )
    assert find(tmp_path, headers) is None
    assert find(tmp_path, headers + batch(BASE + 5)) == len(headers)


def gap_end(path: Path, data: bytes, own_bytes: int) -> int | None:
    """Return where the gap of a damaged batch ends that begins the data and says that it has so many bytes."""
    (path / "log").write_bytes(data)
    with Files().open_reading(path / "log") as file:
        return position_after(file, 0, own_bytes, len(data), base_offset=BASE, next_offset=BASE)


@pytest.mark.parametrize("passed", [1, 2, 3])
@pytest.mark.parametrize("short_bytes", [0, 16])
def test_a_length_that_reaches_over_sound_batches_hides_none(tmp_path: Path, passed: int, short_bytes: int) -> None:
    size = len(batch(BASE))
    data = bytearray(b"".join(batch(BASE + number) for number in range(4)))
    own_bytes = size * (1 + passed) - short_bytes * (passed == 3)
    data[8:12] = (own_bytes - 12).to_bytes(4, "big")
    assert gap_end(tmp_path, bytes(data), own_bytes) == size


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_batches_in_a_record_are_no_batches_of_the_log(tmp_path: Path, is_followed: bool, count: int) -> None:
    value = b"".join(batch(BASE + 5 + number) for number in range(count))
    holder = bytearray(encode_batch(batch_of([OracleRecord(BASE, 1000, b"k", value)])))
    holder[20] ^= 1
    data = bytes(holder) + batch(BASE + 1) * is_followed
    assert gap_end(tmp_path, data, len(holder)) == len(holder)


def test_many_batches_in_many_damaged_ones_take_no_forever(tmp_path: Path) -> None:
    parts = b"".join(batch(BASE + 5) + b"\0" for _ in range(20_000))
    assert gap_end(tmp_path, parts + batch(BASE + 1), len(parts)) == len(parts)


def test_a_batch_that_is_too_large_ends_where_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "position_after", pytest.fail)
    data = batch(BASE) + batch(BASE + 1)
    (tmp_path / "log").write_bytes(data)
    with Files().open_reading(tmp_path / "log") as file:
        gapped = GappedScan(LogScan(file), BASE, end=len(data))
        large = next(iter(gapped))
        gap = gapped.gap_of(DecompressedTooLargeError("too large"), large)
        assert gap.end == large.size_bytes
        gapped.resume(gap)
        assert [each.base_offset for each in gapped] == [BASE + 1]


def by_trying_each_place(data: bytes, start: int, next_offset: int) -> int | None:
    """Return where the next sound batch begins, as the search promises, without its limits."""
    for at in range(start, len(data)):
        try:
            found = next(read_batches(data[at:]), None)
            if found is None:
                continue
            found.check_crc()
        except CorruptBatchError:
            continue
        if next_offset <= found.base_offset <= found.last_offset <= BASE + 2**31 - 1:
            return at
    return None


@pytest.mark.property
@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 2**32), st.integers(0, 40), st.sampled_from([64, 200]))
def test_it_finds_what_trying_each_place_finds(kinds: list[int], seed: int, start: int, window_bytes: int) -> None:
    rng, pieces = random.Random(seed), []
    for kind in kinds:
        offset = BASE + rng.randrange(-5, 40)
        sound = encode_entry(entry_of(OracleRecord(offset, 1000, b"k", b"v" * 9), kind)) if kind < 2 else batch(offset)
        flipped = bytearray(sound)
        flipped[rng.randrange(8, len(sound))] ^= 1 << rng.randrange(8)
        pieces.append(
            (sound, sound, sound, bytes(flipped), sound[: rng.randrange(len(sound))], rng.randbytes(30))[kind]
        )
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory:
        patch.setattr(sound_batch_search, "_WINDOW_BYTES", window_bytes)
        found = find(Path(directory), data, next_offset=BASE, start=start)
    assert found == by_trying_each_place(data, start, BASE)


@pytest.mark.parametrize(
    "header",
    [
        (BASE + 9).to_bytes(8, "big") + bytes.fromhex("0000000e 00000000 00 00 ffffffff ffffffff"),
        (BASE + 9).to_bytes(8, "big") + bytes.fromhex("00000031 00000000 02 00000007") + bytes(40),
        (BASE + 9).to_bytes(8, "big") + bytes.fromhex("00011170 00000000 02 00000007 000000"),
    ],
)
def test_what_looks_like_very_many_batches_is_tried_without_making_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: bytes
) -> None:
    made = []
    monkeypatch.setattr(sound_batch_search, "_is_sound", lambda *data: bool(made.append(data)))
    assert find(tmp_path, header * (4_000_000 // len(header))) is None
    assert len(made) < 2000


@pytest.mark.parametrize("next_offset", [2**63 - 1, 2**63])
def test_a_segment_may_begin_at_the_last_offset_there_is(tmp_path: Path, next_offset: int) -> None:
    (tmp_path / "log").write_bytes(bytes(100) + batch(2**63 - 1))
    with Files().open_reading(tmp_path / "log") as file:
        found = find_sound_batch(file, 0, 1000, base_offset=2**63 - 1, next_offset=next_offset)
    assert found == (100 if next_offset < 2**63 else None)
