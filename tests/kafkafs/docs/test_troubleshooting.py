"""The page on errors has every sentence that a user can meet, and none that the code does not say."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from mounts import require_fuse

import kafkafs
from kafkafs.mount.mountpoints.kernel_mount import sentence_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from consoles import Console

# A mount that another worker looks at just then cannot be taken away.
pytestmark = pytest.mark.xdist_group("mount")

PACKAGES: Final = Path(kafkafs.__file__).parents[1]
HOLE: Final = "\0"
KINDS: Final = frozenset(
    {
        "BackupError",
        "BadParameter",
        "BatchTooLargeError",
        "BuildError",
        "CompactionError",
        "CompactionStoppedError",
        "ConfigError",
        "DamagedError",
        "DiskFullError",
        "DuplicatePartitionError",
        "GoneError",
        "InvalidInputError",
        "InvalidProducerEpochError",
        "InvalidRecordError",
        "InvalidTopicError",
        "InvalidTransactionStateError",
        "JobError",
        "LogChangedError",
        "MetadataLossError",
        "MountError",
        "NotAStoreError",
        "NotPermittedError",
        "NotThereError",
        "ObjectStoreError",
        "OffsetOutOfRangeError",
        "OutOfOrderSequenceError",
        "PoisonedLogError",
        "ReadOnlyStoreError",
        "ReadOnlyTreeError",
        "RecordTooLargeError",
        "SeenLessError",
        "StagingError",
        "StoreLockedError",
        "TopicExistsError",
        "TransactionCoordinatorFencedError",
        "UnexpectedOffsetError",
        "UnknownPartitionError",
        "UsageError",
    }
)
"""The errors whose sentences are all on the page. What is said of damaged bytes is not: the page says where to look."""
ROOMS: Final = (
    "kafkafs/backup",
    "kafkafs/cli",
    "kafkafs/mount",
    "kafkafs/tree",
    "kafkafs/render",
    "kafkafs/spark",
    "storage/cleanup",
    "storage/config",
    "storage/commit",
    "storage/files",
    "storage/log",
    "storage/log_dir",
    "storage/store",
    "storage/topics",
)


@cache
def pattern_of(sentence: str) -> re.Pattern[str]:
    """Return the pattern of a sentence of the page: any text in each hole, and the place after it."""
    return re.compile(".+".join(map(re.escape, re.split(r"<[a-z ]+>", sentence))) + r"( \(.+\))?")


class Template(NamedTuple):
    """A text in the code with holes for what is formatted into it."""

    place: str
    text: str

    @property
    def is_telling(self) -> bool:
        return len(re.findall("[a-z]", self.text)) >= 4

    def makes(self, sentence: str) -> bool:
        """Whether this is the sentence, however much of it each of the two leaves open."""
        return bool(made_by(self.text).fullmatch(sentence) or pattern_of(sentence).fullmatch(self.text))


@cache
def made_by(text: str) -> re.Pattern[str]:
    """What a text of the code may become."""
    return re.compile(".*".join(map(re.escape, text.split(HOLE))))


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return HOLE


def trees(rooms: tuple[str, ...]) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((PACKAGES / room).rglob("*.py")):
            yield str(path.relative_to(PACKAGES)), ast.parse(path.read_text())


def all_templates() -> list[Template]:
    found = (
        Template(place, text_of(node).replace("%s", HOLE))
        for place, tree in trees(("kafkafs", "storage"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)
    )
    return [template for template in found if template.is_telling]


def templates_of_errors() -> Iterator[Template]:
    for place, tree in trees(ROOMS):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in KINDS:
                template = Template(place, text_of(node.args[0]))
                if template.is_telling:
                    yield template


def sentences_of(page: str) -> list[str]:
    heads = re.findall(r"^- `.+`(?:,\n  `.+`)*$", page, re.MULTILINE)
    return [text.strip() for head in heads for _, text in re.findall(r"(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", head)]


@pytest.fixture(scope="module")
def sentences(page: Callable[[str], str]) -> list[str]:
    found = sentences_of(page("troubleshooting"))
    assert len(found) > 100
    return found


def test_the_page_has_no_sentence_that_the_code_does_not_say(sentences: list[str]) -> None:
    templates = all_templates()
    unknown = [sentence for sentence in sentences if not any(_is_made(sentence, templates))]
    assert not unknown, "\n".join(unknown)


def _is_made(sentence: str, templates: list[Template]) -> Iterator[bool]:
    """Yield whether a template makes it, or its part after a place or a name in front."""
    forms = [sentence]
    forms += [sentence.removeprefix(front) for front in ("<path>: ", "<name> is not ") if sentence.startswith(front)]
    return (template.makes(form) for template in templates for form in forms)


def test_every_sentence_that_a_user_can_meet_is_on_the_page(sentences: list[str]) -> None:
    missing = [
        f"{template.place}: {template.text.replace(HOLE, '<…>')}"
        for template in templates_of_errors()
        if not any(template.makes(sentence) for sentence in sentences)
    ]
    assert not missing, "\n".join(missing)


OF_COMMANDS: Final = {
    "kafkafs mount store full": "<path> is not empty: what is in it would be hidden; mount at an empty or a new "
    "directory",
    "kafkafs mount store full/file": "<path> is not a directory: a store is mounted at an empty one",
    "kafkafs mount store a/b": "<path> cannot be made: its parent <directory> does not exist; make that first",
    "kafkafs mount store store/mnt": "<path> is in the store itself (<directory>): mount it elsewhere",
    "kafkafs mount store mnt": "<path>: <store> is mounted here already; `kafkafs umount <path>` takes it away",
    "kafkafs mount store other": "a broker or another kafkafs has the store open for writing; stop that, or open it "
    "read-only",
    "kafkafs mount store other -o isolaton=x": "there is no mount option <name>; <hint>",
    "kafkafs mount store other -o rw=1": "the option <name> has no value: write -o <name>",
    "kafkafs mount store other -o uid": "the option <name> needs a value: write -o <name>=…",
    "kafkafs mount store other -o uid=me": "the option <name> cannot be <value>: <reason>",
    "kafkafs mount full other": "this is no store: there is neither a meta.properties nor a partition with a segment "
    "in it<meant>",
    "kafkafs mount full/file other": "a store is a directory, and this is a file",
    "kafkafs mount gone/gone other": "its parent <directory> does not exist; make that first",
    "kafkafs mount gone other -o ro": "there is no such directory",
    "kafkafs ls store,store": "the directory is given twice",
    "kafkafs ls ,": "a store is the path of a directory, or several with commas between them",
    "kafkafs umount full": "<path>: nothing of kafkafs is mounted here; `findmnt -t fuse.kafkafs` lists what is",
    "(cd mnt; kafkafs umount ../mnt)": "<path> is in use by <processes>: end these, or unmount it with --force",
    "kafkafs ls store 'a b'": "<name> is not a topic: its name has up to 249 ASCII letters, digits, '.', '_' and '-'; "
    ".kafkafs is no topic's",
    "kafkafs ls store orders/x": "<name> is not in a topic; there are config and the numbers of its partitions",
    "kafkafs ls store orders/0/x": "<name> is not in a partition; there are <names>",
    "kafkafs ls store .kafkafs/x": "<name> is not in .kafkafs; there are <names>",
    "kafkafs ls store orders/0/values/x": "<name> is not there: <path> is a file and has nothing in it",
    "kafkafs cat store orders/0/offset/x": "<name> is not a record or a range of records; these are: <examples>",
    "kafkafs cat store orders/0/by-time/x": "<name> is not a time or a range of times; these are: <examples>",
    "kafkafs cat store by-time/x": "<name> is not a time; these are: <examples>",
    "kafkafs ls store nothing": "there is no topic <topic>",
    "kafkafs ls store orders/9": "the topic <topic> has no partition <number>",
    "kafkafs cat store orders/0/offset/999": "<path>: there is no such record to be seen: "
    "the log ends at offset <offset>",
    "kafkafs cat store orders/0/by-time/now": "<path>: there is no record at or after that time",
    "kafkafs cat store .kafkafs/log": "<path>: there is such a file only in a mount",
    "kafkafs cat store .kafkafs/cluster/x": "<path>: there is no such file",
    "kafkafs cat store orders/0/segments/x": "<path>: <directory> has no file <name>",
    "kafkafs cat store orders/0/segments/partition.metadata.txt": "<path>: <name> is no file that can be dumped",
    "kafkafs cat store orders/0": "<path> is a directory; kafkafs ls lists it",
    "kafkafs cat store orders/config -f %s": "<path> is not made of records, so that --format means nothing for it",
    "kafkafs cat store orders/0/offset/0 -f %x": "<text> is nothing a format can have; the tokens are <tokens>, and %%",
    "kafkafs cat store orders/0/offset/0 -f '%s{x}'": "<token> has a modifier that does not exist; {hex} and {base64} "
    "do",
    "kafkafs append second orders/0/values < /dev/null": "<path> cannot be written to; <path> can",
    "kafkafs topics create second orders": "there is a topic <topic> already",
    "kafkafs topics config second orders retention.ms": "<name> is not of the form KEY=VALUE.",
    "kafkafs topics list second --json --csv": "--<option> and --<option> exclude each other.",
    "kafkafs topics delete broker orders --apply": "kafkafs did not make this store; give --rw to change it all the "
    "same",
    "kafkafs help nothing": "there is no help on <words>; `kafkafs help` lists commands and pages",
    "kafkafs ls store,copied": "<path> is the same partition; move one of the two out of the store",
    "kafkafs ls store,second": "the directory is of <kind> <value>, <path> of <value>",
}
IN_A_MOUNT: Final = {
    "echo x >> orders/0/append.jsonl": "line <number>: <reason>",
    "echo x=1 >> orders/config": "line <number>: <reason>",
    "printf '%02000000d' 0 >> orders/0/append": "a line has more than <number> bytes, so its record can fit no batch",
    "printf '%02000000d' 0 | cat >> orders/0/append.raw": "a record of more than <number> bytes can fit no batch",
    "printf '%060d\\n' 0 >> small/0/append": "a record takes a batch of <number> bytes, and the largest allowed is "
    "<number>",
    "cat orders/0/offset/0.batch >> small/0/append.batch": "a batch has <number> bytes, and the largest allowed is "
    "<number>",
    "echo x >> compacted/0/append": "<number> records have no key, which a compacted topic needs",
    'echo \'{"value":"a","timestamp":99999999999999}\' >> timely/0/append.jsonl': "the timestamp <number> is more than "
    "<number> ms after <number>",
    "seq 99 >> orders/0/append.batch": "this is no record batch of version 2",
    "cat orders/0/offset/0.batch | head -c 70 | dd of=orders/0/append.batch": "the last batch is incomplete: only "
    "<number> bytes of it have come",
    "cat orders/0/offset/latest.batch >> orders/0/append.batch": "a producer's batch begins at offset 0, this one at "
    "<offset>",
    "head -c 70000 /dev/zero | tr '\\0' x | cat >> orders/config": "<path>: a line has more than <number> bytes",
    "printf '\\xff\\n' >> orders/config": "<path>: byte <number> is not UTF-8",
    "echo x > orders/0/log-start-offset": "<path>: <text> is no offset, nor -1 for all that is replicated",
    "echo 999 > orders/0/log-start-offset": "the log ends at <offset>",
    "echo 1 > compacted/0/log-start-offset": "<path>: no records are deleted where cleanup.policy=<policy>",
    "mkdir orders/7": "the next partition of <topic> is <number>, not <name>",
    "mkdir 'a b'": "<name> cannot be the name of a topic: <reason>",
    "mkdir my_topic; mkdir my.topic": "<name> collides with the topic <topic>: in the names of a broker's metrics, '.' "
    "and '_' are the same",
    "touch new": "<path>: no file of this name is there, and none can be made",
    "mkfifo new": "<path>: no file can be made",
    "ln -s orders new": "<path>: no link can be made",
    "mv orders new": "<path>: nothing can be renamed (to <name>)",
    "rm orders/0/values": "<path>: files cannot be removed; log-start-offset deletes records",
    "mkdir orders/0/offset/new": "<path>: no directory can be made here (<name>)",
    "rmdir orders/0": "<path>: nothing here can be removed (<name>)",
    "rmdir orders": "topics are deleted only where the mount has the option allow_delete (<topic>)",
    "echo x >> orders/0/values": "<path>: this file cannot be written",
    "truncate -s 9 orders/0/append": "<path>: its size is that of the log",
    "chmod 600 orders/config": "<path>: owner, mode and times are those of the log",
    'python3 -c \'import os; os.setxattr("orders/config", "user.x", b"1")\'': "<path>: <attribute> cannot be set",
    'python3 -c \'import os; os.removexattr("orders/config", "user.x")\'': "<path>: <attribute> cannot be removed",
    "cat broken/0/offset/0": "damage in the log: <reason>",
    "cat by-time/2020-01-01": "<number> partitions could not be looked into, the first being <reason>",
}
PREPARED: Final = """
mkdir full copied; touch full/file
kafkafs topics create second orders
kafkafs topics create broker orders; rm broker/kafkafs-topics.properties
kafkafs topics create store orders; seq 100 | kafkafs append store orders/0/append
echo three | kafkafs append store orders/0/append
kafkafs topics create store small max.message.bytes=100
kafkafs topics create store timely message.timestamp.after.max.ms=1000
kafkafs topics create store compacted cleanup.policy=compact
kafkafs topics create store broken; echo one | kafkafs append store broken/0/append
printf X | dd of=store/broken-0/00000000000000000000.log bs=1 seek=66 conv=notrunc status=none
cp -r store/orders-0 copied
kafkafs mount store mnt
"""


@pytest.mark.e2e
def test_what_is_said_is_on_the_page(console: Console, sentences: list[str]) -> None:
    require_fuse()
    console.run(PREPARED)
    for script, sentence in OF_COMMANDS.items():
        assert sentence in sentences
        said = console.run(f"{script}; echo $?")
        texts = re.findall(r"^(?:kafkafs|Error): (?:Invalid value(?: for .*?)?: )?(.*)$", said, re.MULTILINE)
        assert said.splitlines()[-1] in {"1", "2", "3"}, said
        assert [text for text in texts if pattern_of(sentence).fullmatch(text)], f"{script}: {said}"
    for script, sentence in IN_A_MOUNT.items():
        assert sentence in sentences
        console.run("wc -l < mnt/.kafkafs/log > lines")
        said = console.run(f"(cd mnt; {script}) > printed 2>&1; tail -n +$(($(cat lines) + 1)) mnt/.kafkafs/log")
        texts = re.findall(r"^\S+ WARNING (?:\w+: )?(.*?)(?: \(E[A-Z]+\))?$", said, re.MULTILINE)
        lines = [line.partition(" WARNING ")[2] for line in said.splitlines()]
        found = [text for text in (*texts, *lines) if pattern_of(sentence).fullmatch(text)]
        assert found, f"{script}: {said}\n{console.run('cat printed')}"


@pytest.mark.parametrize(
    "said",
    [
        "fuse: device not found, try 'modprobe fuse' first",
        "fusermount3: failed to open /dev/fuse: Permission denied",
        "fusermount3: option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf",
        "fuse: failed to exec fusermount3: No such file or directory",
        "fusermount3: too many FUSE filesystems mounted; mount_max=1000 can be set in /etc/fuse.conf",
        "fuse: bad mount point `/x': Permission denied",
        "fusermount3: user has no write access to mountpoint /x",
        "fusermount3: mount failed: Operation not permitted",
        "fuse: something else",
    ],
)
def test_what_libfuse_says_becomes_a_sentence_of_the_page(said: str, sentences: list[str]) -> None:
    assert [sentence for sentence in sentences if pattern_of(sentence).fullmatch(sentence_for(said))]
