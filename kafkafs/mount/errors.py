"""Why a store cannot be mounted or unmounted, in one sentence that says what to do."""

from __future__ import annotations


class MountError(Exception):
    """The root: the sentence is for people. `exit_code` is that of the process that was to serve, if it ended so."""

    def __init__(self, sentence: str, *, exit_code: int | None = None) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class NotMountedError(MountError):
    """No mount of kafkafs is there."""
