"""An open range whose segments are removed is read as it was, within the budget of files that are held."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_logs import LogOnMemory, sent

from kafkafs.tree.options import TreeOptions
from storage.log.view import Isolation

if TYPE_CHECKING:
    from conftest import Views


def test_what_is_aborted_stays_hidden_in_removed_segments(views: Views) -> None:
    lab = LogOnMemory()
    for number in range(4):
        lab.produce(b"%d aborted" % number, number, transactional=True)
        lab.end_transaction(committed=False)
        lab.log.append_as_leader(sent(b"%d" % number), leader_epoch=1)
        lab.log.roll()
    source = views.memory(lab, TreeOptions(isolation=Isolation.COMMITTED, counted_bytes_max=0), is_followed=True)
    reading = views.node(source, "all").open()
    for name in lab.log.remove_before(9):
        lab.log.directory.remove(name)
    lab.run_tasks()
    assert bytes(reading.read(0, 100)) == b"0\n1\n2\n3\n"
    assert views.read(source, "all") == b"3\n"
