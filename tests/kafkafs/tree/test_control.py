"""What is in `.kafkafs`, over real data sets and small stores."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from memory_logs import NOW_MS, StandingClock, sent
from path_files import PathFiles

import kafkafs
from kafkafs.content import SizeCache
from kafkafs.locator.descent import child, parse_path
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.paths import (
    ControlPath,
    GroupPath,
    OffsetPath,
    StoreDirectoryPath,
    StoreTimePath,
)
from kafkafs.locator.times import Ago, Instant
from kafkafs.locator.views import View
from kafkafs.render.key_values import KeyValueSyntax
from kafkafs.tree.cluster_views import VIEW_NAMES
from kafkafs.tree.context import TreeContext
from kafkafs.tree.control import ControlNodes
from kafkafs.tree.errors import DamagedError, NotThereError
from kafkafs.tree.node import Directory
from kafkafs.tree.options import Damage, TreeOptions
from storage.files import Files
from storage.log.view import Isolation
from storage.record.encoding import BatchForm
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkafs.tree.node import File, Node
    from storage.files import ReadableFile
    from storage.log.log import Log
    from storage.log.view import LogView

DATASETS = ("kafka-2.2", "kafka-3.9", "kafka-3.9-killed")


@dataclass
class Shown:
    """What the control nodes know of a tree."""

    store: Store
    options: TreeOptions = field(default_factory=TreeOptions)
    clock: StandingClock = field(default_factory=StandingClock)
    control: ControlNodes = field(default_factory=ControlNodes)

    def __post_init__(self) -> None:
        sizes = SizeCache(self.store.files, None)
        self.context = TreeContext(self.store, self.options, clock=self.clock, sizes=sizes)

    def node(self, text: str) -> Node:
        return self.control.node(parse_path(text), self.context)

    def names(self, text: str) -> list[str]:
        node = self.node(text)
        assert isinstance(node, Directory)
        return list(node.names())

    def read(self, text: str) -> str:
        return content(self.node(text)).decode()


def content(node: File) -> bytes:
    reading = node.open()
    assert reading.size_bytes() == node.attributes().size_bytes
    data = bytes(reading.read(0, 1 << 20))
    assert data == b"".join(bytes(reading.read(position, 7)) for position in range(0, len(data), 7))
    return data


class WatchedFiles(PathFiles):
    """Knows which files were opened."""

    def __init__(self) -> None:
        self.opened: set[str] = set()

    def open_reading(self, path: str | os.PathLike[str]) -> ReadableFile:
        self.opened.add(os.path.basename(path))  # noqa: PTH119 -- of what may be a text
        return super().open_reading(path)


def log_dirs(directory: Path) -> list[Path]:
    return [path for path in (directory / "d1", directory / "d2") if path.is_dir()]


@pytest.fixture(params=DATASETS)
def real(request: pytest.FixtureRequest, datasets: Callable[[str], Path]) -> Iterator[Shown]:
    paths = log_dirs(datasets(request.param) / request.param)
    clock = StandingClock()
    with Store.open(paths, mode=Mode.READ_ONLY, files=WatchedFiles(), clock=clock) as store:
        yield Shown(store, clock=clock)


@pytest.fixture
def made() -> Iterator[Shown]:
    """A small store, written here, in two directories."""
    clock = StandingClock()
    with Store.create(["/a", "/b"], files=MemoryFiles(), clock=clock) as store:
        store.topics.create("orders", 2)
        store.topics.create("by-name", 1)
        yield Shown(store, clock=clock)


def log(shown: Shown, topic: str, partition: int) -> Log:
    return shown.store.log(topic, partition)  # type: ignore[return-value]


# The directory


def test_what_is_not_there_is_not_listed(made: Shown) -> None:
    plain = ["README", "version", "options", "transactions", "by-time", "unattached", "groups", "cluster"]
    assert made.names("/.kafkafs") == plain
    for name in ("metrics", "log"):
        with pytest.raises(NotThereError):
            made.node(f"/.kafkafs/{name}")
    made.control = ControlNodes(metrics=lambda: b"one 1\n", log=lambda: b"a line\n")
    assert made.names("/.kafkafs") == [*plain[:3], "metrics", "log", *plain[3:]]
    assert made.read("/.kafkafs/metrics") == "one 1\n"
    assert made.read("/.kafkafs/log") == "a line\n"


def test_a_store_without_internal_topics_has_no_groups_and_no_transactions(made: Shown) -> None:
    assert made.names("/.kafkafs/groups") == []
    with pytest.raises(NotThereError):
        made.control.node(GroupPath("some"), made.context)
    assert made.read("/.kafkafs/transactions").startswith("transactionalId\t")


def test_every_listed_name_leads_somewhere(real: Shown) -> None:
    def walk(path: object) -> int:
        node = real.control.node(path, real.context)
        assert node.attributes().modified_ms > 0
        if isinstance(node, Directory):
            return sum(walk(child(path, name)) for name in node.names())
        assert content(node) or str(path).endswith(".jsonl")  # which may have no line
        return 1

    assert walk(ControlPath()) >= 13


# Texts


def test_the_version_is_the_packages(made: Shown) -> None:
    assert made.read("/.kafkafs/version") == f"{kafkafs.__version__}\n"


def test_the_options_are_told_with_those_of_the_mount(made: Shown) -> None:
    made.context.options = TreeOptions(
        isolation=Isolation.COMMITTED,
        damage=Damage.SKIP,
        list_limit=5,
        may_delete=True,
        key_values=KeyValueSyntax(b"\t", b"\xff=null"),
    )
    made.control = ControlNodes(options={"mountpoint": "/mnt", "durability": "fsync"})
    assert made.read("/.kafkafs/options") == (
        f"pid={os.getpid()}\nstore=/a,/b\nmode=read-write\nisolation=read_committed\ndamage=skip\nlist_limit=5\n"
        "default_partitions=1\nallow_delete=true\nkv_separator=\\t\nnull_marker=\\xff=null\n"
        "mountpoint=/mnt\ndurability=fsync\n"
    )


@pytest.mark.parametrize(("marker", "line"), [(None, ""), (b"", '""'), (b"NULL", "NULL")])
def test_no_marker_and_an_empty_one_are_told_apart(made: Shown, marker: bytes | None, line: str) -> None:
    made.context.options = TreeOptions(key_values=KeyValueSyntax(null_marker=marker))
    assert made.read("/.kafkafs/options").endswith(f"\nnull_marker={line}\n")


def examples(text: str) -> list[list[str]]:
    return [line.split("#")[0].split() for line in text.splitlines() if line.startswith("    ") and "  # " in line]


def test_the_readme_fits_a_screen_and_its_paths_are_there(real: Shown) -> None:
    text = real.read("/.kafkafs/README")
    lines = text.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 120
    commands = examples(text)
    assert len(commands) >= 8
    topics = real.store.topics.inventory.topics
    for command in commands:
        assert command[0] not in {"echo", "mkdir"}, "nothing is written to a store that is only read"
        path = parse_path(command[-1], topics)
        if isinstance(path, StoreTimePath):
            continue
        source = real.context.sources.get(path.log)
        assert not source.topic.startswith("__")
        view = source.log.view
        assert view.start_offset < view.end_offset
        assert not isinstance(path, OffsetPath) or not isinstance(path.name.records, int)


def test_the_readme_of_a_store_that_is_written_says_how(made: Shown) -> None:
    log(made, "orders", 1).append_as_leader(sent(b"value"))
    commands = examples(made.read("/.kafkafs/README"))
    assert ["echo", "hello", ">>", "orders/1/append"] in commands
    assert ["mkdir", "new-topic"] in commands
    assert ["cat", "by-time/-1h"] in commands


def test_the_readme_of_an_empty_store_has_one_thing_to_try() -> None:
    with Store.create(["/a"], files=MemoryFiles(), clock=StandingClock()) as store:
        assert examples(Shown(store).read("/.kafkafs/README")) == [["mkdir", "new-topic"]]


def test_a_topic_may_be_called_by_time(made: Shown) -> None:
    made.store.topics.create("by-time", 1)
    assert ["cat", ".kafkafs/by-time/-1h"] in examples(made.read("/.kafkafs/README"))


# Times


def brute_force(view: LogView, timestamp_ms: int) -> int | None:
    records = (record for segment in view.segments for batch in segment.batches() for record in batch.records())
    wanted = (each for each in records if each.timestamp >= timestamp_ms and each.offset >= view.start_offset)
    return next((record.offset for record in wanted), None)


def test_offsets_of_a_time_are_those_of_brute_force(real: Shown) -> None:
    partitions = sorted(real.store.topics.inventory.partitions())
    views = {(topic, partition): real.store.log(topic, partition).view for topic, partition in partitions}
    largest = {batch.max_timestamp for view in views.values() for each in view.segments for batch in each.batches()}
    times = sorted(largest | {0, 1_600_000_000_000})
    told = set()
    for timestamp_ms in [*times[:: max(len(times) // 12, 1)], times[-1], times[-1] + 1]:
        expected = []
        for (topic, partition), view in views.items():
            offset = brute_force(view, max(timestamp_ms, 0))
            if offset is not None:
                expected.append(f"{topic}:{partition}:{offset}\n")
        said = real.read(f"/.kafkafs/by-time/{max(timestamp_ms, 0)}")
        assert said == "".join(expected)
        told.add(said.count("\n"))
    assert len(told) > 3
    assert 0 in told  # as kafka-get-offsets, which prints no line for a partition without such a record


def test_partitions_are_told_in_the_order_of_their_numbers(made: Shown) -> None:
    made.store.topics.create("many", 11)
    for partition in (10, 2, 1):
        log(made, "many", partition).append_as_leader(sent([(NOW_MS, b"a"), (NOW_MS + 1000, b"b")]))
    log(made, "by-name", 0).append_as_leader(sent([(NOW_MS + 1000, b"c")]))
    assert made.read(f"/.kafkafs/by-time/{NOW_MS + 1}") == "by-name:0:0\nmany:1:1\nmany:2:1\nmany:10:1\n"
    assert made.read(f"/.kafkafs/by-time/{NOW_MS + 1001}") == ""


def test_a_relative_time_moves_on(made: Shown) -> None:
    log(made, "orders", 0).append_as_leader(sent([(NOW_MS - 5000, b"a"), (NOW_MS, b"b")]))
    node = made.control.node(StoreTimePath(Ago(5000)), made.context)
    assert content(node) == b"orders:0:0\n"
    made.clock.ms += 1000
    assert content(node) == b"orders:0:1\n"
    assert node.attributes().modified_ms == made.clock.ms


def test_records_that_are_not_decided_are_not_told_to_readers_of_committed_ones(made: Shown) -> None:
    form = BatchForm(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log(made, "orders", 0).append_as_leader(sent(b"open", form))
    assert made.read("/.kafkafs/by-time/0") == "orders:0:0\n"
    committed = Shown(made.store, TreeOptions(isolation=Isolation.COMMITTED), made.clock)
    assert committed.read("/.kafkafs/by-time/0") == ""


@pytest.mark.parametrize("name", ["earliest", "latest", "-1", "max-timestamp", "2026-13-01", "now..", ""])
def test_what_is_no_time_is_not_in_by_time(name: str) -> None:
    with pytest.raises(BadNameError):
        child(StoreDirectoryPath(View.STORE_BY_TIME), name)


def test_no_time_is_listed(made: Shown) -> None:
    assert made.names("/.kafkafs/by-time") == []


def damage(shown: Shown) -> None:
    """Three partitions with a record each; the middle one cannot be read."""
    for topic, partition in (("by-name", 0), ("orders", 0), ("orders", 1)):
        log(shown, topic, partition).append_as_leader(sent(b"value"))
    directory = shown.store.topics.directory("orders", 0)
    with directory.open_writing("00000000000000000000.log") as file:
        file.write_at(61, [b"\xff" * 5])  # where its record begins


def test_one_damaged_partition_hides_no_other_and_is_not_passed_over(made: Shown) -> None:
    damage(made)
    node = made.control.node(StoreTimePath(Instant(0)), made.context)
    assert node.attributes().size_bytes is None
    reading = node.open()
    assert reading.size_bytes() is None
    lines = b"by-name:0:0\norders:1:0\n"
    assert reading.read(0, 1000) == reading.read_soon(0, 1000) == lines
    for read in (reading.read, reading.read_soon):
        with pytest.raises(DamagedError, match="/orders/0"):
            read(len(lines), 1000)
    assert node.xattrs() == {}


def test_damage_is_skipped_and_counted_where_it_shall_be(made: Shown) -> None:
    damage(made)
    skipping = Shown(made.store, TreeOptions(damage=Damage.SKIP), made.clock)
    node = skipping.node("/.kafkafs/by-time/0")
    assert node.xattrs() == {"user.kafkafs.skipped": b"1"}
    assert content(node) == b"by-name:0:0\norders:1:0\n"


# Directories that are no topic's


def test_unattached_directories_are_listed(tmp_path: Path) -> None:
    names = [f"orders-0.{'0' * 32}-stray", f"gone-3.{'1' * 32}-delete", f"moving-1.{'2' * 32}-future"]
    for name in (*names, "orders-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    clock = StandingClock()
    with Store.open([tmp_path], mode=Mode.READ_ONLY, files=Files(), clock=clock) as store:
        shown = Shown(store, clock=clock)
        assert shown.names("/.kafkafs/unattached") == sorted(names)
        (tmp_path / names[1]).rmdir()
        clock.ms += 1000
        assert shown.names("/.kafkafs/unattached") == sorted([names[0], names[2]])
        for name in shown.names("/.kafkafs/unattached"):
            assert shown.context.sources.get(parse_path(f"/.kafkafs/unattached/{name}")).log.view.end_offset == 0


# The cluster's files


def test_cluster_files_are_the_real_bytes_of_each_log_dir(real: Shown) -> None:
    for number, log_dir in enumerate(real.store.log_dirs):
        place = "/.kafkafs/cluster" if number == 0 else f"/.kafkafs/cluster/{number}"
        names = [name for name in real.names(place) if name not in VIEW_NAMES]
        further = [str(each) for each in range(1, len(real.store.log_dirs))] if number == 0 else []
        assert names[len(names) - len(further) :] == further
        files = names[: len(names) - len(further)]
        present = {path.name for path in log_dir.path.iterdir() if path.is_file() and not path.name.startswith(".")}
        assert set(files) == present - {"bootstrap.checkpoint.part"}
        for name in files:
            node = real.node(f"{place}/{name}")
            assert content(node) == (log_dir.path / name).read_bytes()
            found = node.attributes()
            assert found.modified_ms == (log_dir.path / name).stat().st_mtime_ns // 1_000_000
            status = (log_dir.path / name).stat()
            assert found.access is not None
            assert (found.access.uid, found.access.mode & 0o444) == (status.st_uid, status.st_mode & 0o444)
    assert ".lock" not in real.store.files.opened


def test_the_settings_file_is_among_them(made: Shown) -> None:
    assert "orders/made=true" in made.read("/.kafkafs/cluster/kafkafs-topics.properties")
    assert "kafkafs-topics.properties" not in made.names("/.kafkafs/cluster/1")


@pytest.mark.parametrize(
    "names",
    [(".lock",), ("1", ".lock"), ("0",), ("2",), ("01",), ("orders-0",), ("meta.properties", "x"), ("1", "x", "y")],
)
def test_nothing_else_is_in_cluster(made: Shown, names: tuple[str, ...]) -> None:
    with pytest.raises((NotThereError, BadNameError)):
        made.node(f"/.kafkafs/cluster/{'/'.join(names)}")


def test_a_checkpoint_that_is_replaced_shows_within_a_second(made: Shown) -> None:
    orders = log(made, "orders", 0)
    number = next(
        at for at, log_dir in enumerate(made.store.log_dirs) if log_dir.path in Path(orders.directory).parents
    )
    texts, node = [], None
    for _ in range(2):
        orders.append_as_leader(sent(b"value"))
        orders.flush()
        made.store.write_checkpoints()
        node = node or made.node(f"/.kafkafs/cluster{f'/{number}' if number else ''}/recovery-point-offset-checkpoint")
        texts.append(content(node).decode())
        made.clock.ms += 1000
    assert [re.search("orders 0 ([0-9]+)\n", text)[1] for text in texts] == ["1", "2"]
