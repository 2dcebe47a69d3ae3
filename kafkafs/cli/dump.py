"""`kafkafs dump`: logs as kafka-dump-log prints them, or as JSON."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from kafkafs.cli.progress import Progress
from kafkafs.dump.bounds import Bounds
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.log_names import is_log
from kafkafs.times import parse_time
from storage.files import Files
from storage.record.compression import DEFAULT_OUTPUT_LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkafs.dump.log_dump import Form

EXIT_SOUND: Final = 0
EXIT_DAMAGED: Final = 1
EXIT_NOT_LOOKED_AT: Final = 2

_WRITE_BYTES: Final = 1024 * 1024


def _milliseconds(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_time(text, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


class Output:
    """Lines on their way out, in large writes; in an array, commas stand between them and brackets around."""

    def __init__(self, stream: BinaryIO, *, array: bool) -> None:
        self._stream = stream
        self._array = array
        self._is_empty = True
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def write(self, lines: Iterable[bytes]) -> None:
        """Take lines; they leave with a later `flush` at the latest."""
        if self._array:
            self._put(b"[\n" if self._is_empty else b",\n")
            self._put(b",\n".join(lines))
        else:
            self._put(b"\n".join(lines))
            self._put(b"\n")
        self._is_empty = False
        if self._pending_bytes >= _WRITE_BYTES:
            self._write_pending()

    def flush(self) -> None:
        """Let everything leave the process, so that what is said elsewhere comes after it."""
        self._write_pending()
        self._stream.flush()

    def finish(self) -> None:
        """Close the array, and let everything leave the process."""
        if self._array:
            self._put(b"[]\n" if self._is_empty else b"\n]\n")
        self.flush()

    def _put(self, part: bytes) -> None:
        self._pending.append(part)
        self._pending_bytes += len(part)

    def _write_pending(self) -> None:
        self._stream.write(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0


@click.command(
    epilog="\b\nExample:\n  kafkafs dump --from-time 2026-11-21T02:14 /var/lib/kafka/orders-0/00000000000000000000.log"
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array of objects.")
@click.option("--jsonl", "as_objects", is_flag=True, help="Print JSON objects, one a line.")
@click.option("--no-data", is_flag=True, help="Leave out keys and values; batches and records are listed all the same.")
@click.option("--batches-only", is_flag=True, help="List batches by their headers alone; nothing is decompressed.")
@click.option("--max-bytes", type=click.IntRange(min=0), metavar="N", help="Look at the first N bytes of each log.")
@click.option("--from-offset", type=int, metavar="N", help="Print records from this offset on.")
@click.option("--to-offset", type=int, metavar="N", help="Print records below this offset.")
@click.option("--from-time", callback=_milliseconds, metavar="TIME", help="Print records from this time on.")
@click.option("--to-time", callback=_milliseconds, metavar="TIME", help="Print records before this time.")
@click.option(
    "--limit-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_OUTPUT_LIMIT_BYTES,
    show_default=True,
    metavar="N",
    help="The most that a batch may need in memory, stored or decompressed; one that needs more counts as damaged.",
)
@click.pass_context
def dump(
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    as_array: bool,
    as_objects: bool,
    no_data: bool,
    batches_only: bool,
    max_bytes: int | None,
    from_offset: int | None,
    to_offset: int | None,
    from_time: int | None,
    to_time: int | None,
    limit_bytes: int,
) -> None:
    """Print what logs hold, as kafka-dump-log --deep-iteration --print-data-log prints it.

    FILE is a .log, also one that was renamed for later (.log.deleted), or a metadata snapshot (.checkpoint). A time is
    epoch milliseconds, ISO 8601 (UTC when no zone is given), `now`, or `-15m` (s m h d w). Where offsets jump is said
    on standard error. Where a log is damaged a line says so, and the dump goes on if it can.

    Exit codes: 0 sound, 1 something is damaged, 2 a FILE could not be looked at.
    """
    if as_array and as_objects:
        raise click.UsageError("--json and --jsonl exclude each other.")
    selection = Selection(
        bounds=Bounds(first_offset=from_offset, end_offset=to_offset, first_time=from_time, end_time=to_time),
        with_records=not batches_only,
        max_bytes=max_bytes,
    )
    form = _form(as_json=as_array or as_objects, with_data=not no_data)
    output = Output(sys.stdout.buffer, array=as_array)
    exit_code = EXIT_SOUND
    for path in files:
        exit_code = max(exit_code, _dump_file(path, form, selection, limit_bytes, output))
    output.finish()
    ctx.exit(exit_code)


def _form(*, as_json: bool, with_data: bool) -> Form:
    if as_json:
        from kafkafs.dump.json_form import JsonForm

        return JsonForm(with_data=with_data)
    from kafkafs.dump.text import TextForm

    return TextForm(with_data=with_data)


def _dump_file(path: str, form: Form, selection: Selection, limit_bytes: int, output: Output) -> int:
    """Dump one file, and give the exit code that it alone would end with."""
    if not is_log(path):
        return _not_looked_at(output, f"{path}: not the name of a log (.log) or metadata snapshot (.checkpoint)")
    try:
        file = Files().open_reading(path)
    except OSError as error:
        return _not_looked_at(output, f"{path}: {error.strerror}")
    with file:
        log = LogDump(file, form, selection, limit_bytes=limit_bytes)
        exit_code = _write_runs(path, log, file.size_bytes(), output)
    if log.gaps.total:
        output.flush()
        click.echo("\n".join(log.gaps.report()), err=True)
    return max(exit_code, EXIT_DAMAGED if log.damaged else EXIT_SOUND)


def _write_runs(path: str, log: LogDump, size_bytes: int, output: Output) -> int:
    progress = Progress.on_terminal()
    runs = iter(log)
    while True:
        try:
            lines = next(runs, None)
        except OSError as error:  # of the log; what goes wrong with the output ends the command
            progress.erase()
            return _not_looked_at(output, f"{path}: {error.strerror}")
        if lines is None:
            progress.erase()
            return EXIT_SOUND
        output.write(lines)
        progress.show(path, log.position, size_bytes)


def _not_looked_at(output: Output, sentence: str) -> int:
    output.flush()
    click.echo(f"kafkafs: {sentence}", err=True)
    return EXIT_NOT_LOOKED_AT
