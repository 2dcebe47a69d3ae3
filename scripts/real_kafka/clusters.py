"""Clusters of several brokers and a controller apart from them, so that any broker may be stopped while it leads.

`controller/`, `1/`, `2/`, ... below the cluster's folder are folders as `broker` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from real_kafka import FailedError, broker, processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from real_kafka.broker import Running
    from real_kafka.release import Release

CONTROLLER = "controller"
CONTROLLER_ID = 1000


def start(
    release: Release, folder: Path, brokers: int, settings: Mapping[str, str], lifeline: int | None
) -> list[Running]:
    """Start a new cluster, and return its brokers once all of them answer; if one does not, none is left.

    The settings are those of all of them.
    """
    if release.needs_zookeeper:
        raise FailedError(f"clusters are of KRaft brokers, which Kafka {release.version} has not")
    for place in folders(folder):
        if processes.running(place, broker.NAME) is not None:
            raise FailedError(f"a cluster runs on {folder} already")
    for attempt in range(1, broker.PORT_ATTEMPTS + 1):
        try:
            return _start(release, folder, brokers, settings, lifeline)
        except BaseException as failure:
            for place in folders(folder):
                broker.kill(place)
            if not isinstance(failure, broker.LostPortError) or attempt == broker.PORT_ATTEMPTS:
                raise
    raise AssertionError


def folders(folder: Path) -> list[Path]:
    """The folders of a cluster's processes, its controller last; of a single broker its own."""
    if not (folder / CONTROLLER).is_dir():
        return [folder]
    numbers = sorted(int(place.name) for place in folder.iterdir() if place.name.isdecimal())
    return [*(folder / str(number) for number in numbers), folder / CONTROLLER]


def _start(
    release: Release, folder: Path, brokers: int, settings: Mapping[str, str], lifeline: int | None
) -> list[Running]:
    controller_port, *ports = processes.free_ports(1 + brokers)
    cluster_id = broker.new_id()
    nodes = []
    for place, values in _nodes(folder, controller_port, ports):
        (place / "logs").mkdir(parents=True, exist_ok=True)
        nodes.append(broker.Node(place, values | {"log.dirs": str(place / "logs"), **settings}))
    controller, *others = nodes
    broker.write_properties(controller.folder / "broker.properties", controller.values)
    broker.format_log_dirs(release, controller.folder, controller.values, cluster_id)
    for node in others:
        # All that kafka-storage would write for a broker that is no controller, and takes seconds to.
        identities = {"version": "1", "cluster.id": cluster_id, "node.id": node.values["node.id"]}
        broker.write_properties(node.folder / "logs" / "meta.properties", identities)
    return broker.launch(release, nodes, lifeline)[1:]


def _nodes(folder: Path, controller_port: int, ports: list[int]) -> Iterator[tuple[Path, dict[str, str]]]:
    common = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller_port}",
        **broker.QUICK_SESSIONS,
    }
    yield (
        folder / CONTROLLER,
        {
            "process.roles": "controller",
            "node.id": str(CONTROLLER_ID),
            "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
            **common,
        },
    )
    for number, port in enumerate(ports, start=1):
        yield (
            folder / str(number),
            {
                "process.roles": "broker",
                "node.id": str(number),
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
                **common,
                **broker.SMALL,
            },
        )
