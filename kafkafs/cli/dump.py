"""`kafkafs dump`: prints a broker's files as kafka-dump-log does, or as JSON."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from functools import wraps
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from kafkafs.cli.failures import EXIT_DONE, EXIT_FAILED, EXIT_FOUND, EXIT_USAGE, say
from kafkafs.cli.progress import Progress
from kafkafs.dump.dump_by_kind import DumpOptions, dump_of
from kafkafs.dump.file_kinds import FileKind, base_offset, kind_of
from kafkafs.dump.index_dump import IndexView
from kafkafs.dump.log_dump import Bounds, Selection
from kafkafs.dump.record_decoders import InternalTopic, decoder_of
from kafkafs.locator.errors import BadNameError
from kafkafs.locator.times import parse_time
from kafkafs.plain_text import lines, one_line
from storage.files import NamedFiles, ReadableFile
from storage.record import DEFAULT_OUTPUT_LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkafs.dump.decoded import RecordDecoder
    from kafkafs.dump.dump_by_kind import Dump
    from kafkafs.dump.json_form import JsonForm
    from kafkafs.dump.text import TextForm
    from storage.internal import Release
    from storage.record import LeasedBuffer

_WRITE_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 1024 * 1024
_STANDARD_INPUT: Final = "-"


def _milliseconds(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else parse_time(text).resolve(time.time_ns() // 1_000_000)
    except BadNameError as error:
        raise click.BadParameter(str(error), ctx, parameter) from None


class Output:
    """Writes lines in large pieces; in an array, with commas between them and brackets around."""

    def __init__(self, stream: BinaryIO, *, array: bool) -> None:
        self._stream = stream
        self._array = array
        self._is_empty = True
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def write(self, lines: Iterable[bytes | LeasedBuffer]) -> None:
        """Add lines; they leave the process with the next `flush` at the latest."""
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
        """Write everything that is pending, so that messages on standard error come after it."""
        self._write_pending()
        self._stream.flush()

    def finish(self) -> None:
        """Close the array, and write everything."""
        if self._array:
            self._put(b"[]\n" if self._is_empty else b"\n]\n")
        self.flush()

    def _put(self, part: bytes) -> None:
        self._pending.append(part)
        self._pending_bytes += len(part)

    def _write_pending(self) -> None:
        data = b"".join(self._pending)
        if self._stream.isatty():
            data = lines(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        self._stream.write(data)
        self._pending.clear()
        self._pending_bytes = 0


def _choosing_records(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose records of logs; the command gets them as `selection`."""

    @click.option("--batches-only", is_flag=True, help="List batches by their headers; decompress nothing.")
    @click.option("--max-bytes", type=click.IntRange(min=0), metavar="N", help="Read the first N bytes of each log.")
    @click.option("--from-offset", type=int, metavar="N", help="Print records from this offset on.")
    @click.option("--to-offset", type=int, metavar="N", help="Print records below this offset.")
    @click.option("--from-time", callback=_milliseconds, metavar="TIME", help="Print records from this time on.")
    @click.option("--to-time", callback=_milliseconds, metavar="TIME", help="Print records before this time.")
    @wraps(command)
    def choosing(
        *args: object,
        batches_only: bool,
        max_bytes: int | None,
        from_offset: int | None,
        to_offset: int | None,
        from_time: int | None,
        to_time: int | None,
        **others: object,
    ) -> None:
        bounds = Bounds(first_offset=from_offset, end_offset=to_offset, first_time=from_time, end_time=to_time)
        selection = Selection(bounds=bounds, with_records=not batches_only, max_bytes=max_bytes)
        command(*args, selection=selection, **others)

    return choosing


def _decoding(command: Callable[..., None]) -> Callable[..., None]:
    """Add the real tool's options for internal topics, of which the last one counts, and the release to print as."""

    @_decoder("--offsets-decoder", InternalTopic.OFFSETS)
    @_decoder("--transaction-log-decoder", InternalTopic.TRANSACTIONS)
    @_decoder("--cluster-metadata-decoder", InternalTopic.METADATA)
    @_decoder("--share-group-state-decoder", InternalTopic.SHARES)
    @_decoder("--remote-log-metadata-decoder", InternalTopic.REMOTE_LOGS)
    @click.option(
        "--as",
        "release",
        type=click.Choice(["3.9", "4"]),
        default="3.9",
        show_default=True,
        help="Print decoded and control records as the tool of this Kafka release does.",
    )
    @wraps(command)
    def decoding(*args: object, topic: str | None, release: Release, **others: object) -> None:
        decoder = None if topic is None else decoder_of(InternalTopic(topic), release)
        command(*args, decoder=decoder, release=release, **others)

    return decoding


def _decoder(option: str, topic: InternalTopic) -> Callable[[Callable[..., None]], Callable[..., None]]:
    sentence = f"Show keys and values as records of {topic.value}."
    return click.option(option, "topic", flag_value=topic.value, default=None, help=sentence)


@click.command(
    epilog="\b\nExample:\n  kafkafs dump --from-time 2026-11-21T02:14 /var/lib/kafka/orders-0/00000000000000000000.log"
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--json", "as_array", is_flag=True, help="Print one JSON array of objects.")
@click.option("--jsonl", "as_objects", is_flag=True, help="Print JSON objects, one a line.")
@click.option("--no-data", is_flag=True, help="Leave out keys and values; list batches and records.")
@_choosing_records
@_decoding
@click.option(
    "--index-sanity-check", is_flag=True, help="Say only whether Kafka's check of an .index or .timeindex passes."
)
@click.option(
    "--verify-index-only", is_flag=True, help="Say only what of an .index or .timeindex differs from the log."
)
@click.option(
    "--limit-bytes",
    type=click.IntRange(min=1),
    default=DEFAULT_OUTPUT_LIMIT_BYTES,
    show_default=True,
    metavar="N",
    help="The most that a batch, stored or decompressed, or a file read at once may need in memory; more is damage.",
)
@click.pass_context
def dump(
    ctx: click.Context,
    *,
    files: tuple[str, ...],
    as_array: bool,
    as_objects: bool,
    no_data: bool,
    selection: Selection,
    decoder: RecordDecoder | None,
    release: Release,
    index_sanity_check: bool,
    verify_index_only: bool,
    limit_bytes: int,
) -> None:
    """Print a broker's files as kafka-dump-log --deep-iteration --print-data-log does.

    FILE is a .log, .index, .timeindex, .txnindex or .snapshot, also a renamed one (.log.deleted), a metadata snapshot
    (.checkpoint), or a checkpoint of offsets or leader epochs; `-` is a log on standard input. Options that choose
    records are for logs. A time is epoch milliseconds, ISO 8601 (UTC without a zone), `now`, or `-15m` (s m h d w).

    A decoder reads the logs of an internal topic. If it cannot read a record, the record's line says so. `--as 4`
    prints what 4.4's tool does; the tools of 4 before that print the number of a transactionStatus, not its name.

    Indexes are compared with the log beside them. Differences, and jumps of a log's offsets, are reported on standard
    error. Damage in a file is a line, after which the dump goes on if it can.

    Exit code 1 means that a FILE is damaged or missing, 2 that it is none of these kinds, 3 that it could not be read.
    """
    if as_array and as_objects:
        raise click.UsageError("--json and --jsonl exclude each other.")
    if no_data and decoder is not None:
        raise click.UsageError("--no-data and decoders exclude each other.")
    options = DumpOptions(
        form=_form(as_json=as_array or as_objects, with_data=not no_data, decoder=decoder, release=release),
        selection=selection,
        index_view=_index_view(sanity=index_sanity_check, comparison=verify_index_only),
        limit_bytes=limit_bytes,
    )
    output = Output(sys.stdout.buffer, array=as_array)
    exit_code = EXIT_DONE
    for path in files:
        exit_code = max(exit_code, _dump_file(path, options, output))
    output.finish()
    ctx.exit(exit_code)


def _index_view(*, sanity: bool, comparison: bool) -> IndexView:
    if sanity and comparison:
        raise click.UsageError("--index-sanity-check and --verify-index-only exclude each other.")
    if sanity:
        return IndexView.SANITY
    return IndexView.COMPARISON if comparison else IndexView.ENTRIES


def _form(*, as_json: bool, with_data: bool, decoder: RecordDecoder | None, release: Release) -> JsonForm | TextForm:
    if as_json:
        from kafkafs.dump.json_form import JsonForm

        return JsonForm(with_data=with_data, decoder=decoder)
    from kafkafs.dump.text import TextForm

    return TextForm(with_data=with_data, decoder=decoder, release=release)


def _dump_file(path: str, options: DumpOptions, output: Output) -> int:
    """Dump one file, and return its exit code."""
    kind = FileKind.LOG if path == _STANDARD_INPUT else kind_of(path)
    if kind is None:
        return _not_looked_at(
            output, f"{path}: not the name of a log, an index, a snapshot or a checkpoint", EXIT_USAGE
        )
    if kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX) and base_offset(path) is None:
        return _not_looked_at(output, f"{path}: an index's name begins with the base offset of its segment", EXIT_USAGE)
    files = NamedFiles()
    try:
        file = _standard_input() if path == _STANDARD_INPUT else files.open_reading(path)
    except FileNotFoundError as error:
        return _not_looked_at(output, f"{path}: {error.strerror}", EXIT_FOUND)
    except OSError as error:
        return _not_looked_at(output, f"{path}: {error.strerror}", EXIT_FAILED)
    with file:
        dump = dump_of(kind, files, file, options)
        exit_code = _write_runs(path, dump, file.size_bytes(), output)
    report = list(dump.report())
    if report:
        output.flush()
        click.echo("\n".join(map(one_line, report)), err=True)
    return max(exit_code, EXIT_FOUND if dump.damaged else EXIT_DONE)


def _standard_input() -> ReadableFile:
    """Return standard input as a file that can be read at any position: a copy of it, if it is a pipe or a terminal."""
    if stat.S_ISREG(os.fstat(0).st_mode):
        return ReadableFile(_STANDARD_INPUT, os.dup(0))
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy, _READ_BYTES)
        copy.flush()
        return ReadableFile(_STANDARD_INPUT, os.dup(copy.fileno()))


def _write_runs(path: str, dump: Dump, size_bytes: int, output: Output) -> int:
    progress = Progress.on_terminal()
    runs = iter(dump)
    while True:
        try:
            lines = next(runs, None)
        except OSError as error:  # of the file or one beside it; what goes wrong with the output ends the command
            progress.erase()
            return _not_looked_at(output, f"{error.filename}: {error.strerror}", EXIT_FAILED)
        if lines is None:
            progress.erase()
            return EXIT_DONE
        output.write(lines)
        progress.show(path, dump.position, size_bytes)


def _not_looked_at(output: Output, sentence: str, code: int) -> int:
    output.flush()
    say(sentence)
    return code
