"""scripts/kafkafs sets itself up once, again when it must, and never leaves half an environment to be used.

The tests run the real script in a small checkout of their own. Python, pip, apt-get and the compiler are played by a
bash script that notes what is asked of it, makes the files that matter, and can stop at a step until it has an answer.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = Path(__file__).parents[2] / "scripts"
STEPS = ("venv", "tools", "packages", "kernel")
TIME_S_MAX = 60

ACTOR = r"""#!/bin/bash
# Plays the program that it is called as.
step=
case "${0##*/} $*" in
  python*" -I -") exit 0 ;;
  python*" -m venv"*) step=venv ;;
  python*" -m pip install "*"setuptools-scm"*) step=tools ;;
  python*" -m pip install "*"--only-deps"*) step=packages ;;
  python*" -m pip install "*"--editable .") step=kernel ;;
  python*" -m Cython.Build.Cythonize "*) exit 0 ;;
  python*" -m compileall "*)
    for place in "${@:6}"; do echo "${place##*/}" >>"$NOTES.compiled"; done
    exit "${COMPILED:-0}" ;;
  apt-get*" install "*)
    arguments=$*
    echo "apt-get ${arguments##*--no-install-recommends }" >>"$NOTES"
    cp -- "$0" "${0%/*}/gcc"
    exit ;;
  apt-get*) exit ;;
  gcc*|pkg-config*|fusermount3*) exit 0 ;;
  python*" -S "*/scripts/entry.py*)
    echo "$KAFKAFS_LAUNCHER" >"$NOTES.launcher"
    printf '%s|' "$PWD" "$(cat -- "$(dirname "$0")/../built")" "${@:3}"
    exit ;;
  *) echo "unexpected: $0 $*" >&2; exit 99 ;;
esac
echo "$step" >>"$NOTES"
if [[ $step == "$STOP_AT" ]]; then
  echo reached >"$GATES/reached"
  read -r answer <"$GATES/answer"
  [[ $answer == go ]] || exit 1
fi
case $step in
  venv)
    directory="${*: -1}"
    rm -rf -- "$directory"
    mkdir -p -- "$directory/bin"
    cp -- "$0" "$directory/bin/python" ;;
  kernel)
    cat storage/*.pyx >"$(dirname "$0")/../built"
    touch storage/walk.test.so
    touch "$(dirname "$0")/kafkafs" ;;
esac
"""


@dataclass
class Checkout:
    """A checkout with the launcher in it, and a PATH on which the actor stands for everything that a set-up calls."""

    root: Path
    stage: Path

    def __post_init__(self) -> None:
        (self.root / "scripts").mkdir(parents=True)
        (self.root / "storage").mkdir()
        for name in ("kafkafs", "environment.sh", "constraints.txt"):
            shutil.copy(SCRIPTS / name, self.root / "scripts" / name)
        (self.root / "pyproject.toml").write_text("[project]\n")
        (self.root / "storage" / "walk.pyx").write_text("first")
        self.stage.mkdir()
        for name in ("python3", "gcc", "pkg-config", "fusermount3", "apt-get"):
            (self.stage / name).write_text(ACTOR)
            (self.stage / name).chmod(0o755)
        for gate in ("reached", "answer"):
            os.mkfifo(self.stage / gate)
        # Held open at both ends, so that neither side waits for the other to open it.
        self.reached = (self.stage / "reached").open("r+b", buffering=0)
        self.answers = (self.stage / "answer").open("r+b", buffering=0)

    def asked(self) -> list[str]:
        """The steps that the actor was asked for since the last look; the last two are done at the same time."""
        return sorted(self._noted("notes"), key=lambda step: STEPS.index(step) if step in STEPS else -1)

    def compiled(self) -> list[str]:
        """The directories whose bytecode was compiled since the last look."""
        return self._noted("notes.compiled")

    def _noted(self, name: str) -> list[str]:
        path = self.stage / name
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def start(self, *arguments: str, stop_at: str = "", path: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [path or self.root / "scripts" / "kafkafs", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.stage,
            env={
                "PATH": f"{self.stage}:/usr/bin:/bin",
                "NOTES": str(self.stage / "notes"),
                "GATES": str(self.stage),
                "STOP_AT": stop_at,
            },
        )

    def run(self, *arguments: str, path: Path | None = None) -> tuple[str, str]:
        """Run the launcher to its end; what it printed, after a look that all is well."""
        process = self.start(*arguments, path=path)
        output, errors = process.communicate(timeout=TIME_S_MAX)
        assert process.returncode == 0, errors
        return output, errors

    def await_stop(self) -> None:
        """Return when the actor stands at the step where it should stop."""
        assert select.select([self.reached], [], [], TIME_S_MAX)[0], "the step was never reached"
        assert self.reached.readline() == b"reached\n"

    def answer(self, word: str) -> None:
        self.answers.write(f"{word}\n".encode())

    def close(self) -> None:
        self.reached.close()
        self.answers.close()


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Checkout]:
    with closing(Checkout(tmp_path / "a check out", tmp_path / "stage")) as made:
        yield made


def test_the_first_run_sets_up_and_runs(checkout: Checkout) -> None:
    output, errors = checkout.run("dump", "--json", "a b")
    assert output == f"{checkout.stage}|first|dump|--json|a b|"
    assert [line.partition(" ")[0] for line in errors.splitlines()] == ["kafkafs:"] * 2
    assert checkout.asked() == list(STEPS)


def test_the_second_run_only_runs(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    assert checkout.run("x") == (f"{checkout.stage}|first|x|", "")
    assert checkout.asked() == []


@pytest.mark.parametrize("name", ["storage/walk.pyx", "storage/new.pxd", "storage/new.h"])
def test_a_changed_kernel_source_is_built(checkout: Checkout, name: str) -> None:
    checkout.run()
    checkout.asked()
    (checkout.root / name).write_text("second")
    output, _ = checkout.run()
    assert checkout.asked() == ["kernel"]
    assert output.split("|")[1] == (checkout.root / "storage" / "walk.pyx").read_text()


def test_a_compiled_module_that_is_gone_is_built(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    (checkout.root / "storage" / "walk.test.so").unlink()
    checkout.run()
    assert checkout.asked() == ["kernel"]


def test_a_compiled_module_that_somebody_else_built_is_not_used(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    (checkout.root / "storage" / "walk.test.so").write_text("from other sources")
    checkout.run()
    assert checkout.asked() == ["kernel"]


@pytest.mark.parametrize("name", ["pyproject.toml", "scripts/constraints.txt"])
def test_changed_requirements_rebuild_everything(checkout: Checkout, name: str) -> None:
    checkout.run()
    checkout.asked()
    with (checkout.root / name).open("a") as file:
        file.write("# changed\n")
    checkout.run()
    assert checkout.asked() == list(STEPS)


def test_a_changed_module_changes_nothing(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    (checkout.root / "storage" / "layout.py").write_text("")
    checkout.run()
    assert checkout.asked() == []


def test_bytecode_is_compiled_once_and_again_when_a_module_changes(checkout: Checkout) -> None:
    checkout.run()
    assert checkout.compiled() == ["site-packages", "kafkafs", "storage"]
    checkout.run()
    assert checkout.compiled() == []
    module = checkout.root / "storage" / "layout.py"
    for change in (lambda: module.write_text("a = 1"), lambda: os.utime(module, (0, 0)), module.unlink):
        change()
        assert checkout.run("x") == (f"{checkout.stage}|first|x|", "")
        assert checkout.compiled() == ["kafkafs", "storage"]
        checkout.run()
        assert checkout.compiled() == []


def test_bytecode_that_cannot_be_compiled_is_no_failure(checkout: Checkout) -> None:
    done = source(checkout, "export COMPILED=1; prepare_environment fuse,arrow")
    assert done.returncode == 0
    assert checkout.compiled() == ["site-packages", "kafkafs", "storage"]
    assert source(checkout, "prepare_environment fuse,arrow").returncode == 0
    assert checkout.compiled() == []


def test_a_moved_checkout_is_set_up_again(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    moved = checkout.root.rename(checkout.root.with_name("moved"))
    checkout.run(path=moved / "scripts" / "kafkafs")
    assert checkout.asked() == list(STEPS)


def test_a_replaced_python_is_seen(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    python = checkout.root / ".venv" / "bin" / "python"
    python.rename(python.with_name("python3.99"))
    python.symlink_to("python3.99")
    checkout.run()
    assert checkout.asked() == list(STEPS)


def test_it_runs_through_a_symlink(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "kafkafs"
    link.symlink_to(checkout.root / "scripts" / "kafkafs")
    output, _ = checkout.run(path=link)
    assert output == f"{checkout.stage}|first|"
    assert (checkout.root / ".venv" / "kernel").is_file()


def test_it_says_how_it_was_called(checkout: Checkout) -> None:
    for path in (checkout.root / "scripts" / "kafkafs", Path("../a check out/scripts/kafkafs")):
        checkout.run(path=path)
        assert (checkout.stage / "notes.launcher").read_text() == f"{path}\n"


@pytest.mark.parametrize("step", STEPS)
def test_what_a_kill_left_is_not_used(checkout: Checkout, step: str) -> None:
    process = checkout.start(stop_at=step)
    checkout.await_stop()
    process.kill()
    assert process.wait() == -signal.SIGKILL
    checkout.answer("end")
    process.communicate(timeout=TIME_S_MAX)
    output, _ = checkout.run()
    assert output == f"{checkout.stage}|first|"
    asked = Counter(checkout.asked())
    again = ["kernel"] if step == "kernel" else STEPS[: STEPS.index(step) + 1]
    assert [each for each in STEPS if asked[each] == 2 and (step, each) != ("packages", "kernel")] == [*again]
    assert set(asked) == {*STEPS}


@pytest.mark.parametrize("step", STEPS)
def test_what_a_failure_left_is_not_used(checkout: Checkout, step: str) -> None:
    process = checkout.start(stop_at=step)
    checkout.await_stop()
    checkout.answer("fail")
    output, errors = process.communicate(timeout=TIME_S_MAX)
    assert (process.returncode, output) == (1, "")
    assert "failed: the reason is above" in errors.splitlines()[-1]
    checkout.run()
    assert checkout.asked()[-1] == "kernel"


def test_a_kernel_that_failed_to_build_leaves_no_old_one(checkout: Checkout) -> None:
    checkout.run()
    built = checkout.root / "storage" / "walk.test.so"
    assert built.is_file()
    (checkout.root / "storage" / "walk.pyx").write_text("wrong")
    process = checkout.start(stop_at="kernel")
    checkout.await_stop()
    checkout.answer("fail")
    process.communicate(timeout=TIME_S_MAX)
    assert not built.exists()


def test_of_two_first_runs_one_works(checkout: Checkout) -> None:
    first = checkout.start("1", stop_at="packages")
    checkout.await_stop()
    second = checkout.start("2")
    assert second.stderr is not None
    assert second.stderr.readline() == "kafkafs: another run is setting this checkout up: waiting for it\n"
    checkout.answer("go")
    assert first.communicate(timeout=TIME_S_MAX)[0] == f"{checkout.stage}|first|1|"
    assert second.communicate(timeout=TIME_S_MAX) == (f"{checkout.stage}|first|2|", "")
    assert checkout.asked() == list(STEPS)


def source(checkout: Checkout, commands: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run bash commands after environment.sh."""
    script = f"set -euo pipefail; source '{checkout.root}/scripts/environment.sh'; {commands}"
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={
            "PATH": f"{checkout.stage}:/usr/bin:/bin",
            "NOTES": str(checkout.stage / "notes"),
            "STOP_AT": "",
            **variables,
        },
    )


def test_more_extras_are_added_to_what_is_there(checkout: Checkout) -> None:
    checkout.run()
    checkout.asked()
    assert source(checkout, "prepare_environment fuse,arrow,dev").returncode == 0
    assert checkout.asked() == ["packages"]
    checkout.run()
    assert checkout.asked() == []


@pytest.mark.parametrize("words", [["--help"], ["stats", "--help"], ["stats", "-h"], []])
def test_help_on_sparks_commands_installs_no_spark(checkout: Checkout, words: list[str]) -> None:
    checkout.run()
    checkout.asked()
    checkout.run("spark", *words)
    assert checkout.asked() == []
    checkout.run("spark", "stats", "store")
    assert checkout.asked() == ["packages"]


def test_where_a_user_installs_is_not_where_the_packages_go(checkout: Checkout) -> None:
    done = source(
        checkout, 'echo "$PIP_USER ${PIP_TARGET-}${PIP_PREFIX-}"', PIP_USER="1", PIP_TARGET="/x", PIP_PREFIX="/y"
    )
    assert done.stdout == "0 \n"


def without_compiler(checkout: Checkout) -> str:
    """Commands after which the machine has no compiler but what the actor installs."""
    (checkout.stage / "gcc").unlink()
    return f'gcc() {{ [[ -x "{checkout.stage}/gcc" ]]; }};'


def test_root_gets_the_missing_debian_packages(checkout: Checkout) -> None:
    done = source(checkout, without_compiler(checkout) + "is_root() { true; }; prepare_environment fuse,arrow")
    assert (done.returncode, done.stderr.splitlines()[0]) == (0, "kafkafs: installing Debian packages: gcc libc6-dev")
    assert checkout.asked() == ["apt-get gcc libc6-dev", *STEPS]


def test_others_are_told_what_to_install(checkout: Checkout) -> None:
    done = source(checkout, without_compiler(checkout) + "is_root() { false; }; prepare_environment fuse,arrow")
    assert done.returncode == 1
    assert done.stderr == (
        "kafkafs: Debian packages are missing: run `apt-get install gcc libc6-dev` as root, then this again\n"
    )
    assert checkout.asked() == []
