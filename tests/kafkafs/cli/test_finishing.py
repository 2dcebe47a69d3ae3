"""Commands that change a store finish what they have begun, although output fails or the user interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from memory_logs import sent

from kafkafs.cli.finishing import Change, finishing
from storage.clock import Clock
from storage.files import Files
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from pathlib import Path

SMALL = {"segment.bytes": "300", "segment.index.bytes": "120", "retention.ms": "-1", "retention.bytes": "1"}
TOPICS = [f"t{number}" for number in range(6)]
FAILING = {
    ">/dev/full": (3, "standard output: No space left on device"),
    ">&-": (3, "standard output: Bad file descriptor"),
    "> >(exec >&- <&-)": (141, "standard output: Broken pipe"),
}


def run(script: str, store: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"trap '' PIPE; {script}"],
        capture_output=True,
        text=True,
        env={**os.environ, "K": f"{sys.executable} -P -m kafkafs", "S": str(store)},
        timeout=60,
        check=False,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of ours with six topics, each with two due segments."""
    path = tmp_path / "store"
    with Store.create([path], files=Files(), clock=Clock()) as made:
        for topic in TOPICS:
            made.topics.create(topic, 1, SMALL)
            for number in range(6):
                made.log(topic, 0).append_as_leader(sent(b"%03d" % number * 20))
    return path


def starts(store: Path) -> list[int]:
    with Store.open([store], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        return [opened.log(topic, 0).view.start_offset for topic in opened.topics.inventory.topics]


@pytest.mark.parametrize(
    ("redirection", "options"), [*((each, "") for each in FAILING), (">/dev/full", "--json"), (">/dev/full", "--table")]
)
def test_retention_goes_on_without_output(store: Path, redirection: str, options: str) -> None:
    code, reason = FAILING[redirection]
    done = run(f"$K retention $S --apply {options} {redirection}", store)
    assert (done.returncode, done.stderr) == (code, f"kafkafs: everything was done, but {reason}\n")
    assert starts(store) == [4] * len(TOPICS)
    assert (store / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("redirection", FAILING)
def test_appending_goes_on_without_receipts_and_says_that_all_is_stored(filled_store: Path, redirection: str) -> None:
    code, reason = FAILING[redirection]
    done = run(f"seq 300000 | $K append $S orders/1/append --receipts {redirection}", filled_store)
    assert (done.returncode, done.stderr) == (code, f"kafkafs: everything is stored, but {reason}\n")
    assert run("$K cat $S orders/1/values | tail -n 1", filled_store).stdout == "300000\n"


@pytest.mark.parametrize("redirection", FAILING)
def test_a_topic_is_deleted_without_output(store: Path, redirection: str) -> None:
    code, reason = FAILING[redirection]
    done = run(f"$K topics delete $S t3 --apply {redirection}", store)
    assert (done.returncode, done.stderr) == (code, f"kafkafs: the topic is deleted, but {reason}\n")
    assert not list(store.glob("t3*"))


@pytest.mark.parametrize("redirection", FAILING)
def test_compacting_goes_on_without_output(store: Path, redirection: str) -> None:
    with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        for topic in TOPICS:
            opened.topics.change_config(topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    code, reason = FAILING[redirection]
    assert "6 partitions: 6 to be compacted" in run("$K compact $S", store).stdout
    done = run(f"$K compact $S --apply {redirection}", store)
    assert (done.returncode, done.stderr) == (code, f"kafkafs: everything was done, but {reason}\n")
    assert "6 partitions: 0 to be compacted" in run("$K compact $S", store).stdout


def interrupted(code: str) -> subprocess.CompletedProcess[str]:
    """Run kafkafs, with `code` before it that has SIGINT come at some moment."""
    program = f"import os, signal\ndef interrupt(): os.kill(os.getpid(), signal.SIGINT)\n{code}"
    return subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_an_interrupt_lets_retention_finish_the_partition_that_it_is_at(store: Path) -> None:
    code = f"""
from storage.store.cleaning import StoreRetention
apply = StoreRetention.apply
def interrupted(self, topic, partition, plan):
    if topic == "t2":
        interrupt()
    return apply(self, topic, partition, plan)
StoreRetention.apply = interrupted
from kafkafs.cli import main
main(["retention", {str(store)!r}, "--apply", "--table"], prog_name="kafkafs")
"""
    done = interrupted(code)
    assert done.returncode == 130
    assert done.stderr == (
        "kafkafs: interrupted: what was begun is finished first; interrupt again to stop at once\n"
        "kafkafs: interrupted\n"
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["topic", "t0", "t1", "t2"]
    assert starts(store) == [4, 4, 4, 0, 0, 0]
    assert (store / ".kafka_cleanshutdown").exists()


def test_an_append_that_waits_for_input_is_interrupted_at_once(store: Path) -> None:
    command = [sys.executable, "-P", "-m", "kafkafs", "append", str(store), "t0/0/append", "--receipts"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"6..7\n"  # it waits now, or will before long
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read().endswith(b"kafkafs: interrupted\n")
    assert run("$K cat $S t0/0/offset/last-2..", store).stdout == "one\ntwo\n"
    assert (store / ".kafka_cleanshutdown").exists()


def test_an_interrupt_is_told_to_the_block_and_raised_at_its_end() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), finishing() as change:  # noqa: PT012 -- what is done in the block is the test
        steps.append(change.is_interrupted)
        os.kill(os.getpid(), signal.SIGINT)
        steps.append(change.is_interrupted)
    assert steps == [False, True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_interrupt_comes_at_once() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), finishing():  # noqa: PT012 -- see above
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("one")
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("two")
    assert steps == ["one"]


def test_what_waits_is_interrupted_at_once() -> None:
    change = Change()
    with pytest.raises(KeyboardInterrupt), change.waiting():
        change.interrupt(signal.SIGINT, None)
    change.interrupt(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt), change.waiting():
        pytest.fail("it does not begin to wait")


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with finishing() as change:
            os.kill(os.getpid(), signal.SIGINT)
            assert not change.is_interrupted
    finally:
        signal.signal(signal.SIGINT, before)
