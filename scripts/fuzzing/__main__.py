"""The command line of scripts/fuzz."""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import tempfile
import time
from pathlib import Path

BATCHES = 1_000_000
FILES = 100_000
ROWS = 20_000
SANITIZED_SHARE = 10


def main() -> int:
    """Run what is asked for; 1 if there are findings."""
    options = _options()
    if options.sanitize:
        return _run_sanitized(options)
    if options.only is not None:
        return _run_one(options.seed, *options.only)
    return _run_all(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Read damaged batches and log files with the package and with its oracle, and compare.",
        epilog="Every input follows from the seed and its number alone; what is found says how to repeat it.",
    )
    parser.add_argument("--batches", type=int, metavar="N", help=f"how many mutated batches ({BATCHES:,})")
    parser.add_argument("--files", type=int, metavar="N", help=f"how many mutated log files ({FILES:,})")
    parser.add_argument("--rows", type=int, metavar="N", help=f"how many runs of records to write ({ROWS:,})")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what all inputs follow from (1)")
    parser.add_argument("--processes", type=int, default=2, metavar="P", help="how many at a time (2)")
    parser.add_argument("--only", type=_input, metavar="KIND:INDEX", help="check this input alone, and show it")
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help=f"with a kernel that checks itself, which takes a minute to build; by default 1/{SANITIZED_SHARE} as many",
    )
    return parser.parse_args()


def _input(text: str) -> tuple[str, int]:
    kind, _, index = text.partition(":")
    if kind not in ("batch", "file", "rows") or not index.isdigit():
        raise argparse.ArgumentTypeError("an input is batch:INDEX, file:INDEX or rows:INDEX")
    return kind, int(index)


def _run_sanitized(options: argparse.Namespace) -> int:
    from fuzzing import sanitizing

    sanitizing.build()
    arguments = [sys.executable, "-P", "-m", "fuzzing", f"--seed={options.seed}", f"--processes={options.processes}"]
    if options.only is not None:
        arguments.append("--only={}:{}".format(*options.only))
    for name, count in (("batches", BATCHES), ("files", FILES), ("rows", ROWS)):
        asked = getattr(options, name)
        arguments.append(f"--{name}={count // SANITIZED_SHARE if asked is None else asked}")
    sys.stdout.flush()
    os.execve(sys.executable, arguments, sanitizing.environment())


def _run_all(options: argparse.Namespace) -> int:
    from fuzzing import campaign, limits

    counts = {
        "batch": BATCHES if options.batches is None else options.batches,
        "file": FILES if options.files is None else options.files,
        "rows": ROWS if options.rows is None else options.rows,
    }
    started = time.monotonic()
    outcome = campaign.run(campaign.Plan(options.seed, counts), options.processes)
    seconds = time.monotonic() - started
    done = outcome.done
    checked_by = ", kernel under AddressSanitizer and UndefinedBehaviorSanitizer" if limits.INSTRUMENTED else ""
    print(
        f"seed {options.seed}: {done['batch']:,} batches, {done['file']:,} files, {done['rows']:,} runs of rows"
        f" in {seconds:.0f} s, {done.total() / seconds:,.0f} a second{checked_by}"
    )
    for kind in counts:
        print(f"{kind}:")
        of_kind = [(count, what) for (seen_kind, what), count in outcome.seen.items() if seen_kind == kind]
        for count, what in sorted(of_kind, reverse=True):
            print(f"  {count:>9,}  {what}")
    for found in outcome.found:
        print(f"\n{found.kind}:{found.index}: {found.what}\n{found.detail}")
        print(f"again: scripts/fuzz --seed {options.seed} --only {found.kind}:{found.index}")
    print(f"\n{outcome.counts.total()} findings")
    for what, count in outcome.counts.most_common():
        print(f"  {count:>9,}  {what}")
    return 1 if outcome.found else 0


def _run_one(seed: int, kind: str, index: int) -> int:
    from fuzzing import campaign, inputs, limits, row_inputs

    faulthandler.enable()
    limits.confine_process()
    if kind == "rows":
        print(row_inputs.rows_input(seed, index))
    else:
        given = inputs.batch_input(seed, index) if kind == "batch" else inputs.file_input(seed, index)
        print(f"{given.kind}, {len(given.data)} bytes:\n{given.data.hex()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkafs-fuzz-") as directory:
        try:
            seen = campaign.check_input(seed, kind, index, Path(directory))
        except Exception as error:  # noqa: BLE001 -- any error is a finding
            found = campaign.found_by(kind, index, error)
            print(f"{found.what}\n{found.detail}")
            return 1
    for what, count in seen.items():
        print(f"{count} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
