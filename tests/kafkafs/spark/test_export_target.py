"""An export publishes all of a run or nothing, once, at whichever step the run was cut."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from path_files import PathFiles

from kafkafs.spark.errors import DataLossError, JobError
from kafkafs.spark.jobs.export_target import ExportedFile, ExportTarget
from kafkafs.spark.jobs.export_watermarks import (
    Exported,
    ExportForm,
    LogNow,
    Watermark,
    check_continues,
    check_keeps,
    check_reaches,
)
from storage.files import Files

if TYPE_CHECKING:
    from pathlib import Path

T = ("t", 0)
FORM = ExportForm(headers=True, values="binary", isolation="read_uncommitted")


class CutError(BaseException):
    """The process has died."""


class CutFiles(PathFiles):
    """The system's files, in a process that dies at a step, before or after it is done."""

    def __init__(self, step: int | None = None, *, is_done: bool = False) -> None:
        self.steps = 0
        self._step = step
        self._is_done = is_done

    def _cut(self, work, *arguments, **options):
        self.steps += 1
        if self.steps - 1 == self._step:
            if self._is_done:
                with suppress(OSError):
                    work(*arguments, **options)
            raise CutError
        return work(*arguments, **options)

    def open_writing(self, path, **options):
        return self._cut(super().open_writing, path, **options)

    def rename(self, old, new):
        return self._cut(super().rename, old, new)

    def remove(self, path):
        return self._cut(super().remove, path)

    def make_directory(self, path, **options):
        return self._cut(super().make_directory, path, **options)

    def remove_directory(self, path):
        return self._cut(super().remove_directory, path)


def visible(root: Path) -> dict[str, str]:
    """What readers see: names that begin with "_" or "." are passed over."""
    return {
        path.name: path.read_text()
        for path in root.rglob("*")
        if path.is_file() and not any(part[0] in "_." for part in path.relative_to(root).parts)
    }


def run(root: Path, files: Files, end: int, *, incremental: bool, text: str = "") -> None:
    """Export offsets up to `end`, two to a file, as tasks and a driver would."""
    with ExportTarget(files, root) as target:
        exported = target.exported()
        mark = exported.watermarks.get(T)
        start = mark.end_offset if incremental and mark is not None else 0
        staging = target.make_staging("run")
        staged = []
        for offset in range(start, end, 2):
            path = staging / f"{offset}.parquet"
            path.write_text(f"{offset} {text}")
            staged.append((path, ExportedFile("t", 0, f"2026-11-2{offset % 4}", offset, min(offset + 2, end) - 1)))
        (staging / "of an attempt that lost").write_text("late")
        done = Exported(FORM, MappingProxyType({T: Watermark(0, end)}))
        target.publish(staged, done, replaced=() if incremental else [T])


def offsets(root: Path) -> list[int]:
    found = [int(text.split()[0]) for text in visible(root).values()]
    assert len(found) == len(set(found))
    return sorted(found)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("incremental", [False, True])
def test_a_run_that_is_cut_and_run_again_has_everything_once(
    tmp_path: Path, *, incremental: bool, is_done: bool
) -> None:
    for step in count():
        root = tmp_path / str(step)
        run(root, Files(), 4, incremental=incremental, text="old")
        before = visible(root)
        files = CutFiles(step, is_done=is_done)
        try:
            run(root, files, 9, incremental=incremental, text="new")
        except CutError:
            pass
        else:
            assert step > 15
            break
        is_decided = (root / "_kafkafs" / "publishing.json").exists()
        if not is_decided and not (root / "_kafkafs" / "watermarks.json").read_text().count('"endOffset": 9'):
            assert visible(root) == before, "nothing is to be seen before it is decided"
        run(root, Files(), 9, incremental=incremental, text="new")
        assert offsets(root) == [0, 2, 4, 6, 8]
        with ExportTarget(Files(), root) as target:
            assert target.exported().watermarks[T] == Watermark(0, 9)
        assert sorted(path.name for path in (root / "_kafkafs").iterdir()) == ["lock", "watermarks.json"]
        if not incremental:
            assert all(text.endswith("new") for text in visible(root).values())


def test_a_run_replaces_only_what_it_exports(tmp_path: Path) -> None:
    run(tmp_path, Files(), 4, incremental=True)
    other = tmp_path / "topic=u/date=2026-11-21"
    other.mkdir(parents=True)
    for name in ("records-u-0-00000000000000000000-00000000000000000001.parquet", "somebody's.parquet"):
        (other / name).write_text("9")
    run(tmp_path, Files(), 2, incremental=False)
    assert len(list(other.iterdir())) == 2
    assert len(visible(tmp_path)) == 3


def test_only_one_run_at_a_time(tmp_path: Path) -> None:
    class HeldFiles(PathFiles):
        def lock(self, _path, /):
            raise BlockingIOError

    with pytest.raises(JobError, match=r"another export to .* is under way; wait for its end"):
        ExportTarget(HeldFiles(), tmp_path).__enter__()


def test_tables_are_told_of_files_once(tmp_path: Path) -> None:
    run(tmp_path, Files(), 4, incremental=True)
    with ExportTarget(Files(), tmp_path) as target:
        assert [file.first_offset for file in target.unregistered()] == [0, 2]
        target.note_registered()
        assert target.unregistered() == []
    run(tmp_path, Files(), 6, incremental=True)
    with ExportTarget(Files(), tmp_path) as target:
        assert [file.first_offset for file in target.unregistered()] == [4]


def test_what_the_watermarks_say_comes_back() -> None:
    marks = {T: Watermark(3, 9, "AAAA", 2), ("t", 1): Watermark(0, 0)}
    said = Exported(FORM, MappingProxyType(marks))
    assert Exported.parse(said.text(), "path") == said
    for text in ("", "{}", '{"version": 1, "form": null}', '{"version": 1, "form": {"x": 1}, "watermarks": []}'):
        with pytest.raises(JobError, match=r"path is not what kafkafs writes .*: export it to another directory"):
            Exported.parse(text, "path")
    with pytest.raises(JobError, match="path is of version 2, known is 1: a newer kafkafs wrote it"):
        Exported.parse('{"version": 2}', "path")


def test_files_of_two_forms_are_not_mixed() -> None:
    said = Exported(FORM)
    said.check_form(FORM)
    Exported().check_form(FORM)
    text = (
        "what is there was exported with headers=true, values=binary, .*, and now it would be headers=true, values=text"
    )
    with pytest.raises(JobError, match=text):
        said.check_form(FORM._replace(values="text"))


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (LogNow(0, 9, "B", None), "t-0 is of another topic than the one of that name that was exported"),
        (
            LogNow(0, 7, "A", None),
            "t-0 was exported up to offset 7, and its next offset is 7, so it was truncated or recreated",
        ),
        (LogNow(0, 9, "A", 6), "t-0 was exported up to offset 7, and its end was truncated and written again since"),
        (LogNow(0, 9, None, -1), "t-0 was exported up to offset 7, and its end was truncated and written again since"),
    ],
)
def test_another_log_than_the_one_that_was_exported(log: LogNow, text: str) -> None:
    with pytest.raises(JobError, match=f"{text}.*: export it to another directory"):
        check_continues(T, Watermark(0, 8, "A", 1), log)


def test_a_log_that_goes_on() -> None:
    mark = Watermark(2, 8, "A", 1)
    for log in (LogNow(0, 8, "A", 8), LogNow(2, 9, None, None), LogNow(2, 20, "A", 15)):
        check_continues(T, mark, log)
        check_keeps(T, mark, log)
        check_reaches(T, mark, log)
    with pytest.raises(JobError, match=r"t-0 is exported from offset 2 on, and begins with 3 by now, .* --incremental"):
        check_keeps(T, mark, LogNow(3, 9))
    check_reaches(T, mark, LogNow(8, 9))
    with pytest.raises(DataLossError, match=r"records of t-0 are gone, .*: offset 8; --accept-data-loss"):
        check_reaches(T, mark, LogNow(9, 9))
