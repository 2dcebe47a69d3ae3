"""Users other than root: what modes, owners and options let them do, as the kernel checks it and as access(2) says."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from mounts import store_mounting
from other_users import NOBODY, SETPRIV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mounts import Mounted
    from system_call_trees import Trees

pytestmark = pytest.mark.e2e

READ_ALL: Final = "cat orders/0/offset/3 orders/0/values orders/0/info orders/config .kafkafs/README > /dev/null"


def as_nobody(mounted: Mounted, script: str) -> subprocess.CompletedProcess[str]:
    return mounted.run(f"exec {SETPRIV} bash -c '{script}'")


@pytest.fixture(scope="module", autouse=True)
def only_root_can_be_others() -> None:
    if os.geteuid() != 0:
        pytest.skip("not root, who alone can be another user")


@pytest.fixture
def mounts(trees: Trees) -> Iterator[Callable[..., Mounted]]:
    """Mount the same store for reading, or another for writing, where others can get to it."""
    with store_mounting(trees.scratch) as mount:
        yield mount


def test_without_allow_other_no_other_user_gets_in(mounts: Callable[..., Mounted], trees: Trees) -> None:
    mounted = mounts(trees.scratch / "store", "-o", "ro", at="closed")
    done = mounted.run(f"cd /; setpriv --reuid={NOBODY} --clear-groups stat {mounted.path}/orders")
    assert done.returncode == 1
    assert "Permission denied" in done.stderr


def test_others_read_and_do_not_write(trees: Trees) -> None:
    mounted = trees.writable
    assert as_nobody(mounted, READ_ALL).stderr == ""
    for script in ("echo x >> orders/0/append", "echo x > orders/config", "echo 3 > orders/0/log-start-offset"):
        done = as_nobody(mounted, script)
        assert done.returncode == 1
        assert "Permission denied" in done.stderr
    for script, said in (
        ("mkdir other", "Permission denied"),
        ("rmdir orders", "Permission denied"),
        ("chmod 777 orders/0/values", "Operation not permitted"),
        ("chown nobody orders/0/values", "Operation not permitted"),
        ("touch -d yesterday orders/0/values", "Permission denied"),
        ("touch orders/0/none", "Permission denied"),
        ("rm -f orders/0/offset/3", "Permission denied"),
        ("mv orders/0/values orders/0/other", "Permission denied"),
        ("truncate -s 0 orders/0/append", "Permission denied"),
    ):
        done = as_nobody(mounted, script)
        assert done.returncode == 1, script
        assert said in done.stderr, script
    assert mounted.run("cat orders/0/offset/latest").stdout == "value 30"


def test_access_says_what_open_does(trees: Trees) -> None:
    script = """
import os, sys
os.setgid(65534); os.setuid(65534)
for path in sys.argv[2:]:
    path = os.path.join(sys.argv[1], path)
    for mode, flags in ((os.R_OK, os.O_RDONLY), (os.W_OK, os.O_WRONLY), (os.R_OK | os.W_OK, os.O_RDWR)):
        allowed = os.access(path, mode)
        if os.path.isdir(path):
            if flags == os.O_RDONLY and not allowed:
                sys.exit(f"{path} cannot be read")
            if not os.access(path, os.X_OK):
                sys.exit(f"{path} cannot be entered")
            continue
        try:
            os.close(os.open(path, flags))
            opened = True
        except PermissionError:
            opened = False
        if opened != allowed:
            sys.exit(f"{path} {mode}: access says {allowed}, open {opened}")
"""
    for mounted in (trees.writable, trees.read_only):
        command = [sys.executable, "-c", script, mounted.path, *trees.kinds.values()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "") or "Read-only" in done.stderr


def test_owner_and_mode_are_those_of_the_directory(mounts: Callable[..., Mounted], trees: Trees) -> None:
    store = trees.scratch / "owned"
    mounted = mounts(store, "-o", "allow_other", at="owned-mnt")
    assert mounted.run("mkdir orders closed && echo x >> orders/0/append && echo x >> closed/0/append").returncode == 0
    for each in (store / "orders-0", *(store / "orders-0").iterdir()):
        os.chown(each, NOBODY, NOBODY)
    (store / "closed-0").chmod(0o700)
    mounted.until(lambda: os.stat(mounted.path / "orders/0").st_uid == NOBODY)
    assert as_nobody(mounted, "echo y >> orders/0/append; cat orders/0/values").stdout == "x\ny\n"
    mounted.until(lambda: stat.S_IMODE(os.stat(mounted.path / "closed/0").st_mode) == 0o700)
    for script in ("ls closed/0", "cat closed/0/values", "echo y >> closed/0/append"):
        assert "Permission denied" in as_nobody(mounted, script).stderr
    assert os.stat(mounted.path / "closed/config").st_uid == 0
    assert mounted.run("cat closed/0/values").stdout == "x\n"


def test_the_options_give_it_to_somebody(mounts: Callable[..., Mounted], trees: Trees) -> None:
    store = trees.scratch / "given"
    mounted = mounts(store, "-o", f"allow_other,uid={NOBODY},gid={NOBODY},umask=027", at="given-mnt")
    done = as_nobody(mounted, "mkdir orders && echo x >> orders/0/append && echo retention.ms=5 >> orders/config")
    assert (done.returncode, done.stderr) == (0, "")
    modes = mounted.run("stat -c %a:%u:%g . orders orders/0 orders/0/append orders/0/values").stdout.split()
    owner = f"{NOBODY}:{NOBODY}"
    assert modes == [f"{mode}:{owner}" for mode in ("750", "750", "750", "640", "440")]
    other = mounted.run(f"setpriv --reuid=12 --regid=12 --clear-groups cat {mounted.path}/orders/0/values")
    assert "Permission denied" in other.stderr
    member = mounted.run(f"setpriv --reuid=12 --regid={NOBODY} --clear-groups cat {mounted.path}/orders/0/values")
    assert member.stdout == "x\n"


def test_a_supplementary_group(mounts: Callable[..., Mounted], trees: Trees) -> None:
    mounted = mounts(trees.scratch / "grouped", "-o", "allow_other,gid=1234,umask=007", at="grouped-mnt")
    assert mounted.run("mkdir orders").returncode == 0
    member = f"setpriv --reuid={NOBODY} --regid={NOBODY} --groups=1234 bash -c"
    assert mounted.run(f"{member} 'echo x >> orders/0/append && cat orders/0/values'").stdout == "x\n"
    assert "Permission denied" in as_nobody(mounted, "ls orders").stderr
