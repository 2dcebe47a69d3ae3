"""A log with some of everything in it, and ways to damage its files before it is recovered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_logs import DIRECTORY, LogOnMemory, sent

from storage.segment.names import FileName, FileSuffix, Kind

if TYPE_CHECKING:
    from storage.log.recover.report import RecoveryReport

RECORDS: Final = 30


def value_at(offset: int) -> bytes:
    """The value of the record at an offset from 2 on."""
    return b"%d" % offset * 200


class DamagedLog(LogOnMemory):
    """A log of thirty records by three leaders over some segments; the first record was aborted.

    If it is not closed, nothing of it was ever flushed.
    """

    def __init__(self, *, close: bool = True) -> None:
        super().__init__()
        self.produce(b"aborted", 0, transactional=True)
        self.end_transaction(committed=False)
        for offset in range(2, RECORDS):
            self.clock.ms += 10
            self.log.append_as_leader(sent([(self.clock.ms, value_at(offset))]), leader_epoch=1 + offset // 12)
        self.bases = self.log.view.bases
        if close:
            self.log.close()
            self.run_tasks()

    def path(self, base: int, kind: Kind = Kind.LOG, suffix: FileSuffix = FileSuffix.LIVE) -> str:
        """Return the path of a file."""
        return f"{DIRECTORY}/{FileName(base, kind, suffix)}"

    def write(self, path: str, data: bytes, position: int | None = None) -> None:
        """Put the data where it says, or in place of all that is there."""
        with self.files.open_writing(path, create=True) as file:
            if position is None:
                file.truncate(0)
            file.write_at(position or 0, [data])

    def add(self, path: str, data: bytes) -> None:
        """Append the data to the file."""
        status = self.files.status(path)
        assert status is not None
        self.write(path, data, status.size_bytes)

    def flip(self, path: str, position: int) -> None:
        """Change a bit of the byte at the position."""
        data = bytearray(self.files.read(path))
        data[position] ^= 1
        self.write(path, bytes(data))

    def state(self) -> dict[str, tuple[bytes, int, tuple[int, int]]]:
        """Every file: its contents, when it was changed, and which it is."""
        found = {}
        for name, data in self.contents().items():
            status = self.files.status(f"{DIRECTORY}/{name}")
            assert status is not None
            found[name] = (data, status.modified_ms, status.identity)
        return found

    def repaired(self, *, is_clean: bool = False, recovery_point: int = 0, start_offset: int = 0) -> RecoveryReport:
        """Recover, and check that a second recovery has nothing to do and that the log opens and goes on at its end."""
        report = self.recover(is_clean=is_clean, recovery_point=recovery_point, start_offset=start_offset)
        again = self.recover(start_offset=report.start_offset)
        assert (again.steps, again.start_offset, again.end_offset) == ([], report.start_offset, report.end_offset)
        log = self.open(report.start_offset)
        assert (log.view.start_offset, log.view.end_offset) == (report.start_offset, report.end_offset)
        assert log.append_as_leader(sent(b"and on"), leader_epoch=9).first_offset == report.end_offset
        return report
