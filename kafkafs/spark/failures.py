"""Turns an error of Spark into one sentence.

An exception that kafkafs raised in a worker comes back as text, in a stack trace within another one; the last of them
has the sentence. Without one, the first line of Spark's message is used. Spark is not loaded for it.
"""

from __future__ import annotations

import re
from typing import Final

_OURS: Final = re.compile(r"^(?:Caused by: )?(?:storage|kafkafs)(?:\.\w+)*\.(\w+): (.+)$", re.MULTILINE)
_SYSTEM: Final = re.compile(
    r"^(?:\w*(?:NotFound|Permission|NotADirectory|IsADirectory|FileExists)Error|OSError): "
    r"\[Errno \d+\] (.+?)(?:: '(.+)')?$",
    re.MULTILINE,
)
_NO_MODULE: Final = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)
_JAVA_FRONT: Final = re.compile(r"^(?:: )?(?:(?:[a-z_]\w*\.)+[A-Z][\w$]*: )*")
_IN_MAIN: Final = re.compile(r'^Exception in thread "main" (?:(?:[a-z_]\w*\.)+[A-Z][\w$]*: )*(.+)$', re.MULTILINE)
_CHATTER: Final = re.compile(r"\s|WARNING|Using |Picked up |To adjust |Setting |\d\d/\d\d/\d\d ")
_NOT_STARTED: Final = "JAVA_GATEWAY_EXITED"
_CALLED: Final = "An error occurred while calling "
_MISSING_PACKAGES: Final = frozenset({"pyspark", "pyarrow", "pandas", "grpc"})
_PACKAGES: Final = frozenset({"pyspark", "py4j", "grpc"})


def is_sparks(error: BaseException) -> bool:
    """Return True if Spark, or py4j or grpc below it, has raised it."""
    return any(each.__module__.partition(".")[0] in _PACKAGES for each in type(error).__mro__)


def is_of_starting(error: BaseException) -> bool:
    """Return True if Spark ended before it began."""
    return is_sparks(error) and _NOT_STARTED in str(error)


def missing_package(error: BaseException) -> str | None:
    """Return the missing package that has raised it, if it is one that Spark needs."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return name if name in _MISSING_PACKAGES else None


def ours(error: BaseException) -> str | None:
    """Return the sentence of kafkafs or the system in a worker; None if there is none."""
    text = str(error)
    if said := _OURS.findall(text):
        return str(said[-1][1]).strip()
    if said := _SYSTEM.findall(text):
        reason, path = said[-1]
        return f"{path}: {reason}" if path else str(reason)
    if modules := _NO_MODULE.findall(text):
        return (
            f"Spark's workers lack the module {modules[-1]}: install kafkafs for the Python that they run, which "
            "PYSPARK_PYTHON names"
        )
    return None


def kind_of_ours(error: BaseException) -> str | None:
    """Return the name of the class of an error that kafkafs has raised in a worker."""
    said = _OURS.findall(str(error))
    return str(said[-1][0]) if said else None


def startup_reason(chatter: str) -> str | None:
    """Return why Spark has not started, by its standard error; None if that does not tell."""
    if said := _IN_MAIN.findall(chatter):
        return str(said[-1])
    return next((line for line in chatter.splitlines() if line and not _CHATTER.match(line)), None)


def first_line(error: BaseException) -> str:
    """Return the first line of Spark's message, without the names of its classes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    while lines and lines[0].startswith(_CALLED):
        lines.pop(0)
    said = _JAVA_FRONT.sub("", lines[0], count=1) if lines else ""
    return said or type(error).__name__
