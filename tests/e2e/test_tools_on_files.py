"""Ordinary tools find in a file of a mount what they find in a plain file with the same bytes.

Each command line is run twice: with the file's path for `{}`, and with that of a copy which was made without any code
of ours. Output, what is said on standard error but for the path, exit code and what it writes must be the same.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from mounts import store_mounting
from peer_logs import peer_logs, rendered, run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mounts import Mounted

pytestmark = pytest.mark.e2e

SEGMENT = f"{700:020d}"
LOG = f"t-none/0/segments/{SEGMENT}"

PYTHON = "python3 -IS -c"
MAPPED = """import mmap, sys
file = open(sys.argv[1], "rb")
mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(len(mapped), mapped[:] == file.read(), mapped.find(b"a"))"""
BACKWARDS = """import sys
file = open(sys.argv[1], "rb", 0)
size = file.seek(0, 2)
print([file.seek(at) and file.read(9) for at in range(size, 0, -max(size // 50, 1))])"""
POSITIONS = """import os, sys
file = os.open(sys.argv[1], 0)
print([os.pread(file, 5, at) for at in (0, 99, 4095, 131071, 10 ** 9)], os.lseek(file, 0, 2))"""
SENT = """import os, sys
file, out = os.open(sys.argv[1], 0), os.open("out", os.O_CREAT | os.O_WRONLY)
size, done = os.fstat(file).st_size, 0
while done < size:
    done += os.sendfile(out, file, done, size - done)"""
# By the tool that is tried. In `{}` stands the file, in `{plain}` the copy; what is written to the current directory
# is compared too.
COMMANDS = {
    "awk": ["awk '{{ n += NF }} END {{ print NR, n }}' {}", "awk -F' ' 'NR % 7 == 0 {{ print $1 }}' {}"],
    "base32": ["base32 {}"],
    "base64": ["base64 {} | base64 -d", "base64 -w 0 {}"],
    "bash": [
        'x=$(<{}); printf %s "$x" | cksum',
        "while IFS= read -r line; do echo ${{#line}}; done < {} | head -n 50",
        "mapfile -n 20 a < {}; echo ${{#a[@]}}",
        "[[ -f {} && -r {} && -s {} && ! -d {} && ! -x {} ]]; echo $?",
        "[ {} -nt /proc/self/nothing ] && [ ! {} -nt {plain} ] && [ ! {} -ot {plain} ]",
    ],
    "b2sum": ["b2sum {}"],
    "cat": ["cat {}", "cat -A {}", "cat -ns {}", "cat {} {} | wc -c", "cat < {}"],
    "cksum": ["cksum {}", "cksum < {}"],
    "cmp": [
        "cmp {} {plain}",
        "cmp -i 3 {} {plain}",
        "cmp {} <(cat {plain}; echo more)",
        "cmp -l {} <(tr a-y b-z < {plain}) | wc -l",
    ],
    "comm": ["comm -12 {} {plain} 2>/dev/null | cksum"],
    "cp": [
        "cp {} copy",
        "cp --sparse=always {} copy",
        "cp --reflink=auto --preserve=timestamps {} copy; stat -c '%s %Y' copy",
        "cp -r {} copy",
    ],
    "csplit": ["csplit -s -f part {} 3 {{1}}"],
    "cut": ["cut -c 1-20 {}", "cut -d ' ' -f 2 {}", "cut -b 3- {}"],
    "dash": ["dash -c 'while read -r line; do echo \"$line\"; done < {}' 2>/dev/null | head -n 20 | cksum"],
    "dd": [
        "dd if={} of=out bs=512 status=none",
        "dd if={} bs=7 skip=11 count=5 status=none",
        "dd if={} of=out bs=1M status=none",
        "dd if={} bs=64k iflag=skip_bytes,count_bytes skip=100 count=1000 status=none",
        "dd if={} of=out bs=4096 conv=sync,noerror status=none",
        "dd if={} bs=4k skip=100000 status=none",
    ],
    "diff": ["diff {} {plain}", "diff -q {} <(cat {plain}; echo)", "diff -a {} <(tac {plain}) | cksum"],
    "du": ["du -b {}", "du --apparent-size -k {}"],
    "egrep": ["grep -E -c 'alpha|beta' {}", "grep -E -o '[a-z]+ zeta' {}"],
    "expand": ["expand -t 4 {}", "unexpand -a {}"],
    "file": ["file -b {}", "file --mime-encoding -b {}"],
    "find": [
        "find {} -size +1k -printf '%s %f\\n'",
        "find {} -newermt 1999-01-01 ! -newermt 2100-01-01 -type f -printf '%s %TY-%Tm-%Td\\n'",
        "find {} ! -newer {plain} ! -empty -readable -exec wc -c {{}} +",
    ],
    "fmt": ["fmt -w 60 {}"],
    "fold": ["fold -w 40 {}", "fold -s -w 33 {}"],
    "grep": [
        "grep -a -c alpha {}",
        "grep -a -n 'zeta$' {}",
        "grep -a -b -o beta {}",
        "grep -q no-such-word {}",
        "grep -a -v e {}",
        "grep -c . {}",
        "grep -z -c alpha {}",
        "grep -l alpha {}",
        "grep alpha {}",
    ],
    "gzip": ["gzip -c {} | gzip -dc", "gzip -c {} | gzip -lv | awk 'NR > 1 {{ print $7 }}'"],
    "head": ["head -n 5 {}", "head -c 100 {}", "head -n -5 {}", "head -c -100 {}"],
    "hexdump": ["hexdump -C {}", "hexdump -C -s 100 -n 50 {}"],
    "install": ["install -m 600 {} copy"],
    "join": ["join -a 1 <(sort {}) <(sort {plain}) 2>/dev/null | cksum"],
    "jq": ["jq -c . {}", "jq -s length {}", "jq -R -r length {}", "jq -e .no {}"],
    "less": ["less {}", "less -N -S {} | cat", "less -F -X +100 {}"],
    "ln": ["ln -s {} link; cat link; wc -c < link"],
    "ls": ["ls -l --time-style=+%s {} | awk '{{ print $5, $6 }}'", "ls -s --block-size=1 {} | wc -l"],
    "md5sum": ["md5sum {}", "md5sum {} > sums; md5sum -c sums"],
    "nl": ["nl -b a {}"],
    "od": ["od -A d -t x1z -j 64 -N 64 {}", "od -c {}", "od -t x8 -v {}"],
    "paste": ["paste {} {plain} | cksum", "paste -s -d , {}"],
    "perl": ["perl -ne 'print if $. % 3 == 0' {}", "perl -0777 -ne 'print length' {}", "perl -e 'print -s shift' {}"],
    "pr": ["pr -t -n {}"],
    "ptx": ["ptx -G {} | head -n 20"],
    "python3": [
        f"{PYTHON} 'import sys; sys.stdout.write(open(sys.argv[1], errors=\"replace\").read())' {{}}",
        f"{PYTHON} '{MAPPED}' {{}}",
        f"{PYTHON} '{BACKWARDS}' {{}}",
        f"{PYTHON} 'import shutil, sys; shutil.copyfile(sys.argv[1], \"out\")' {{}}",
        f"{PYTHON} '{POSITIONS}' {{}}",
        f"{PYTHON} '{SENT}' {{}}",
    ],
    "rev": ["rev {}"],
    "rg": [
        "rg -c alpha {}",
        "rg -n --no-heading zeta {}",
        "rg -a -o -b beta {}",
        "rg -q no-such-word {}",
        "rg --mmap -a -c alpha {}",
        "rg -a -v -c e {}",
    ],
    "rsync": [
        "rsync -a {} copy",
        "rsync --inplace -c {} copy; rsync -c -i {} copy",
        "rsync -S {} copy; stat -c %s copy",
    ],
    "sed": ["sed -n 5,10p {}", "sed '$d;s/a/A/g' {}", "sed -n '$=' {}"],
    "sha256sum": ["sha256sum {}", "sha1sum {}", "sha512sum {}"],
    "shuf": ["shuf {} | wc", "shuf -n 5 {} | wc -l"],
    "sort": ["sort {}", "sort -u {}", "sort -k 2 -r {}", "sort -c {} 2>/dev/null"],
    "split": ["split -n 3 {} part", "split -n l/4 {} part", "split -b 1000 {} part", "split -l 100 {} part"],
    "stat": ["stat -c '%s %F %Y' {}", "stat -L -c %s {}"],
    "strings": ["strings -n 6 {}", "strings -t d {}"],
    "sum": ["sum {}", "sum -s {}"],
    "tac": ["tac {}", "tac -b {}"],
    "tail": ["tail -n 5 {}", "tail -c 100 {}", "tail -n +10 {}", "tail -c +100 {}", "tail -q -n 1 {} {}"],
    "tar": [
        "tar -cf - -C / $(realpath --relative-to=/ {}) | tar -xOf -",
        "tar -S -cf - -C / $(realpath --relative-to=/ {}) | tar -xOf -",
        "tar -czf a.tgz --transform='s,.*,x,' -P {}; tar -xzf a.tgz; rm a.tgz; stat -c '%s %Y' x",
    ],
    "tee": ["tee out < {}", "tee out other < {} | tail -c 9"],
    "tr": ["tr a-z A-Z < {}", "tr -d '\\n' < {} | wc -c", "tr -cs a-z '\\n' < {} | sort | uniq -c"],
    "uniq": ["uniq -c {}", "sort {} | uniq -d"],
    "vim": ["vim -u NONE -es -b -n -c 'w! out' -c 'qa!' {}", "vim -u NONE -R -es -n -c '%print' -c 'qa!' {} | cksum"],
    "wc": ["wc {}", "wc -c {}", "wc -lmL {}", "wc < {}"],
    "xargs": ["xargs -a {} -d '\\n' -n 100 -s 100000 printf '%s\\n' 2>/dev/null | cksum", "echo {} | xargs wc -c"],
    "xxd": ["xxd {}", "xxd -s -40 {}", "xxd -p -l 30 {}"],
    "zstd": ["zstd -q -c {} | zstd -q -d -c"],
}


class Pair(NamedTuple):
    """A file in a mount, and a plain one with the same bytes and the same time."""

    mounted: Path
    plain: Path


class Ran(NamedTuple):
    """What became of a command."""

    output: bytes
    errors: bytes
    code: int
    written: dict[str, bytes]


@pytest.fixture(scope="module")
def served(
    datasets: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Mounted, dict[str, Pair]]]:
    """A mount, and the files on which tools are tried: each kind that there is."""
    root = datasets("kafka-3.9")
    dirs = [root / "kafka-3.9" / name for name in ("d1", "d2")]
    log = next(log for log in peer_logs(dirs) if log.directory.name == "t-none-0")
    mixed = next(log for log in peer_logs(dirs) if log.directory.name == "t-mixed-0")
    record = next(each for each in log.uncommitted if each.value and b" " in each.value)
    some = [each for each in log.uncommitted if 100 <= each.offset < 400]
    bytes_of = {
        f"t-none/0/offset/{record.offset}": rendered(log, record, ""),
        f"t-none/0/offset/{record.offset}..{record.offset + 1}.json": rendered(log, record, ".json"),
        "t-none/0/offset/100..400": run_of(log, some, ""),
        "t-none/0/offset/100..400.jsonl": run_of(log, some, ".jsonl"),
        "t-none/0/values": run_of(log, log.uncommitted, ""),
        "t-mixed/0/records.jsonl": run_of(mixed, mixed.uncommitted, ".jsonl"),
        f"{LOG}.log": (log.directory / f"{SEGMENT}.log").read_bytes(),
        f"{LOG}.index": (log.directory / f"{SEGMENT}.index").read_bytes(),
        f"{LOG}.log.txt": f"Dumping {SEGMENT}.log\n".encode()
        + (root / "kafka-3.9.dump/d1/t-none-0" / f"{SEGMENT}.log.txt").read_bytes(),
    }
    plain = tmp_path_factory.mktemp("plain")
    with store_mounting(tmp_path_factory.mktemp("served")) as mount:
        mounted = mount(",".join(map(str, dirs)))
        pairs = {}
        for number, (name, data) in enumerate(bytes_of.items()):
            path = plain / str(number) / Path(name).name
            path.parent.mkdir()
            path.write_bytes(data)
            status = (mounted.path / name).stat()
            os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
            path.chmod(0o444)
            pairs[name] = Pair(mounted.path / name, path)
        yield mounted, pairs


def ran(mounted: Mounted, command: str, path: Path, plain: Path, place: Path) -> Ran:
    place.mkdir()
    line = command.format(path, *[path] * command.count("{}"), plain=plain)
    done = mounted.run_bytes(f"export LC_ALL=C.UTF-8 TZ=UTC; cd {place}; {line}")
    name = str(path).encode()
    written = {each.name: each.read_bytes() for each in sorted(place.iterdir()) if each.is_file()}
    shutil.rmtree(place)
    output, errors = (
        data.replace(name, b"FILE").replace(name.lstrip(b"/"), b"FILE") for data in (done.stdout, done.stderr)
    )
    return Ran(output, errors, done.returncode, {each: data.replace(name, b"FILE") for each, data in written.items()})


@pytest.mark.parametrize("tool", COMMANDS)
def test_tools_find_what_they_find_in_plain_files(
    served: tuple[Mounted, dict[str, Pair]], tmp_path: Path, tool: str
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    mounted, pairs = served
    for command in COMMANDS[tool]:
        for name, (path, plain) in pairs.items():
            expected = ran(mounted, command, plain, plain, tmp_path / "place")
            assert expected.code not in {126, 127}, (command, expected.errors)
            assert ran(mounted, command, path, plain, tmp_path / "place") == expected, (command, name)


def test_there_are_tools_enough() -> None:
    assert len(COMMANDS) >= 36
    assert sum(shutil.which(tool) is not None for tool in COMMANDS) >= 36
