"""The views of a store: one table, a row a view.

A row says where a view is, what kind it is, what it shows and what writing to it does. From the rows follow the names
of the grammar and of listings, the names that a refusal tells, what the kernel may cache, what is counted before it is
opened, what takes records, and the table of every path on the page of semantics. The tree has a maker for each row.
Rows stand in the order of listings.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class Level(Enum):
    """The directory that a view is in; the value is how its path begins."""

    ROOT = ""
    TOPIC = "<topic>/"
    PARTITION = "<topic>/<partition>/"  # and the directories in `unattached`
    CONTROL = ".kafkafs/"


class Kind(Enum):
    """What a view is, which decides how it is cached, listed, counted and written."""

    DIRECTORY = auto()
    LINK = auto()
    RECORD = auto()  # immutable
    STORED = auto()  # a file of the log, or its text: immutable once the log goes on in the next file
    STREAM = auto()  # the whole log, growing; its size takes counting
    TEXT = auto()  # made at each open
    SETTING = auto()  # a text that can be written
    INPUT = auto()  # takes records, and is empty to readers


class View(Enum):
    """A row: level, name, kind, what it is, and what writing does if that is more than yes or no.

    A name may have placeholders, such as `<offset>`. `str` is the name.
    """

    ROOT = Level.ROOT, "", Kind.DIRECTORY, "the topics"

    TOPIC = (
        Level.ROOT,
        "<topic>",
        Kind.DIRECTORY,
        "a topic",
        "`mkdir` makes it, `rmdir` deletes it if `-o allow_delete` is given",
    )
    CONFIG = (
        Level.TOPIC,
        "config",
        Kind.SETTING,
        "what holds for the topic, `key=value  # where it comes from` a line",
        "yes: `key=value` sets, `key=default` unsets",
    )
    PARTITION = Level.TOPIC, "<partition>", Kind.DIRECTORY, "a partition", "`mkdir` of the next number adds it"

    OFFSET = Level.PARTITION, "offset", Kind.DIRECTORY, "the newest records by their offsets"
    RECORD = (
        Level.PARTITION,
        "offset/<record>",
        Kind.RECORD,
        "one record: exactly its value's bytes; its key, headers and more are xattrs",
    )
    RECORD_RANGE = (
        Level.PARTITION,
        "offset/<records>",
        Kind.TEXT,
        "a run of records, each value followed by a newline",
    )
    BY_TIME = Level.PARTITION, "by-time", Kind.DIRECTORY, "times that the time index has noted"
    TIME = Level.PARTITION, "by-time/<time>", Kind.LINK, "a link to the first record at or after a time"
    TIME_RANGE = Level.PARTITION, "by-time/<times>", Kind.TEXT, "the records of a time range"
    SEGMENTS = Level.PARTITION, "segments", Kind.DIRECTORY, "the real directory"
    SEGMENT = Level.PARTITION, "segments/<file>", Kind.STORED, "a real file as it is"
    SEGMENT_TEXT = Level.PARTITION, "segments/<file>.txt", Kind.STORED, "the same, as `kafka-dump-log` prints it"
    VALUES = Level.PARTITION, "values", Kind.STREAM, "every value, followed by a newline; grows"
    KEYS = Level.PARTITION, "keys", Kind.STREAM, "every key, followed by a newline; grows"
    RECORDS = Level.PARTITION, "records.jsonl", Kind.STREAM, "every record as a line of JSON; grows"
    INFO = Level.PARTITION, "info", Kind.TEXT, "offsets, sizes, segments, times, epoch: `key=value` a line"
    LOG_START_OFFSET = (
        Level.PARTITION,
        "log-start-offset",
        Kind.SETTING,
        "where the log begins",
        "yes: a number deletes the records below it",
    )
    TRANSACTIONS = Level.PARTITION, "transactions", Kind.TEXT, "open and aborted transactions"
    PRODUCERS = Level.PARTITION, "producers", Kind.TEXT, "the live states of producers"
    LEADER_EPOCHS = Level.PARTITION, "leader-epochs", Kind.TEXT, "each leader's epoch and first offset"
    RETENTION_PLAN = (
        Level.PARTITION,
        "retention.plan",
        Kind.TEXT,
        "what retention would delete now, segment by segment, and why",
    )
    COMPACTION_PLAN = (
        Level.PARTITION,
        "compaction.plan",
        Kind.TEXT,
        "what compaction would rewrite now, and what would be left of it",
    )
    DAMAGE_LIST = (
        Level.PARTITION,
        "damage.jsonl",
        Kind.TEXT,
        "each range of bytes that does not decode: why, the offsets around it, what would save it",
    )
    DAMAGE = Level.PARTITION, "damage", Kind.DIRECTORY, "those ranges"
    DAMAGED_RANGE = Level.PARTITION, "damage/<position>", Kind.TEXT, "the bytes of one, as they are"
    APPEND = Level.PARTITION, "append", Kind.INPUT, "takes a record a line"
    APPEND_JSONL = Level.PARTITION, "append.jsonl", Kind.INPUT, "takes what `records.jsonl` gives"
    APPEND_KV = Level.PARTITION, "append.kv", Kind.INPUT, "takes a key, a tab and a value a line"
    APPEND_RAW = (
        Level.PARTITION,
        "append.raw",
        Kind.INPUT,
        "takes one record: all that is written until the file is closed",
    )
    APPEND_BATCH = Level.PARTITION, "append.batch", Kind.INPUT, "takes record batches as a producer sends them"

    STORE_BY_TIME_AT_ROOT = Level.ROOT, "by-time", Kind.DIRECTORY, "is empty when listed"
    STORE_TIME_AT_ROOT = (
        Level.ROOT,
        "by-time/<time>",
        Kind.TEXT,
        "`topic:partition:offset` a line: where that time begins in every partition",
    )
    CONTROL = Level.ROOT, ".kafkafs", Kind.DIRECTORY, "what is no topic's"
    README = Level.CONTROL, "README", Kind.TEXT, "the files of the mount, with commands to try"
    VERSION = Level.CONTROL, "version", Kind.TEXT, "the version of kafkafs"
    OPTIONS = Level.CONTROL, "options", Kind.TEXT, "the process, the store and every option of this mount"
    METRICS = Level.CONTROL, "metrics", Kind.TEXT, "what the mount has done so far, as Prometheus text"
    LOG = Level.CONTROL, "log", Kind.TEXT, "the last lines of the mount's log"
    OPEN_TRANSACTIONS = (
        Level.CONTROL,
        "transactions",
        Kind.TEXT,
        "every open transaction: its producer, state, age, partitions, which it holds up, and what would end it",
    )
    STORE_BY_TIME = (
        Level.CONTROL,
        "by-time",
        Kind.DIRECTORY,
        "the same as `by-time` at the root, which a topic of that name would hide",
    )
    STORE_TIME = Level.CONTROL, "by-time/<time>", Kind.TEXT, "the same"
    UNATTACHED = (
        Level.CONTROL,
        "unattached",
        Kind.DIRECTORY,
        "partition directories that end in `-stray`, `-future` or `-delete`",
    )
    UNATTACHED_LOG = (
        Level.CONTROL,
        "unattached/<directory>",
        Kind.DIRECTORY,
        "one of them, with the views of a partition in it",
    )
    GROUPS = (
        Level.CONTROL,
        "groups",
        Kind.DIRECTORY,
        "the consumer, share and streams groups in `__consumer_offsets`",
    )
    GROUP = (
        Level.CONTROL,
        "groups/<group>",
        Kind.TEXT,
        "what a group committed, where the logs end, its lag and members, as `kafkafs groups` prints it",
    )
    CLUSTER = Level.CONTROL, "cluster", Kind.DIRECTORY, "what the first log dir says of its broker"
    CLUSTER_FILE = (
        Level.CONTROL,
        "cluster/<file>",
        Kind.TEXT,
        "`meta.properties`, the checkpoints, the settings of topics",
    )
    CLUSTER_VIEW = (
        Level.CONTROL,
        "cluster/<view>",
        Kind.TEXT,
        (
            "`topics`, `brokers`, `configs`, `features`, `quotas`, `acls` and `voters`, as the metadata log of a KRaft "
            "cluster has them; `<view>.jsonl` is the same as JSON lines"
        ),
    )
    CLUSTER_LOG_DIR = Level.CONTROL, "cluster/<number>", Kind.DIRECTORY, "what a further log dir says"
    CLUSTER_LOG_DIR_FILE = Level.CONTROL, "cluster/<number>/<file>", Kind.TEXT, "the same files of that one"

    def __init__(self, level: Level, name: str, kind: Kind, about: str, writing: str = "") -> None:
        self.level = level
        self.kind = kind
        self.about = about
        self.is_written = kind in {Kind.SETTING, Kind.INPUT}
        self.writing = writing or ("yes" if self.is_written else "no")
        self.path = f"{level.value}{name}{'/' if kind is Kind.DIRECTORY else ''}"
        self._text = name

    __hash__ = object.__hash__  # that of Enum is slow, and paths are hashed in each request

    def __str__(self) -> str:
        return self._text


def _named(level: Level) -> Mapping[str, View]:
    return {str(view): view for view in View if view.level is level and not set("</") & set(str(view)) and str(view)}


PARTITION_VIEWS: Final = _named(Level.PARTITION)
"""The views in a partition by their names, in the order of listings."""
CONTROL_VIEWS: Final = _named(Level.CONTROL)
"""The views in `.kafkafs`."""
