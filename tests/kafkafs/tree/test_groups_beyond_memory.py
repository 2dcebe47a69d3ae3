"""Groups that do not fit into the memory budget, and groups that other work needs the memory of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from group_stores import write

from kafkafs.cli import main
from storage.budget import MEMORY
from storage.clock import Clock
from storage.files import Files
from storage.internal import offsets
from storage.store import InternalTopics
from storage.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("settled_memory")

REFUSED = "__consumer_offsets-0 take more memory than three quarters of the budget of 1048576 bytes"
GROUPS = 300


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as made:
        made.topics.create(offsets.TOPIC, 1)
        value = offsets.encode_value(1, 3, {"offset": 5, "metadata": "m" * 4000})
        for number in range(GROUPS):
            write(made, offsets.TOPIC, offsets.encode_key(1, {"group": f"g{number}", "topic": "t"}), value)
        yield made


def test_a_list_without_the_groups_that_do_not_fit_is_an_error(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(store.log_dirs[0].path)
    store.close()
    with monkeypatch.context() as patched:
        patched.setattr(MEMORY, "limit_bytes", 1024 * 1024)
        for arguments in (["ls", path, ".kafkafs/groups"], ["cat", path, ".kafkafs/groups/g1"]):
            result = CliRunner().invoke(main, arguments)
            assert (result.exit_code, result.stdout) == (3, "")
            assert REFUSED in result.stderr
    assert len(CliRunner().invoke(main, ["ls", path, ".kafkafs/groups"]).stdout.splitlines()) == GROUPS


def test_groups_are_forgotten_when_others_need_their_memory(store: Store) -> None:
    before = MEMORY.left_bytes
    topics = InternalTopics(store, Clock(), store.log_to_write)
    found = topics.groups()
    assert len(found.groups) == GROUPS
    taken_bytes = before - MEMORY.left_bytes
    assert taken_bytes > 4000 * GROUPS
    MEMORY.shrink_caches()
    assert MEMORY.left_bytes == before - taken_bytes  # who has them still uses their memory
    del found
    assert MEMORY.left_bytes == before
    assert len(topics.groups().groups) == GROUPS
