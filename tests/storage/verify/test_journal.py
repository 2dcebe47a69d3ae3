"""A verification that was interrupted, and goes on with what it kept in a file."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from verified_stores import store_of_two

from storage.errors import CorruptMetadataError
from storage.files import Files, NamedFiles
from storage.verify import verification as verify
from storage.verify.journal import VerificationJournal
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from storage.verify.finding import Finding
    from storage.verify.log_dir_check import PartitionTarget


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Make a store in which every log has damage."""
    paths = store_of_two(tmp_path)
    for path in paths:
        for log in path.rglob("*.log"):
            log.write_bytes(log.read_bytes() + b"what?")
    return paths


@pytest.fixture
def verified_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each partition is added that is verified."""
    names: list[str] = []
    real = verify.verify_partition

    def noted(expected: object, **more: object) -> object:
        names.append(expected.directory.name)  # type: ignore[attr-defined]
        return real(expected, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(verify, "verify_partition", noted)
    return names


def opened(kept: Path, paths: Sequence[Path], topics: Sequence[str] = ()) -> VerificationJournal:
    return VerificationJournal(NamedFiles(), kept, [str(path) for path in paths], topics)


def run(paths: list[Path], kept: Path | None, *, stop_after: int | None = None) -> list[Finding]:
    found: list[Finding] = []
    verification = Verification(Files(), paths)
    if kept is None:
        return list(verification.run(lambda: None))
    with closing(opened(kept, paths)) as journal:
        for finding in verification.run(lambda: None, journal=journal):
            found.append(finding)
            if len(found) == stop_after:
                break
        else:
            assert verification.done_bytes == verification.total_bytes
    return found


@pytest.mark.parametrize("stop_after", [1, 2, 3, 4])
def test_it_goes_on_after_the_partitions_that_are_done(
    paths: list[Path], tmp_path: Path, verified_names: list[str], stop_after: int
) -> None:
    due = run(paths, None)
    assert len(due) == len(set(verified_names)) == 4
    verified_names.clear()
    assert run(paths, tmp_path / "kept", stop_after=stop_after) == due[:stop_after]
    assert run(paths, tmp_path / "kept") == due
    assert len(verified_names) == len(set(verified_names)) == 4


def test_a_partition_that_has_changed_is_verified_again(
    paths: list[Path], tmp_path: Path, verified_names: list[str]
) -> None:
    run(paths, tmp_path / "kept")
    (log,) = (log for path in paths for log in path.glob("orders-1/*.log"))
    log.write_bytes(log.read_bytes()[:-5])
    verified_names.clear()
    assert len(run(paths, tmp_path / "kept")) == 3
    assert verified_names == ["orders-1"]


def test_a_line_that_was_cut_off_is_dropped(paths: list[Path], tmp_path: Path, verified_names: list[str]) -> None:
    kept = tmp_path / "kept"
    due = run(paths, kept)
    whole = kept.read_bytes()
    first_line = whole.index(b"\n") + 1
    for end in range(first_line, len(whole), 97):
        kept.write_bytes(whole[:end])
        verified_names.clear()
        assert run(paths, kept) == due
        assert len(verified_names) == 4 - whole[first_line:end].count(b"\n")
        assert kept.read_bytes() == whole


@pytest.mark.parametrize(
    "text",
    ["hello", "hello\n", "\n", "{}\n", "[]\n", "7\n", '{"record":"kafkafs verify"}\n', "[" * 100_000 + "\n", "\0\n"],
)
def test_another_file_stays_as_it_is(paths: list[Path], tmp_path: Path, text: str) -> None:
    (tmp_path / "kept").write_text(text)
    with pytest.raises(CorruptMetadataError, match=r"record.* \(.*kept\)"):
        opened(tmp_path / "kept", paths)
    assert (tmp_path / "kept").read_text() == text


def test_the_record_of_another_verification(paths: list[Path], tmp_path: Path) -> None:
    opened(tmp_path / "kept", paths).close()
    for log_dirs, topics in ((paths[:1], []), (paths, ["orders"])):
        with pytest.raises(CorruptMetadataError, match="other log directories or topics"):
            opened(tmp_path / "kept", log_dirs, topics)


def test_two_at_once(paths: list[Path], tmp_path: Path) -> None:
    with closing(opened(tmp_path / "kept", paths)), pytest.raises(CorruptMetadataError, match="another verification"):
        opened(tmp_path / "kept", paths)
    opened(tmp_path / "kept", paths).close()


def test_lines_that_kafkafs_does_not_write(paths: list[Path], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    run(paths, kept)
    head, line, *_ = kept.read_text().splitlines()
    said = json.loads(line)
    wrong: list[object] = [None, [], {}, {**said, "counts": [1]}, {**said, "counts": "abc"}, {**said, "findings": 3}]
    wrong += [{**said, "findings": [{}]}, {**said, "topicId": "x"}, {**said, "partition": []}]
    wrong += [{key: value for key, value in said.items() if key != missing} for missing in said]
    wrong.append({**said, "findings": [{**said["findings"][0], "severity": "terrible"}]})
    for each in wrong:
        kept.write_text(f"{head}\n{json.dumps(each)}\n")
        with pytest.raises(CorruptMetadataError, match="line 2 is not one"):
            opened(kept, paths)


def test_a_target_is_known_by_its_files(paths: list[Path], tmp_path: Path) -> None:
    targets: list[PartitionTarget] = Verification(Files(), paths).targets
    with closing(opened(tmp_path / "kept", paths)) as journal:
        assert [journal.known(target) for target in targets] == [None] * 4
        journal.remove()
    assert not (tmp_path / "kept").exists()
