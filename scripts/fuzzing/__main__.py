"""The command line of scripts/fuzz."""

from __future__ import annotations

import argparse
import faulthandler
import io
import os
import sys
import tempfile
import time
from pathlib import Path

COUNTS = {"batch": 1_000_000, "file": 100_000, "rows": 20_000, "bomb": 4_000, "small": 100_000}
"""How many inputs there are of each kind."""
NAMES = {"batch": "batches", "file": "files", "rows": "rows", "bomb": "bombs", "small": "small"}
"""The options that say how many."""
OF_A_KIND = {
    "batch": "mutated batches",
    "file": "mutated log files",
    "rows": "runs of rows",
    "bomb": "bombs",
    "small": "small files",
}
SANITIZED_SHARE = 10
SHOWN_BYTES_MAX = 1 << 20


def main() -> int:
    """Run what is asked for; 1 if there are findings."""
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(errors="backslashreplace")  # what is found may be half a character
    options = _options()
    if options.sanitize:
        return _run_sanitized(options)
    if options.only is not None:
        return _run_some(options.seed, options.only)
    return _run_all(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Read damaged batches and files with the package and with its oracle, and compare; read bombs in "
        "little memory.",
        epilog="Every input follows from the seed and its number alone; what is found says how to repeat it.",
    )
    for kind, count in COUNTS.items():
        said = f"how many {OF_A_KIND[kind]} ({count:,})"
        parser.add_argument(f"--{NAMES[kind]}", type=int, metavar="N", dest=kind, help=said)
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="what all inputs follow from (1)")
    parser.add_argument("--processes", type=int, default=2, metavar="P", help="how many at a time (2)")
    parser.add_argument(
        "--only", type=_input, nargs="+", metavar="KIND:INDEX", help="check and show these inputs alone"
    )
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help=f"with a kernel that checks itself, which takes a minute to build; by default 1/{SANITIZED_SHARE} as many",
    )
    return parser.parse_args()


def _input(text: str) -> tuple[str, int]:
    kind, _, index = text.partition(":")
    if kind not in COUNTS or not index.isdigit():
        raise argparse.ArgumentTypeError(f"an input is KIND:INDEX, where KIND is one of {', '.join(COUNTS)}")
    return kind, int(index)


def _run_sanitized(options: argparse.Namespace) -> int:
    from fuzzing import sanitizing

    sanitizing.build()
    arguments = [sys.executable, "-P", "-m", "fuzzing", f"--seed={options.seed}", f"--processes={options.processes}"]
    if options.only is not None:
        arguments += ["--only", *(f"{kind}:{index}" for kind, index in options.only)]
    for kind, count in COUNTS.items():
        asked = getattr(options, kind)
        arguments.append(f"--{NAMES[kind]}={count // SANITIZED_SHARE if asked is None else asked}")
    sys.stdout.flush()
    os.execve(sys.executable, arguments, sanitizing.environment())


def _run_all(options: argparse.Namespace) -> int:
    from fuzzing import campaign, limits

    asked = {kind: getattr(options, kind) for kind in COUNTS}
    counts = {kind: COUNTS[kind] if count is None else count for kind, count in asked.items()}
    started = time.monotonic()
    outcome = campaign.run(campaign.Plan(options.seed, counts), options.processes)
    seconds = time.monotonic() - started
    done = outcome.done
    checked_by = ", kernel under AddressSanitizer and UndefinedBehaviorSanitizer" if limits.INSTRUMENTED else ""
    print(
        f"seed {options.seed}: {', '.join(f'{done[kind]:,} {what}' for kind, what in OF_A_KIND.items())}"
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


def _run_some(seed: int, chosen: list[tuple[str, int]]) -> int:
    from fuzzing import limits

    faulthandler.enable()
    limits.confine_process()
    return max([_run_one(seed, kind, index) for kind, index in chosen])


def _run_one(seed: int, kind: str, index: int) -> int:
    from fuzzing import bomb_inputs, campaign, inputs, row_inputs, small_files

    if kind == "rows":
        print(row_inputs.rows_input(seed, index))
    else:
        makers = {
            "batch": inputs.batch_input,
            "file": inputs.file_input,
            "bomb": bomb_inputs.bomb_input,
            "small": small_files.small_file,
        }
        given = makers[kind](seed, index)
        print(f"{given.kind}, {len(given.data)} bytes:\n{given.data[:SHOWN_BYTES_MAX].hex()}", flush=True)
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
