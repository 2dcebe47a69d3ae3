"""Very many of something, and names and texts with control characters."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from hostile.store import Case
from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.record.kernel.crc32c import crc32c
from storage.segment.names import SEGMENTS_MAX
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from hostile.store import HostileStore, Scale

MILLION: Final = 1_000_000
ESCAPES: Final = "\x1b[31mred\x1b]0;title\x07\r\x9b2J\x7f"
_PRODUCER: Final = Struct(">qhiqiqiq")
_ABORTED: Final = Struct(">hqqqq")


def many_files_at_the_top(store: HostileStore, scale: Scale) -> None:
    """Put files at the top of the log directory."""
    for number in range(scale.of(MILLION)):
        (store.path / f"junk-{number}.txt").touch()


def many_files_in_a_partition(store: HostileStore, scale: Scale) -> None:
    """Put files into the partition."""
    for number in range(scale.of(MILLION)):
        (store.victim / f"junk-{number}").touch()


def many_segments(store: HostileStore, scale: Scale) -> None:
    """Put empty segments into the partition."""
    for number in range(scale.of(MILLION)):
        (store.victim / f"{1000 + number:020}.log").touch()


def as_many_segments_as_are_read(store: HostileStore, scale: Scale) -> None:
    """Put so many empty segments into the partition that one more would be refused."""
    for number in range(scale.of(SEGMENTS_MAX) - 1):
        (store.victim / f"{1000 + number:020}.log").touch()


def many_partitions(store: HostileStore, scale: Scale) -> None:
    """Make directories that are called like partitions of a topic, and are empty."""
    for number in range(scale.of(MILLION)):
        (store.path / f"many-{number}").mkdir()


def many_producers(store: HostileStore, scale: Scale) -> None:
    """Write a snapshot of the log's end with producers in it that no batch has."""
    count = scale.of(MILLION)
    covered = count.to_bytes(4, "big") + b"".join(
        _PRODUCER.pack(number, 0, 0, number % 60, 0, 2**42, -1, number % 60) for number in range(count)
    )
    header = (1).to_bytes(2, "big") + crc32c(covered).to_bytes(4, "big")
    for existing in store.victim.glob("*.snapshot"):
        existing.unlink()
    (store.victim / f"{60:020}.snapshot").write_bytes(header + covered)


def many_epochs(store: HostileStore, scale: Scale) -> None:
    """Write leader epochs, all of which begin at an offset of their own."""
    count = scale.of(MILLION)
    lines = "".join(f"{number} {number}\n" for number in range(count))
    (store.victim / "leader-epoch-checkpoint").write_text(f"0\n{count}\n{lines}")


def falling_epochs(store: HostileStore, scale: Scale) -> None:
    """Write leader epochs, each of which contradicts all before."""
    count = scale.of(MILLION)
    lines = "".join(f"{count - number} {number}\n" for number in range(count))
    (store.victim / "leader-epoch-checkpoint").write_text(f"0\n{count}\n{lines}")


def many_offsets(store: HostileStore, scale: Scale) -> None:
    """Write a checkpoint of partitions that are not there."""
    count = scale.of(MILLION)
    lines = "".join(f"t {number} 0\n" for number in range(count))
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        (store.path / name).write_text(f"0\n{count}\n{lines}")


def many_aborted(store: HostileStore, scale: Scale) -> None:
    """Write aborted transactions that all overlap, and that no batch has."""
    count = scale.of(MILLION)
    data = b"".join(_ABORTED.pack(0, number, 0, number, 0) for number in range(count))
    store.beside_log(".txnindex").write_bytes(data)


def names_with_escapes(store: HostileStore, _: Scale) -> None:
    """Make directories and files whose names have control characters."""
    for name in (f"evil{ESCAPES}-0", "line\nbreak-0", f"junk{ESCAPES}", f"kafkafs-staged-{ESCAPES}"):
        (store.path / name).mkdir()
    for name in (f"{ESCAPES}.log", f"{5:020}{ESCAPES}.log", "line\nbreak.index", "\udcff.log", f"{ESCAPES}.snapshot"):
        (store.victim / name).write_bytes(b"x")


def texts_with_escapes(store: HostileStore, _: Scale) -> None:
    """Write control characters, and half a character, into everything that is text."""
    escaped = ESCAPES.encode()
    settings = store.path / "kafkafs-topics.properties"
    odd = "victim/retention.ms=\\u001B[31m\nvictim/\\uD800=\\uDFFF\n\\uD800\\u001B/x=y\nvictim/x\\u001B=\\u0007\n"
    settings.write_bytes(settings.read_bytes() + odd.encode())
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (store.path / name).write_bytes(b"0\n1\nevil" + escaped.replace(b"\r", b"") + b" 0 7\n")
    (store.victim / "leader-epoch-checkpoint").write_bytes(b"0\n1\n" + escaped + b"\n")
    (store.path / "cleaner-offset-checkpoint").write_bytes(escaped)
    metadata = store.path / "meta.properties"
    metadata.write_bytes(metadata.read_bytes() + b"broker.id=" + escaped + b"\n" + escaped + b"=" + escaped + b"\n")


def records_with_escapes(store: HostileStore, _: Scale) -> None:
    """Append records whose keys, values and headers have control characters, and group offsets of such groups."""
    text = ESCAPES.encode()
    with Store.open([store.path], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
        rows = [(Clock().now_ms(), text, text, ((ESCAPES, text), ("\udc80", b"\xff")))]
        (batch,) = batches_of_rows(rows, base_offset=None)
        opened.log_to_write("victim", 0).append_as_leader(batch, leader_epoch=0)


def long_values(store: HostileStore, scale: Scale) -> None:
    """Write settings whose values take a careless expression a time that is quadratic in their length."""
    length = scale.of(900_000)
    settings = store.path / "kafkafs-topics.properties"
    lines = [
        f"victim/min.cleanable.dirty.ratio={'1' * length}x",
        f"victim/cleanup.policy=a{' ' * length}b",
        f"victim/follower.replication.throttled.replicas=a{' ' * length}b",
        f"victim/retention.ms={'9' * length}",
    ]
    settings.write_bytes(settings.read_bytes() + "\n".join(lines).encode() + b"\n")


NUMBER_CASES: Final = (
    Case("many files at the top", "many", many_files_at_the_top),
    Case("many files in a partition", "many", many_files_in_a_partition),
    Case("many segments", "many", many_segments),
    Case("as many segments as are read", "many", as_many_segments_as_are_read),
    Case("many partitions", "many", many_partitions),
    Case("many producers", "many", many_producers),
    Case("many epochs", "many", many_epochs),
    Case("many epochs that contradict", "many", falling_epochs),
    Case("many offsets in checkpoints", "many", many_offsets),
    Case("many aborted transactions", "many", many_aborted),
    Case("control characters in names", "control characters", names_with_escapes),
    Case("control characters in texts", "control characters", texts_with_escapes),
    Case("control characters in records", "control characters", records_with_escapes),
    Case("long values of settings", "many", long_values),
)
