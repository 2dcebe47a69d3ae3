"""A store opened for a job, with the topics that the job is about, and what a job does where records are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.spark.bounds import Edge
from kafkafs.spark.jobs.log_dirs import log_dirs
from kafkafs.spark.opened_store import OpenedStore
from kafkafs.spark.options import Damage, StoreOptions

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import NoReturn

    from kafkafs.spark.jobs.log_dirs import StorePath
    from storage.errors import RecordsGoneError


def opened(store: StorePath, topics: Collection[str] | None, *, damage: Damage = Damage.STOP) -> OpenedStore:
    """The store with these topics, or all, for planning; to be closed. `damage` says what planning does at it."""
    options = {"path": ",".join(log_dirs(store)), "damage": damage.value}
    if topics is not None:
        options["subscribe"] = ",".join(topics)
    return OpenedStore(StoreOptions.parse(options, Edge.EARLIEST))


def refuse(loss: RecordsGoneError) -> NoReturn:
    """Fail, as what remains says nothing of a log as it was planned."""
    raise loss
