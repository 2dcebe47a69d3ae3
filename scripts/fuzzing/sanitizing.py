"""A second kernel that checks itself: built with AddressSanitizer and UndefinedBehaviorSanitizer, apart from the first.

The packages are copied into the checkout's cache and built there; who runs with `environment` imports that copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
COPY = CHECKOUT / ".cache" / "fuzz" / "sanitized"
STAMP = COPY / "digest"
PACKAGES = ("storage", "kafkafs")
BUILT = ("*.so", "*.c", "__pycache__")

FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-O1", "-g"]
BUILD = """
import glob, sys
from Cython.Build import cythonize
from setuptools import Extension, setup
flags = sys.argv[1:]
sys.argv = ["setup", "-q", "build_ext", "--inplace"]
setup(
    name="kernel",
    packages=[],
    ext_modules=cythonize(
        [
            Extension(path[:-4].replace("/", "."), [path], extra_compile_args=flags, extra_link_args=flags)
            for path in sorted(glob.glob("storage/record/kernel/*.pyx"))
        ],
        quiet=True,
    ),
)
"""


def build() -> None:
    """Bring the copy up to date; a copy that was left half made is made again."""
    digest = _digest()
    if STAMP.exists() and STAMP.read_text() == digest:
        return
    shutil.rmtree(COPY, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(CHECKOUT / package, COPY / package, ignore=shutil.ignore_patterns(*BUILT))
    subprocess.run([sys.executable, "-c", BUILD, *FLAGS], cwd=COPY, check=True)
    STAMP.write_text(digest)


def environment() -> dict[str, str]:
    """Return the environment in which Python uses the copy, with its libraries in place."""
    libraries = [_library(name) for name in ("libasan.so", "libubsan.so")]
    return os.environ | {
        "LD_PRELOAD": " ".join(libraries),
        # Python frees little when it ends, and what asks for too much memory is to get none.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=64",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # Each object in memory of its own, so that its ends are watched.
        "PYTHONMALLOC": "malloc",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "PYTHONPATH": os.pathsep.join((str(COPY), os.environ.get("PYTHONPATH", ""))),
    }


def _library(name: str) -> str:
    command = ["gcc", f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"{name} is missing: it comes with Debian's gcc, as libgcc-12-dev or its like")
    return path


def _digest() -> str:
    digest = hashlib.sha256(" ".join(FLAGS).encode() + BUILD.encode() + sys.version.encode())
    for path in sorted(path for package in PACKAGES for path in (CHECKOUT / package).rglob("*.p[yx]*")):
        if path.suffix != ".pyc":
            digest.update(f"{path.relative_to(CHECKOUT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
