"""Wrong uses of each command: one sentence that says what is wrong, an exit code, and nothing changed."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from storage.clock import Clock
from storage.files import Files
from storage.record import batches_of_rows
from storage.store import Store

if TYPE_CHECKING:
    from pathlib import Path

# A command, where S is the store; its exit code; and how its sentence begins. Each was read by a person.
WRONG = (
    ("ls", 2, "Missing argument 'STORE'."),
    ("ls nothere", 2, "there is no such directory (nothere)"),
    ("ls file", 2, "a store is a directory, and this is a file (file)"),
    ("ls S orders/0/values orders/9", 2, "Got unexpected extra argument (orders/9)"),
    ("ls S orders//9", 1, "the topic orders has no partition 9"),
    ("ls S /orders/zero", 2, "'zero' is not in a topic; there are config and the numbers"),
    ("ls S ORDERS", 1, "there is no topic 'ORDERS'"),
    ("ls S orders/-1", 2, "'-1' is not in a topic; there are config and the numbers of"),
    ("ls S orders/00", 2, "'00' is not in a topic; there are config and the numbers of"),
    ("ls S --nosuch", 2, "No such option '--nosuch'."),
    ("ls S -l -x", 2, "No such option '-x'."),
    ("ls --store", 2, "Option '--store' requires an argument."),
    ("ls s3://", 2, "the URI has no bucket, container or host after s3:// (s3://)"),
    ("ls ftp://host/x", 2, "nothing reads ftp:// here: kafkafs reads paths and file:,"),
    ("cat S", 2, "Missing argument 'PATH...'."),
    ("cat", 2, "Missing argument 'STORE'."),
    ("cat S orders", 2, "/orders is a directory; kafkafs ls lists it"),
    ("cat S orders/0/offset", 2, "/orders/0/offset is a directory; kafkafs ls lists it"),
    ("cat S orders/0/offset/ten", 2, "'ten' is not a record or a range of records; these are: 42,"),
    ("cat S orders/0/by-time/2026-13-45", 2, "'2026-13-45' is not a time or a range of times; these are:"),
    ("cat S orders/0/by-time/25:00", 2, "'25:00' is not a time or a range of times; these are:"),
    ("cat S orders/0/values -f", 2, "Option '-f' requires an argument."),
    ("cat S orders/0/values -f %q", 2, "Invalid value for --format: '%q' is nothing a format can"),
    ("cat S orders/0/values --isolation none", 2, "Invalid value for '--isolation': 'none' is not one of"),
    ("cat S orders/0/segments", 2, "/orders/0/segments is a directory; kafkafs ls lists it"),
    ("cat S nosuch/0/values", 1, "there is no topic 'nosuch'"),
    ("cat S 'ord[/0/values'", 1, "nothing in the store matches ord[/0/values"),
    ("cat S 'z*/0/values'", 1, "nothing in the store matches z*/0/values"),
    ("append S", 2, "Missing argument 'PATH'."),
    ("append S orders", 2, "/orders cannot be written to; orders/0/append can"),
    ("append S orders/0", 2, "/orders/0 cannot be written to; orders/0/append can"),
    ("append S orders/0/values", 2, "/orders/0/values cannot be written to; orders/0/append can"),
    ("append S orders/9/append", 1, "the topic orders has no partition 9"),
    ("append S nosuch/0/append", 1, "there is no topic 'nosuch'"),
    ("append nothere orders/0/append", 2, "there is no such directory (nothere)"),
    ("append S orders/0/append.json", 2, "'append.json' is not in a partition; there are offset,"),
    ("topics nosuch", 2, "No such command 'nosuch'."),
    ("topics create S", 2, "Missing argument 'TOPIC'."),
    ("topics create S 'a b'", 2, "'a b' cannot be the name of a topic: it may have ASCII"),
    ("topics create S ..", 2, "'..' cannot be the name of a topic: it must have from 1 to"),
    ("topics create S orders", 3, "there is a topic orders already"),
    ("topics create S new --partitions 0", 2, "Invalid value for '--partitions': 0 is not in the range"),
    ("topics create S new --partitions many", 2, "Invalid value for '--partitions': 'many' is not a valid"),
    ("topics create S new retention.ms=soon", 2, "retention.ms=soon is refused: it must be a whole number"),
    ("topics create S new retentionms=5", 2, "there is no topic setting 'retentionms', but there is"),
    ("topics create S new retention.ms", 2, "'retention.ms' is not of the form KEY=VALUE."),
    ("topics create S new cleanup.policy=shred", 2, "cleanup.policy=shred is refused: it must be a list of"),
    ("topics config S", 2, "Missing argument 'TOPIC'."),
    ("topics config S nosuch", 1, "there is no topic 'nosuch'"),
    ("topics config S orders segment.bytes=1", 2, "segment.bytes=1 is refused: it must be a whole number from"),
    ("topics config S orders =5", 2, "there is no topic setting ''"),
    ("topics delete S", 2, "Missing argument 'TOPIC'."),
    ("topics delete S nosuch", 1, "there is no topic 'nosuch'"),
    ("topics delete S orders/0", 1, "there is no topic 'orders/0'"),
    ("topics list nothere", 2, "there is no such directory (nothere)"),
    ("verify", 2, "Missing argument 'STORE'."),
    ("verify nothere", 2, "there is no such directory (nothere)"),
    ("verify S nosuch", 1, "there is no topic 'nosuch'"),
    ("verify S --jobs 0", 2, "Invalid value for '--jobs': 0 is not in the range x>=1."),
    ("verify S --rate fast", 2, "Invalid value for '--rate': 'fast' is not a number of bytes"),
    ("verify S --resume /nowhere/x", 2, "Invalid value for --resume: there is no directory /nowhere"),
    ("verify S --resume S/kept", 2, "Invalid value for --resume: store/kept is in the store, of which"),
    ("verify S --resume S", 2, "Invalid value for --resume: store is a directory; name a file"),
    ("dump", 2, "Missing argument 'FILE...'."),
    ("dump nothere.log", 1, "nothere.log: No such file or directory"),
    ("dump file", 2, "file: not the name of a log, an index, a snapshot or a"),
    ("dump S", 2, "store: not the name of a log, an index, a snapshot or a"),
    (
        "dump S/orders-0/00000000000000000000.log --from-offset x",
        2,
        "Invalid value for '--from-offset': 'x' is not a valid",
    ),
    (
        "dump S/orders-0/00000000000000000000.log --from-time never",
        2,
        "Invalid value for '--from-time': 'never' is not a time;",
    ),
    ("dump S/orders-0/00000000000000000000.log --json --jsonl", 2, "--json and --jsonl exclude each other."),
    ("recover nothere", 2, "there is no such directory (nothere)"),
    ("recover S nosuch", 2, "Got unexpected extra argument (nosuch)"),
    ("recover S --apply --dry-run", 2, "--apply and --dry-run exclude each other"),
    ("retention nothere", 2, "there is no such directory (nothere)"),
    ("compact S nosuch", 1, "there is no topic 'nosuch'"),
    ("stats S nosuch", 1, "there is no topic 'nosuch'"),
    ("stats S orders/9", 1, "the topic orders has no partition 9"),
    ("groups nothere", 2, "there is no such directory (nothere)"),
    ("groups S nosuch", 1, "the store has no partition of __consumer_offsets, and so"),
    ("find S --key", 2, "Option '--key' requires an argument."),
    ("find S --grep (", 2, "Invalid value for --grep: '(' is no regular expression:"),
    ("find S --key a --null-key", 2, "--key and --null-key exclude each other."),
    ("find S --since never", 2, "No such option '--since'."),
    ("find S --first -1", 2, "Invalid value for '--first': -1 is not in the range x>=1."),
    ("find S nosuch --key a", 1, "there is no topic 'nosuch'"),
    ("tail S", 2, "Missing argument 'PATH...'."),
    ("tail S nosuch", 1, "nothing in the store matches nosuch"),
    ("tail S orders/0 -n many", 2, "Invalid value for '-n' / '--lines': 'many' is neither a"),
    ("tail S orders/0/offset/5", 2, "'orders/0/offset/5' is not what grows by records; there are"),
    ("explain S", 2, "Missing argument 'PATH'."),
    ("explain S orders", 2, "orders is not one record; name one, such as"),
    ("explain S orders/0/offset/999", 1, "orders/0/offset/999: the log has no batch at offset 999 or"),
    ("diff S", 2, "Missing argument 'OTHER'."),
    ("diff S nothere", 2, "there is no such directory (nothere)"),
    ("diff S S nosuch", 1, "neither store has nosuch"),
    ("salvage S", 2, "Missing argument 'PATH'."),
    ("salvage S orders new", 2, "'orders' is not a partition, such as orders/0, or"),
    ("salvage S orders/9 new", 1, "there is no partition orders/9"),
    ("salvage S orders/0 S", 3, "the copy would lie in the store itself; give a directory"),
    ("revive S", 2, "Missing option '--into'."),
    ("revive S --into S", 3, "the new store would lie in store, which is only read; give"),
    ("revive S --into S/inside", 3, "the new store would lie in store, which is only read; give"),
    ("revive S --into new --topics ''", 2, "Invalid value for '--topics': name a topic, or several with"),
    ("revive S --into new --topics ,", 2, "Invalid value for '--topics': name a topic, or several with"),
    ("revive nothere --into new", 2, "there is no such directory (nothere)"),
    ("backup S", 2, "name the store, STORE, and the directory of the backups,"),
    ("backup nothere new", 2, "there is no such directory (nothere)"),
    ("backup S S", 3, "the backups would lie in the store itself, store (store)"),
    ("backup S S/inside", 3, "the backups would lie in the store itself, store"),
    ("report S", 2, "name the file of the page with -o FILE, or ask for --json"),
    ("report S -o /nowhere/x.html", 2, "Invalid value for -o: there is no directory /nowhere"),
    ("report S nosuch -o x.html", 1, "there is no topic 'nosuch'"),
    ("top S --sort color", 2, "Invalid value for '--sort': 'color' is not one of 'rate',"),
    ("top S nosuch", 1, "there is no topic 'nosuch'"),
    ("top S --interval 0", 2, "Invalid value for '--interval': 0.0 is not in the range"),
    ("mount S", 2, "Missing argument 'MOUNTPOINT'."),
    ("mount S nothere/deep/mnt -o nosuch", 2, "Invalid value for '-o': there is no mount option nosuch;"),
    ("mount S file", 3, "file is not a directory: a store is mounted at an empty one"),
    ("mount S S/mnt", 3, "store/mnt is in the store itself (store): mount it elsewhere"),
    ("umount", 2, "Missing argument 'MOUNTPOINT'."),
    ("umount nothere", 1, "nothere: nothing of kafkafs is mounted here; `findmnt -t"),
    ("umount file", 1, "file: nothing of kafkafs is mounted here; `findmnt -t"),
    ("help nosuch", 2, "there is no help on 'nosuch'; `kafkafs help` lists commands"),
    ("completion", 2, "there is no command 'completion': `kafkafs help cli` says"),
    ("completion tcsh", 2, "there is no command 'completion': `kafkafs help cli` says"),
    ("nosuch", 2, "No such command 'nosuch'."),
    ("lss S", 2, "there is no command 'lss'; did you mean ls?"),
    ("warm S nosuch", 1, "there is no topic 'nosuch'"),
    ("spark nosuch", 2, "No such command 'nosuch'."),
    ("spark verify nothere", 2, "there is no such directory (nothere)"),
    ("demo a b c", 2, "Got unexpected extra arguments (b c)"),
    ("mv a b", 2, "No such command 'mv'."),
    ("rm S orders", 2, "there is no command 'rm': `kafkafs topics delete STORE"),
    ("unmount nothere", 1, "nothere: nothing of kafkafs is mounted here; `findmnt -t"),
    ("restore S new", 2, "there is no command 'restore': a run of `kafkafs backup` is"),
    ("find S orders/7 --key a", 1, "the topic orders has no partition 7"),
    ("diff S S orders/7", 1, "neither store has orders/7"),
    ("top S orders/9 --once", 1, "the topic orders has no partition 9"),
    ("stats S 'x*'", 1, "there is no topic 'x*'"),
    ("dump -x", 2, "No such option '-x'."),
    ("help topics nosuch", 2, "there is no help on 'topics nosuch'; `kafkafs help` lists"),
    ("spark stats", 2, "Missing argument 'STORE'."),
    ("cat S orders/0/values/x", 2, "'x' is not there: /orders/0/values is a file and has"),
    ("explain S .kafkafs/info", 2, "'info' is not in .kafkafs; there are README, version,"),
    ("salvage S orders/0", 2, "Missing argument 'DIR'."),
    ("recover file", 2, "a store is a directory, and this is a file (file)"),
    ("backup S new --keep", 2, "No such option '--keep'. Did you mean '--help'?"),
    ("mount S mnt -o isolation=maybe", 2, "Invalid value for '-o': the option isolation cannot be"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a directory with a store and an empty file."""
    place = tmp_path_factory.mktemp("place")
    (place / "file").touch()
    with Store.create([place / "store"], files=Files(), clock=Clock()) as store:
        store.topics.create("orders", 2)
        for batch in batches_of_rows([(1_700_000_000_000, None, b"%d" % number, ()) for number in range(100)]):
            store.log("orders", 0).append_as_leader(batch, leader_epoch=0)
    return place


def state_of(place: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(place.rglob("*"))
    }


@pytest.mark.parametrize(("command", "code", "sentence"), WRONG, ids=[command for command, _, _ in WRONG])
def test_it_is_said_in_a_sentence(
    place: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int, sentence: str
) -> None:
    monkeypatch.chdir(place)
    before = state_of(place)
    words = [re.sub("^S(?=/|$)", "store", word.strip("'")) for word in re.findall(r"'[^']*'|\S+", command)]
    result = CliRunner().invoke(main, words, prog_name="kafkafs")
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    said = [line for line in result.stderr.splitlines() if not line.startswith(("Usage: ", "Try ")) and line]
    assert len(said) == 1, result.stderr
    assert re.sub("^(kafkafs|Error): ", "", said[0]).replace(f"{place}/", "").startswith(sentence)
    assert "bug" not in said[0]
    assert state_of(place) == before
