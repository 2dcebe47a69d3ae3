"""kafkafs: a Kafka log as files.

Importing this costs nothing: the version is read when it is asked for, and everything else is in the modules below.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version

        return version("kafkafs")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
