"""Imports run one way, and what is optional stays with the module that needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Module

# The rooms of the house, lowest first: a room may import itself and what stands in a row before its own.
ROWS = (
    (
        "storage.budget",
        "storage.clock",
        "storage.errors",
        "storage.ids",
        "storage.offset_text",
        "storage.properties",
        "storage.throttle",
    ),
    ("storage.files",),
    ("storage.checkpoint_text",),
    ("storage.record",),
    ("storage.config", "storage.internal"),
    ("storage.segment",),
    ("storage.log",),
    ("storage.cluster",),
    ("storage.cleanup",),
    ("storage.log_dir",),
    ("storage.topics",),
    ("storage.commit",),
    ("storage.store",),
    ("storage.rewrite", "storage.split", "storage.verify"),
    ("storage.replicas",),
    ("storage",),  # the public surface, for those above
    ("storage.testing", "kafkafs"),
    ("kafkafs.allocation", "kafkafs.damage", "kafkafs.interrupts", "kafkafs.plain_text", "kafkafs.quantities"),
    ("kafkafs.locator", "kafkafs.render", "kafkafs.content", "kafkafs.dump"),
    (
        "kafkafs.backup",
        "kafkafs.demo",
        "kafkafs.find",
        "kafkafs.library",
        "kafkafs.report",
        "kafkafs.revive",
        "kafkafs.salvage",
        "kafkafs.spark",
        "kafkafs.top",
        "kafkafs.tree",
    ),
    ("kafkafs.mount", "kafkafs.tail"),
    ("kafkafs.cli",),
    ("kafkafs.__main__",),
)
ROW_OF = {room: row for row, rooms in enumerate(ROWS) for room in rooms}
# Rows whose rooms may import one another.
OPEN_ROWS = {ROW_OF["storage.errors"], ROW_OF["kafkafs.locator"]}
# For users and tests; the product does without.
FOR_TESTS = "storage.testing"
# What the rows would allow and the house does not.
FORBIDDEN = {("kafkafs.mount", "kafkafs.spark")}
# The names that `kafkafs` gives come from a room above it, which is loaded when one of them is asked for.
GIVEN_ON_DEMAND = ("kafkafs", "kafkafs.library")

# Rooms that kafkafs enters by their faces alone: what it imports is in their `__all__`.
FACES = (
    "storage.cleanup",
    "storage.cluster",
    "storage.commit",
    "storage.config",
    "storage.files",
    "storage.internal",
    "storage.log",
    "storage.log_dir",
    "storage.record",
    "storage.replicas",
    "storage.rewrite",
    "storage.split",
    "storage.store",
    "storage.topics",
    "storage.verify",
)
# Modules beside those faces, because they load what only some installations have.
BESIDE_FACES = ("storage.record.columns",)

# Packages that only some installations have, and the rooms or modules that may load them.
OWNERS = {
    "deltalake": ("kafkafs.spark",),
    "pandas": ("kafkafs.spark",),
    "pyarrow": ("storage.files.object_store", "storage.record.columns", "kafkafs.library.columns", "kafkafs.spark"),
    "pyfuse3": ("kafkafs.mount",),
    "pyiceberg": ("kafkafs.spark",),
    "pyspark": ("kafkafs.spark",),
    "trio": ("kafkafs.mount",),
}


def room_of(name: str) -> str | None:
    """The room that a module or a name in it belongs to; None for what is not ours."""
    while name and name not in ROW_OF:
        name = name.rpartition(".")[0]
    return name or None


def is_allowed(room: str, other: str) -> bool:
    if room == other or (room, other) == GIVEN_ON_DEMAND:
        return True
    if other == FOR_TESTS or (room, other) in FORBIDDEN:
        return False
    return ROW_OF[other] < ROW_OF[room] or (ROW_OF[other] == ROW_OF[room] and ROW_OF[room] in OPEN_ROWS)


def test_every_module_has_a_room(product: list[Module]) -> None:
    homeless = [module.name for module in product if room_of(module.name) in {"storage", "kafkafs"} - {module.name}]
    assert not homeless, f"in no room: {', '.join(homeless)}"


def test_no_import_runs_back(product: list[Module]) -> None:
    back = [
        f"{module.path.name} of {room} imports {name}"
        for module in product
        for name in module.imports()
        if (room := room_of(module.name)) and (other := room_of(name)) and not is_allowed(room, other)
    ]
    assert not back, "; ".join(back)


def test_no_modules_import_one_another_in_a_circle(product: list[Module]) -> None:
    names = {module.name for module in product}
    arrows: dict[str, set[str]] = {name: set() for name in names}
    for module in product:
        arrows[module.name].update(name for each in module.imports() if (name := _module_of(each, names)))
        arrows[module.name].discard(module.name)
    circles = {frozenset(circle) for name in names if len(circle := _circle_of(name, arrows)) > 1}
    assert not circles, "; ".join(" <-> ".join(sorted(each)) for each in circles)


def _module_of(name: str, modules: set[str]) -> str:
    """The module that an imported name is, or is in; empty for what is not ours."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def _circle_of(name: str, arrows: dict[str, set[str]]) -> set[str]:
    """The modules that a module leads to and that lead back to it, itself among them."""
    backwards: dict[str, set[str]] = {each: set() for each in arrows}
    for each, others in arrows.items():
        for other in others:
            backwards[other].add(each)
    return _reached_from(name, arrows) & _reached_from(name, backwards)


def _reached_from(name: str, arrows: dict[str, set[str]]) -> set[str]:
    reached, queue = {name}, [name]
    while queue:
        following = arrows[queue.pop()] - reached
        reached |= following
        queue += following
    return reached


@pytest.mark.parametrize("face", FACES)
def test_kafkafs_imports_the_face_of_a_room(product: list[Module], face: str) -> None:
    offered = {f"{face}.{name}" for name in import_module(face).__all__}
    deeper = [
        f"{module.name} imports {name}"
        for module in product
        if module.name.startswith("kafkafs.")
        for name in module.imports()
        if f"{name}.".startswith(f"{face}.") and name not in offered and not name.startswith(BESIDE_FACES)
    ]
    assert not deeper, "; ".join(deeper)


def test_importing_kafkafs_loads_nothing_else(product: list[Module]) -> None:
    (package,) = [module for module in product if module.name == "kafkafs"]
    assert set(package.imports(when_loaded=True)) <= {"__future__.annotations", "typing.TYPE_CHECKING", "typing"}


def test_the_kernel_knows_no_policy(product: list[Module]) -> None:
    kernel = "storage.record.kernel"
    outside = [
        f"{module.path.name} imports {name}"
        for module in product
        if module.name.startswith(kernel)
        for name in module.imports()
        if name.startswith(("storage.", "kafkafs.")) and not name.startswith((kernel, "storage.errors."))
    ]
    assert not outside, "; ".join(outside)


def test_what_is_optional_stays_with_its_owners(product: list[Module]) -> None:
    astray = [
        f"{module.name} loads {name}"
        for module in product
        for name in module.imports(when_loaded=True)
        if (owners := OWNERS.get(name.partition(".")[0]))
        and not any(f"{module.name}.".startswith(f"{owner}.") for owner in owners)
    ]
    assert not astray, "; ".join(astray)


@pytest.mark.parametrize(
    ("room", "other", "allowed"),
    [
        ("storage.record", "storage.errors", True),
        ("storage.errors", "storage.record", False),
        ("storage.files", "storage.errors", True),
        ("storage.segment", "storage.internal", True),
        ("storage.internal", "storage.segment", False),
        ("storage.config", "storage.internal", False),
        ("storage.segment", "storage", False),
        ("storage.cluster", "storage.log", True),
        ("storage.cluster", "storage.store", False),
        ("storage.store", "storage.testing", False),
        ("storage.testing", "storage.record", True),
        ("kafkafs.dump", "kafkafs.render", True),
        ("kafkafs.tree", "storage", True),
        ("kafkafs.spark", "kafkafs.tree", False),
        ("kafkafs.library", "kafkafs.tree", False),
        ("kafkafs.library", "kafkafs.render", True),
        ("kafkafs.mount", "kafkafs.spark", False),
        ("kafkafs.render", "kafkafs.cli", False),
    ],
)
def test_the_arrows_are_those_of_the_architecture(room: str, other: str, *, allowed: bool) -> None:
    assert is_allowed(room, other) is allowed
