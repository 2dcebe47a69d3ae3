"""Only so many logs hold descriptors; those that rest are on disk, are read, and wake when they are changed."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, sent

from storage.clock import Clock
from storage.config import StoreConfig
from storage.errors import PoisonedLogError
from storage.files import Files
from storage.log.awake_logs import DESCRIPTORS_A_LOG, AwakeLogs
from storage.log.log import Log
from storage.log.opening import open_sound_log

if TYPE_CHECKING:
    from storage.log.view import LogView


class Resting:
    """A log that notes when it rests."""

    def __init__(self, *, can_rest: bool = True) -> None:
        self.was_changed = True
        self.can_rest = can_rest
        self.rested = 0

    def rest(self) -> bool:
        self.rested += self.can_rest
        return self.can_rest


class TestTheBound:
    def test_up_to_it_none_rests(self) -> None:
        awake = AwakeLogs(3)
        logs = [Resting() for _ in range(3)]
        for log in logs:
            awake.add(log)
        assert (len(awake), [log.rested for log in logs]) == (3, [0, 0, 0])

    def test_the_longest_unchanged_rests(self) -> None:
        awake = AwakeLogs(3)
        logs = [Resting() for _ in range(5)]
        for log in logs[:3]:
            awake.add(log)
            log.was_changed = False
        logs[0].was_changed = True
        awake.add(logs[3])
        assert [log.rested for log in logs] == [0, 1, 0, 0, 0]
        logs[2].was_changed = True
        logs[0].was_changed = logs[3].was_changed = False
        awake.add(logs[4])
        assert sum(log.rested for log in logs) == 2
        assert (logs[2].rested, logs[4].rested, len(awake)) == (0, 0, 3)

    def test_where_all_were_changed_one_rests_all_the_same(self) -> None:
        awake = AwakeLogs(2)
        logs = [Resting() for _ in range(10)]
        for log in logs:
            awake.add(log)
        assert len(awake) == 2
        assert sum(log.rested for log in logs) == 8
        assert logs[-1].rested == 0

    def test_what_is_being_changed_is_passed_over(self) -> None:
        awake = AwakeLogs(1)
        busy, idle = Resting(can_rest=False), Resting()
        for log in (busy, idle, Resting()):
            awake.add(log)
        assert (busy.rested, idle.rested) == (0, 1)

    def test_what_is_closed_does_not_count(self) -> None:
        awake = AwakeLogs(1)
        closed, other = Resting(), Resting()
        awake.add(closed)
        awake.discard(closed)
        awake.add(other)
        assert (len(awake), closed.rested) == (1, 0)


def descriptors(directory: Path) -> int:
    """Count those of files in the directory."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            found += Path(os.readlink(link)).is_relative_to(directory)  # noqa: PTH115
        except OSError:
            continue
    return found


def values(view: LogView) -> list[bytes | None]:
    return [record.value for batch in view.batches(0) for record in batch.records()]


def opened(directory: Path, awake: AwakeLogs | None = None) -> Log:
    directory.mkdir(exist_ok=True)
    files, clock, rng = Files(), Clock(), random.Random(0)
    files.add_root(directory.parent)  # only a log directory is kept open
    config = StoreConfig.resolve({}).topic({"segment.index.bytes": "4096", "index.interval.bytes": "0"})
    parts = open_sound_log(clock, files.directory(directory), config, rng=rng, producer_expiration_ms=86_400_000)
    return Log(clock, files.directory(directory), config, parts, rng=rng, awake=awake)


class TestALogAtRest:
    def test_it_has_no_descriptors_and_is_read(self, tmp_path: Path) -> None:
        log = opened(tmp_path / "log")
        for number in range(20):
            log.append_as_leader(sent(b"%d" % number))
        assert 0 < descriptors(tmp_path / "log") <= DESCRIPTORS_A_LOG
        view = log.view
        assert log.rest()
        assert descriptors(tmp_path / "log") == 0
        assert log.recovery_point == view.end_offset == 20
        for looked_at in (view, log.view):
            assert values(looked_at) == [b"%d" % number for number in range(20)]
            assert next(looked_at.batches(13)).base_offset == 13
        log.flush()
        assert descriptors(tmp_path / "log") == 0
        assert not log.rest()
        log.close()

    def test_it_wakes_to_be_changed_in_any_way(self, tmp_path: Path) -> None:
        log = opened(tmp_path / "log")
        for change in (
            lambda: log.append_as_leader(sent(b"x")),
            lambda: log.append_all_as_leader([sent(b"x"), sent(b"y")]),
            log.roll,
            lambda: log.append_as_leader(sent(b"z")),
            lambda: log.truncate_to(3),
            lambda: log.advance_start(1),
        ):
            before = log.view.end_offset
            log.rest()
            change()
            assert abs(log.view.end_offset - before) <= 2
        assert log.rest()
        log.close()
        again = opened(tmp_path / "log")
        assert again.view.end_offset == 3
        assert values(again.view) == [b"x", b"x", b"y"]
        again.close()

    def test_it_is_closed_in_the_form_of_a_closed_log(self, tmp_path: Path) -> None:
        rested, other = opened(tmp_path / "rested"), opened(tmp_path / "other")
        for log in (rested, other):
            for number in range(9):
                log.append_as_leader(sent([(NOW_MS + number, b"%d" % number)]))
        rested.rest()
        for log in (rested, other):
            log.close()
        for path in (tmp_path / "other").iterdir():
            assert (tmp_path / "rested" / path.name).read_bytes() == path.read_bytes()

    def test_one_that_is_no_longer_there_refuses_and_is_not_poisoned(self, tmp_path: Path) -> None:
        log = opened(tmp_path / "log")
        log.append_as_leader(sent(b"x"))
        log.rest()
        (tmp_path / "log").rename(tmp_path / "moved")
        with pytest.raises(FileNotFoundError):
            log.append_as_leader(sent(b"y"))
        opened(tmp_path / "log").close()  # another log in its place
        with pytest.raises(FileNotFoundError):
            log.append_as_leader(sent(b"y"))
        assert not log.is_poisoned
        assert descriptors(tmp_path / "log") == 0
        for path in (tmp_path / "log").iterdir():
            path.unlink()
        (tmp_path / "log").rmdir()
        (tmp_path / "moved").rename(tmp_path / "log")
        assert log.append_as_leader(sent(b"y")).first_offset == 1
        log.close()

    def test_a_poisoned_one_does_not_rest(self, tmp_path: Path) -> None:
        log = opened(tmp_path / "log")
        with pytest.raises(PoisonedLogError), log._poison.poisoning:
            raise OSError(5, "failed")
        assert not log.rest()
        log.close()
        assert descriptors(tmp_path / "log") == 0

    def test_many_share_few_descriptors(self, tmp_path: Path) -> None:
        awake = AwakeLogs(4)
        logs = [opened(tmp_path / str(number), awake) for number in range(20)]
        highest = 0

        def write(seed: int) -> None:
            nonlocal highest
            rng = random.Random(seed)
            for _ in range(200):
                rng.choice(logs).append_as_leader(sent(b"x"))
                highest = max(highest, descriptors(tmp_path / "log"))

        threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert highest <= (4 + 2 * len(threads)) * DESCRIPTORS_A_LOG
        assert descriptors(tmp_path / "log") <= 4 * DESCRIPTORS_A_LOG
        assert sum(log.view.end_offset for log in logs) == 600
        for log in logs:
            assert len(values(log.view)) == log.view.end_offset
            log.close()
        assert (len(awake), descriptors(tmp_path / "log")) == (0, 0)
