"""What changes the number of replacements, and what does not."""

from __future__ import annotations

from memory_logs import DIRECTORY, LogOnMemory, sent

from kafkafs.tree.replacements import Replacements
from storage.log.followed_log import FollowedLog


def filled() -> LogOnMemory:
    lab = LogOnMemory()
    for number in range(4):
        lab.log.append_as_leader(sent(b"%d" % number), leader_epoch=1)
        lab.log.roll()
    return lab


def follow(lab: LogOnMemory) -> FollowedLog:
    return FollowedLog(
        lab.clock, lab.files.directory(DIRECTORY), lab.config, producer_expiration_ms=1, recovery_point=3
    )


def remove(lab: LogOnMemory, base_offset: int) -> None:
    for name in lab.files.names(DIRECTORY):
        if name.startswith(f"{base_offset:020}."):
            lab.files.remove(f"{DIRECTORY}/{name}")


def test_growth_rolls_and_retention_replace_nothing() -> None:
    lab = filled()
    followed = follow(lab)
    ours, theirs = Replacements(), Replacements()

    def look() -> tuple[int, int]:
        return ours.look(lab.log.view), theirs.look(followed.view)

    assert look() == (0, 0)
    lab.log.append_as_leader(sent(b"more"), leader_epoch=1)
    assert look() == (0, 0)
    lab.log.roll()
    assert look() == (0, 0)
    lab.log.advance_start(2)
    remove(lab, 0)
    remove(lab, 1)
    assert theirs.look(followed.view) == 0
    assert look() == (0, 0)


def test_a_truncation_replaces_even_if_the_log_has_grown_since() -> None:
    lab = filled()
    followed = follow(lab)
    ours, theirs = Replacements(), Replacements()
    ours.look(lab.log.view)
    theirs.look(followed.view)
    lab.log.truncate_to(3)
    for number in range(5):
        lab.log.append_as_leader(sent(b"new %d" % number), leader_epoch=2)
    assert ours.look(lab.log.view) > 0
    assert theirs.look(followed.view) > 0
    number = ours.count
    lab.log.append_as_leader(sent(b"on"), leader_epoch=2)
    assert ours.look(lab.log.view) == number


def test_a_truncation_within_the_active_segment_replaces() -> None:
    lab = LogOnMemory()
    for number in range(3):
        lab.log.append_as_leader(sent(b"%d" % number), leader_epoch=1)
    followed = follow(lab)
    ours, theirs = Replacements(), Replacements()
    assert (ours.look(lab.log.view), theirs.look(followed.view)) == (0, 0)
    lab.log.truncate_to(1)
    for number in range(3):
        lab.log.append_as_leader(sent(b"new %d" % number), leader_epoch=2)
    assert ours.look(lab.log.view) == 1
    assert theirs.look(followed.view) > 0


def test_another_file_in_a_segments_place_replaces() -> None:
    lab = filled()
    followed = follow(lab)
    theirs = Replacements()
    theirs.look(followed.view)
    path = f"{DIRECTORY}/{1:020}.log"
    data = lab.files.read(path)
    with lab.files.open_writing(f"{path}.swap", create=True) as file:
        file.write_at(0, [data])
    lab.files.rename(path, f"{path}.deleted")
    lab.files.rename(f"{path}.swap", path)
    assert theirs.look(followed.view) == 1


def test_segments_that_were_merged_replace() -> None:
    lab = filled()
    followed = follow(lab)
    theirs = Replacements()
    theirs.look(followed.view)
    remove(lab, 1)
    assert theirs.look(followed.view) == 1
