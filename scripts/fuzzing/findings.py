"""What a fuzzer looks for."""

from __future__ import annotations


class Finding(Exception):  # noqa: N818 - it is what we want to have
    """Something that must not be: `what` is the same for all findings of one kind, `detail` is about this one."""

    def __init__(self, what: str, detail: object = "") -> None:
        super().__init__(what, detail)
        self.what = what
        self.detail = str(detail)

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what
