"""For any bytes of a small file its parser gives its contents or one of our own errors, with the file's path."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hostile.commits import INDEXES, LEDGERS, STAGED_NAMES, staged_file
from hostile.texts import ID, JSON_TEXTS, STAGED, TEXTS, TOKENS, mutated, outcome, place, replaced, stored
from hypothesis import given
from hypothesis import strategies as st

from storage.commit.ledger import Ledger
from storage.commit.staged_file import StagedFile
from storage.config import StoreConfig
from storage.errors import ConfigError, CorruptMetadataError, StagingError, StorageError
from storage.files import Files
from storage.log.epochs import LeaderEpochs
from storage.log.producers.snapshot import SnapshotFiles, encode_snapshot
from storage.log.producers.state import ProducerState
from storage.log_dir import OffsetCheckpoint, read_offsets
from storage.record.kernel.crc32c import crc32c

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Directory

mutations = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 12), st.one_of(st.sampled_from(TOKENS), st.binary(max_size=8))),
    min_size=1,
    max_size=4,
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([2**31, 2**63, 2**80, -1, ID, STAGED, "t", "../x", "\ud800", 10**400]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Directory:
    return Files().directory(tmp_path_factory.mktemp("texts"))


@pytest.mark.property
@pytest.mark.parametrize("name", TEXTS)
@given(changes=mutations)
def test_a_changed_text_is_read_or_refused(directory: Directory, name: str, changes: list[Any]) -> None:
    data, read = TEXTS[name]
    outcome(place(directory, name), name, mutated(data, changes), read)


@pytest.mark.property
@pytest.mark.parametrize("name", JSON_TEXTS)
@given(changes=mutations)
def test_a_changed_json_text_is_read_or_refused(directory: Directory, name: str, changes: list[Any]) -> None:
    said, read = JSON_TEXTS[name]
    outcome(place(directory, name), name, stored(name, mutated(json.dumps(said).encode(), changes)), read)


@pytest.mark.property
@pytest.mark.parametrize("name", JSON_TEXTS)
@given(path=st.lists(st.integers(0, 6), max_size=5), put=values)
def test_json_of_any_value_is_read_or_refused(directory: Directory, name: str, path: list[int], put: object) -> None:
    said, read = JSON_TEXTS[name]
    data = json.dumps(replaced(said, path, put)).encode()
    outcome(place(directory, name), name, stored(name, data), read)


@pytest.mark.parametrize("depth", range(700, sys.getrecursionlimit() + 40, 20))
def test_no_depth_of_nesting_ends_in_another_error(directory: Directory, depth: int) -> None:
    for name, (_, read) in JSON_TEXTS.items():
        nested = "[" * depth + "]" * depth
        outcome(place(directory, name), name, stored(name, f'{{"data_version":{nested}}}'.encode()), read)


def test_a_text_as_it_should_be_is_read(directory: Directory) -> None:
    for name, (data, read) in TEXTS.items():
        there = place(directory, name)
        with open(there.path_of(name), "wb") as file:  # noqa: PTH123 -- as above
            file.write(data)
        read(there)
    for name, (said, read) in JSON_TEXTS.items():
        there = place(directory, name)
        with open(there.path_of(name), "wb") as file:  # noqa: PTH123 -- as above
            file.write(stored(name, json.dumps(said).encode()))
        read(there)


@pytest.mark.property
@given(st.binary(max_size=200), st.integers(0, 3))
def test_a_snapshot_with_a_right_checksum_is_read_or_refused(directory: Directory, body: bytes, count: int) -> None:
    whole = encode_snapshot([ProducerState(n, 0) for n in range(count)])
    covered = body or whole[6:]
    data = whole[:2] + crc32c(covered).to_bytes(4, "big") + covered
    name = f"{7:020}.snapshot"
    outcome(place(directory, name), name, data, lambda directory: SnapshotFiles(directory).read(7))


@pytest.mark.parametrize("what", INDEXES)
def test_a_staged_file_with_a_wrong_index_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / STAGED).write_bytes(staged_file(INDEXES[what]))
    with pytest.raises(StagingError) as caught:
        StagedFile(Files().directory(tmp_path), STAGED)
    assert caught.value.path == str(tmp_path / STAGED)
    assert str(caught.value).encode()


@pytest.mark.parametrize("version", [b"9" * 5000, b"\\ud800"])
def test_the_version_of_the_settings_file_is_told_on_a_line(tmp_path: Path, version: bytes) -> None:
    name = "kafkafs-topics.properties"
    error = outcome(Files().directory(tmp_path), name, b"/version=" + version, TEXTS[name][1])
    assert isinstance(error, ConfigError)


def test_a_length_in_a_staged_file_that_no_batch_has_is_its_damage(tmp_path: Path) -> None:
    index = {"topics": [["t", 1, ID, False]], "runs": [["t", 0, 0, 100, 1]]}
    (tmp_path / STAGED).write_bytes(staged_file(json.dumps(index).encode(), bytes(100)))
    with pytest.raises(StagingError, match="a staged file is damaged"):
        list(StagedFile(Files().directory(tmp_path), STAGED).batches(("t", 0)))


@pytest.mark.parametrize("what", LEDGERS)
def test_a_wrong_ledger_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "kafkafs-commits.json").write_bytes(LEDGERS[what])
    ledger = Ledger([Files().directory(tmp_path)])
    for _ in range(2):
        with pytest.raises(CorruptMetadataError) as caught:
            _ = ledger.current
        assert caught.value.path == str(tmp_path / "kafkafs-commits.json")


@pytest.mark.parametrize("name", STAGED_NAMES)
def test_a_ledger_names_staged_files_only(tmp_path: Path, name: str) -> None:
    said = JSON_TEXTS["kafkafs-commits.json"][0]
    data = json.dumps({**said, "pending": {**said["pending"], "staged": [STAGED, name]}})
    (tmp_path / "kafkafs-commits.json").write_text(data)
    with pytest.raises(CorruptMetadataError, match="is not the name of a staged file"):
        _ = Ledger([Files().directory(tmp_path)]).current


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.cleaner.min.cleanable.ratio", "1" * 300_000 + "x"),
        ("log.cleanup.policy", "a" + " " * 300_000 + "b"),
        ("log.dirs", "," + " " * 300_000 + "x" * 10),
        ("log.retention.ms", "9" * 300_000),
    ],
)
def test_no_value_takes_a_time_that_is_quadratic_in_its_length(key: str, value: str) -> None:
    """With an expression that tries each of the places this takes minutes."""
    with suppress(ConfigError):
        StoreConfig.resolve({key: value})


def test_a_million_epochs_are_read_in_one_pass(tmp_path: Path) -> None:
    """A copy of the epochs for each of them takes minutes."""
    for number_of_epoch in (lambda n: n, lambda n: 200_000 - n):
        lines = "".join(f"{number_of_epoch(n)} {n}\n" for n in range(200_000))
        (tmp_path / "leader-epoch-checkpoint").write_text(f"0\n200000\n{lines}")
        entries = LeaderEpochs.load(Files().directory(tmp_path)).entries
        assert entries[-1].offset == 199_999 or len(entries) == 1


def test_a_line_of_a_checkpoint_has_a_length_that_a_line_has(tmp_path: Path) -> None:
    (tmp_path / OffsetCheckpoint.LOG_START).write_text("0\n1\n" + "ab " * 5_000_000)
    with pytest.raises(StorageError, match="malformed line"):
        read_offsets(Files().directory(tmp_path), OffsetCheckpoint.LOG_START)
