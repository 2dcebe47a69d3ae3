"""A write to `append` and its sisters that is refused or fails leaves nothing; what was taken outlives the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from memory_logs import SETTINGS, LogOnMemory, sent

from kafkafs.locator.paths import PartitionFilePath
from kafkafs.locator.views import View
from kafkafs.tree.append_file import AppendFile
from kafkafs.tree.errors import NotPermittedError, ReadOnlyTreeError
from storage.errors import (
    BatchTooLargeError,
    ChecksumError,
    DiskFullError,
    InvalidRecordError,
    PoisonedLogError,
    RecordTooLargeError,
    StorageError,
)
from storage.log.flushing import Durability
from storage.testing.faults import Cut, CutError, Effect

if TYPE_CHECKING:
    from conftest import Views

    from kafkafs.tree.append_file import Appending

ONE_MESSAGE = {**SETTINGS, "max.message.bytes": "300"}
OLD = b'{"value":"v","timestamp":1}\n'
CORRUPT = sent(b"value").replace(b"value", b"eulav")
REFUSED = [
    (View.APPEND, ONE_MESSAGE, b"good\n" + b"x" * 301 + b"\n", RecordTooLargeError),
    (View.APPEND, ONE_MESSAGE, b"good\n" + b"x" * 290 + b"\nrest", RecordTooLargeError),
    (View.APPEND_KV, {**SETTINGS, "cleanup.policy": "compact"}, b"k\tv\nno key\n", InvalidRecordError),
    (View.APPEND_JSONL, SETTINGS, b'{"value":"v"}\n{"value":\n{"value"', InvalidRecordError),
    (View.APPEND_JSONL, SETTINGS, b'{"value":"v"}\n{"unknown":1}\n', InvalidRecordError),
    (View.APPEND_JSONL, {**SETTINGS, "message.timestamp.before.max.ms": "1000"}, OLD, InvalidRecordError),
    (View.APPEND_JSONL, ONE_MESSAGE, b'{"value":"%s"}\n' % (b"x" * 290), RecordTooLargeError),
    (View.APPEND_BATCH, SETTINGS, sent(b"good") + CORRUPT, ChecksumError),
    (View.APPEND_BATCH, ONE_MESSAGE, sent(b"x" * 290), BatchTooLargeError),
    (View.APPEND_BATCH, SETTINGS, b"no batch at all, but long enough for its header to be read" * 2, None),
    (View.APPEND_RAW, ONE_MESSAGE, b"x" * 301, RecordTooLargeError),
]
GOOD = {
    View.APPEND: b"later\n",
    View.APPEND_KV: b"key\tlater\n",
    View.APPEND_JSONL: b'{"key":"key","value":"later"}\n',
    View.APPEND_BATCH: sent(b"later"),
    View.APPEND_RAW: b"later",
}


def opened(views: Views, lab: LogOnMemory, form: View = View.APPEND) -> Appending:
    source = views.memory(lab)
    return AppendFile(PartitionFilePath(source.path, form), source, lab.clock).open_writing()


@pytest.mark.parametrize(("form", "settings", "data", "error"), REFUSED)
def test_a_write_that_is_refused_stores_nothing_and_later_ones_are_taken(
    views: Views, form: View, settings: dict[str, str], data: bytes, error: type[StorageError] | None
) -> None:
    lab = LogOnMemory(settings)
    writing = opened(views, lab, form)
    steps = lab.files.steps
    with pytest.raises(error or InvalidRecordError, match=rf"\(.*/topic/0/{form}") as refused:
        writing.write(data)
    assert "\n" not in str(refused.value)
    assert (lab.values(), lab.files.steps) == ([], steps)
    writing.flush()
    assert lab.values() == []
    writing.write(GOOD[form])
    writing.flush()
    assert lab.values() == [b"later"]


def test_a_refused_write_says_which_of_its_lines_it_was(views: Views) -> None:
    writing = opened(views, LogOnMemory(SETTINGS), View.APPEND_JSONL)
    with pytest.raises(InvalidRecordError, match=r"^line 2: this is not JSON.*\(/topic/0/append.jsonl\)$"):
        writing.write(b'{"value":"v"}\n{"value"}\n{"value":"w"}\n')


def test_the_line_in_progress_is_dropped_with_the_write_up_to_its_newline(views: Views) -> None:
    lab = LogOnMemory(ONE_MESSAGE)
    writing = opened(views, lab)
    writing.write(b"kept\nhalf a li")
    with pytest.raises(RecordTooLargeError):
        writing.write(b"ne\n" + b"x" * 400 + b"\nand anoth")
    writing.write(b"er\nlater\n")
    assert lab.values() == [b"kept", b"later"]


@pytest.mark.parametrize(("form", "data"), [(View.APPEND_JSONL, b'{"value"'), (View.APPEND_BATCH, sent(b"value")[:-1])])
def test_what_only_a_flush_can_refuse_is_refused_there_once(views: Views, form: View, data: bytes) -> None:
    lab = LogOnMemory(SETTINGS)
    writing = opened(views, lab, form)
    writing.write(data)
    with pytest.raises(InvalidRecordError):
        writing.flush()
    writing.flush()
    writing.write(GOOD[form])
    assert lab.values() == [b"later"]


def test_a_log_that_may_not_be_written_refuses_at_the_open(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    followed = views.memory(lab, is_followed=True)
    internal = views.memory(lab)
    internal.topic = "__consumer_offsets"
    for source, error in ((followed, ReadOnlyTreeError), (internal, NotPermittedError)):
        file = AppendFile(PartitionFilePath(source.path, View.APPEND), source, lab.clock)
        assert not file.attributes().is_writable
        with pytest.raises(error, match="append"):
            file.open_writing()


# Faults


@pytest.mark.crash
def test_what_was_acknowledged_survives_the_process_once(views: Views) -> None:
    step = deaths = 0
    while True:
        lab = LogOnMemory(ONE_MESSAGE)
        writing = opened(views, lab)
        lab.files.cut = Cut(lab.files.steps + step, Effect.DEATH, seed=step)
        written = acknowledged = 0
        try:
            for number in range(6):
                written += 12
                writing.write(b"".join(b"%d" % (number * 12 + line) * 30 + b"\n" for line in range(12)))
                acknowledged = written
        except CutError:
            deaths += 1
        lab.open_after_crash(lab.files.after_process_death())
        assert lab.values() == [b"%d" % number * 30 for number in range(len(lab.values()))]
        assert acknowledged <= len(lab.values()) <= written
        if acknowledged == 72:
            break
        step += 1
    assert deaths > 10


@pytest.mark.crash
@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("effect", [Effect.DISK_FULL, Effect.DISK_ERROR])
def test_a_disk_that_fails_leaves_nothing_of_the_write(views: Views, effect: Effect, durability: Durability) -> None:
    outcomes = {"refused": 0, "poisoned": 0}
    data = b"".join(b"%d" % number * 60 + b"\n" for number in range(40)) + b"half a li"
    step = 0
    while True:
        lab = LogOnMemory({**ONE_MESSAGE, "segment.bytes": "2000"}, durability=durability)
        writing = opened(views, lab)
        writing.write(b"before\n")
        lab.files.cut = Cut(lab.files.steps + step, effect, seed=step)
        try:
            writing.write(data)
        except DiskFullError:
            outcomes["refused"] += 1
            assert not lab.log.is_poisoned
            writing.write(b"ne\nlater\n")
            assert lab.values() == [b"before", b"later"]
        except PoisonedLogError:
            outcomes["poisoned"] += 1
            assert lab.values() == [b"before"]
            for more in (b"ne\nlater\n", b"half"):
                with pytest.raises(PoisonedLogError):
                    writing.write(more)
            writing.flush()
            assert writing.read(100) == b"0..0\n"
        else:
            if lab.files.steps <= lab.files.cut.step:
                break
        step += 1
    assert outcomes["poisoned"] > 0
    assert (outcomes["refused"] > 10) == (effect is Effect.DISK_FULL)


def test_sync_brings_to_disk_what_was_written(views: Views) -> None:
    lab = LogOnMemory(SETTINGS)
    writing = opened(views, lab)
    writing.write(b"line\n")
    assert lab.log.recovery_point == 0
    writing.sync()
    assert lab.log.recovery_point == 1
    lab.open_after_crash(lab.files.after_power_loss(seed=1))
    assert lab.values() == [b"line"]
