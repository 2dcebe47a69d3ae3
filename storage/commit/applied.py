"""The writes that are in a store already: of each application the last version in each topic.

A topic is known by its id, so one that is deleted and made again has no writes of the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from storage.commit.json_text import list_of, number_of, object_of, text_of
from storage.errors import StagingError
from storage.ids import format_id, parse_id

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias
    from uuid import UUID

    TopicIds: TypeAlias = Mapping[str, UUID | None]

_LEAST: Final = -(2**63)


class Transaction(NamedTuple):
    """A version of an application, to be in each topic once. The versions of an application rise.

    Those of a streaming query are the numbers of its batches; `query` is the id that its checkpoint has, empty if that
    is unknown. It is None for other writes.
    """

    application: str
    version: int
    query: str | None = None


class Applied(NamedTuple):
    """The last version of an application in the topic with this id, and the query that wrote it, if that is known."""

    version: int
    topic_id: UUID | None
    query: str = ""


@dataclass(frozen=True, slots=True)
class AppliedVersions:
    """The last versions, by application and topic.

    An earlier kafkafs kept one version for an application, whatever it wrote to. These `earlier` ones count for the
    topics that were there when they were read first: `earlier_topics`, None until then.
    """

    by_topic: Mapping[str, Mapping[str, Applied]] = field(default_factory=lambda: MappingProxyType({}))
    earlier: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    earlier_topics: TopicIds | None = None

    def __bool__(self) -> bool:
        """Return True if any write is noted."""
        return bool(self.by_topic or self.earlier)

    def last(self, application: str, topic: str, topic_id: UUID | None) -> Applied | None:
        """Return what is noted of an application in a topic that is there; None if it has not written to it."""
        found = self.by_topic.get(application, {}).get(topic)
        if found is not None and found.topic_id == topic_id:
            return found
        topics = self.earlier_topics
        was_there = topics is None or (topic in topics and topics[topic] == topic_id)
        if application not in self.earlier or not was_there:
            return None
        return Applied(self.earlier[application], topic_id)

    def known(self, transaction: Transaction, topic_ids: TopicIds) -> dict[str, Applied]:
        """Return those of some topics, which are there, that have this version of the application, or a later one.

        Raises `StagingError` for a batch of a streaming query that begins with another checkpoint than the one whose
        batches are noted: its numbers say nothing about these.
        """
        found = {}
        for topic, topic_id in topic_ids.items():
            last = self.last(transaction.application, topic, topic_id)
            if last is not None:
                _check_query(transaction, topic, last)
                if transaction.version <= last.version:
                    found[topic] = last
        return found

    def has_all(self, transaction: Transaction, topic_ids: TopicIds) -> bool:
        """Return True if a write is in all topics that it was ever in; `topic_ids` are all topics that are there."""
        noted = {topic: each.topic_id for topic, each in self.by_topic.get(transaction.application, {}).items()}
        if transaction.application in self.earlier:
            noted = {**(topic_ids if self.earlier_topics is None else self.earlier_topics), **noted}
        is_there = all(topic in topic_ids and topic_ids[topic] == topic_id for topic, topic_id in noted.items())
        return bool(noted) and is_there and self.known(transaction, noted).keys() == noted.keys()

    def noted(self, transaction: Transaction, topic_ids: TopicIds) -> Self:
        """Return these with a write to some topics."""
        application, version, query = transaction
        added = {topic: Applied(version, topic_id, query or "") for topic, topic_id in topic_ids.items()}
        topics = MappingProxyType({**self.by_topic.get(application, {}), **added})
        return replace(self, by_topic=MappingProxyType({**self.by_topic, application: topics}))

    def settled(self, topic_ids: TopicIds) -> Self:
        """Return these with the topics that are there now, for which the earlier versions count."""
        return replace(self, earlier_topics=MappingProxyType(dict(topic_ids)))

    def carried(self, old_ids: TopicIds, new_ids: TopicIds) -> Self:
        """Return what is noted of topics of a store that has become another one, in which they have other ids."""
        by_topic = {}
        for application, topics in self.by_topic.items():
            kept = {
                topic: each._replace(topic_id=new_ids[topic])
                for topic, each in topics.items()
                if topic in new_ids and topic in old_ids and old_ids[topic] == each.topic_id
            }
            if kept:
                by_topic[application] = MappingProxyType(kept)
        known = old_ids if self.earlier_topics is None else self.earlier_topics
        earlier_topics = {
            topic: new_ids[topic] for topic in new_ids if topic in known and known[topic] == old_ids.get(topic)
        }
        return replace(self, by_topic=MappingProxyType(by_topic), earlier_topics=MappingProxyType(earlier_topics))

    def members(self) -> dict[str, object]:
        """Return the members of the ledger's JSON object."""
        applied = {
            application: {
                topic: [each.version, _text_of_id(each.topic_id), each.query] for topic, each in topics.items()
            }
            for application, topics in self.by_topic.items()
        }
        if not self.earlier:
            return {"applied": applied}
        topics = self.earlier_topics
        known = None if topics is None else {topic: _text_of_id(topic_id) for topic, topic_id in topics.items()}
        return {"applied": applied, "earlier": dict(self.earlier), "earlierTopics": known}

    @classmethod
    def parse(cls, said: Mapping[str, Any]) -> Self:
        """Parse the members; raises `ValueError` or `InvalidIdError`."""
        by_topic = {
            application: MappingProxyType({topic: _applied(each) for topic, each in object_of(topics).items()})
            for application, topics in object_of(said.get("applied")).items()
        }
        known = said.get("earlierTopics")
        topics = None if known is None else {topic: _id_of(text) for topic, text in object_of(known).items()}
        earlier = _versions(said.get("earlier", {}))
        return cls(MappingProxyType(by_topic), earlier, None if topics is None else MappingProxyType(topics))

    @classmethod
    def parse_earlier(cls, said: Mapping[str, Any]) -> Self:
        """Parse the member that an earlier kafkafs wrote, a version for each application; raises `ValueError`."""
        return cls(earlier=_versions(said.get("applied")))


def skipped(transaction: Transaction, known: Mapping[str, Applied]) -> str:
    """Return why a write is left out of topics."""
    application, version, _ = transaction
    in_topics = ", ".join(
        f"{topic} has {'it' if each.version == version else f'version {each.version}'} already"
        for topic, each in sorted(known.items())
    )
    return f"nothing is appended of version {version} of the application {application!r}: {in_topics}"


def _check_query(transaction: Transaction, topic: str, last: Applied) -> None:
    if transaction.query is None:
        return
    is_other = transaction.query != last.query
    begins = transaction.version == 0 and last.version > 0
    if is_other and ((transaction.query and last.query) or begins):
        raise StagingError(
            f"{topic} has batches up to {last.version} of the application {transaction.application!r}, which a query "
            "with another checkpoint wrote; go on with that checkpoint, or give the query a new txnAppId, under which "
            "all of its batches are appended"
        )


def _applied(said: object) -> Applied:
    version, topic_id, query = list_of(said, 3)
    return Applied(number_of(version, least=_LEAST), _id_of(topic_id), text_of(query))


def _versions(said: object) -> Mapping[str, int]:
    found = {application: number_of(version, least=_LEAST) for application, version in object_of(said).items()}
    return MappingProxyType(found)


def _id_of(said: object) -> UUID | None:
    text = text_of(said)
    return parse_id(text) if text else None


def _text_of_id(topic_id: UUID | None) -> str:
    return "" if topic_id is None else format_id(topic_id)
