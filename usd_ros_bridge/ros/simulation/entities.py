"""Entities: the robots and bodies of a simulation under names that are unique and readable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from usd_ros_bridge.model.plan import BridgePlan

Category = Literal["object", "robot", "human", "dynamic_object", "static_object"]

NOTHING_SPAWNED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Something that can be looked at and moved.

    Attributes:
        name: Unique.
        path: Prim path of the body that stands for it: a robot's root body.
        robot: Index in BridgePlan.robots of the robot that it is, or that it is a link of; -1 for a prop.
        kinematic: Whether it moves only where it is put.
        category: What kind of thing it is.
        description: For people.
        tags: For filters.
    """

    name: str
    path: str
    robot: int = -1
    kinematic: bool = False
    category: Category = "object"
    description: str = ""
    tags: tuple[str, ...] = ()


class EntityTable:
    """The entities by their names; also by the prim paths of their bodies, and of robots' contexts.

    Attributes:
        entities: Robots, then bodies that belong to none, then links; otherwise in traversal order.
    """

    def __init__(self, entities: Sequence[Entity], aliases: Iterable[tuple[str, str]] = ()) -> None:
        """Takes entities, and other names `(name, name of the entity)` for some."""
        self.entities = tuple(entities)
        by_name = {entity.name: entity for entity in self.entities}
        self._found = {entity.path: entity for entity in reversed(self.entities)}
        self._found.update({alias: by_name[name] for alias, name in aliases if name in by_name})
        self._found.update(by_name)

    def get(self, name: str) -> Entity | None:
        """Returns the entity of that name, None where there is none."""
        return self._found.get(name)


def make_table(
    plan: BridgePlan, paths: Sequence[str], spawned: Mapping[str, str] = NOTHING_SPAWNED
) -> EntityTable:
    """Names the robots and bodies of a simulation.

    A robot has the name of its context's prim, a body that belongs to no robot that of its own prim, and a link that
    of its robot, a slash and the prim's. Where that is not unique, as many of the prims above as it takes come in
    front, with slashes between. A robot stands for its root body, which has no other entry.

    Args:
        plan: The plan.
        paths: Prim paths of all bodies.
        spawned: Names by the paths of prims that were spawned: the first robot at or below one, else the first body,
            has that name.
    """
    known, unnamed = set(paths), dict(spawned)

    def candidates_of(path: str) -> list[str]:
        for prim, name in unnamed.items():
            if f"{path}/".startswith(f"{prim}/"):
                del unnamed[prim]
                return [name, *_tails(path)]
        return _tails(path)

    robot_of, kinematic = _owners(plan), _kinematic(plan)
    animated = {plan.layout.bodies[track.row] for track in plan.scene.pose_tracks}
    roots = {
        index: plan.layout.bodies[robot.base_row]
        for index, robot in enumerate(plan.robots)
        if robot.base_row >= 0 and plan.layout.bodies[robot.base_row] in known
    }
    taken: set[str] = set()
    contexts = [plan.robots[index].path for index in roots]
    robot_names = dict(
        zip(roots, unique_names([candidates_of(path) for path in contexts], taken), strict=True)
    )
    entities = [_robot(plan, index, name, roots[index]) for index, name in robot_names.items()]
    rest = [path for path in paths if path not in set(roots.values())]
    props = [path for path in rest if robot_of.get(path, -1) not in roots]
    for path, name in zip(props, unique_names([candidates_of(path) for path in props], taken), strict=True):
        entities.append(_prop(path, name, kinematic=path in kinematic, animated=path in animated))
    links = [path for path in rest if robot_of.get(path, -1) in roots]
    candidates = []
    for path in links:
        robot = robot_of[path]
        inner = _tails(path, plan.robots[robot].path)[:-1]
        candidates.append([*(f"{robot_names[robot]}/{tail}" for tail in inner), path])
    for path, name in zip(links, unique_names(candidates, taken), strict=True):
        robot = robot_of[path]
        entities.append(
            Entity(name=name, path=path, robot=robot, description=f"{path}, link of {robot_names[robot]}",
                   kinematic=path in kinematic, tags=("link",))
        )  # fmt: skip
    return EntityTable(entities, [(plan.robots[index].path, name) for index, name in robot_names.items()])


def unique_names(candidates: Sequence[Sequence[str]], taken: set[str]) -> list[str]:
    """Chooses a name for each: the first of its candidates that nobody else could mean.

    Args:
        candidates: For each, from the shortest name on; the last one is unique.
        taken: Names of others; the chosen ones are added.
    """
    level = [0] * len(candidates)
    while True:
        names = [each[min(at, len(each) - 1)] for each, at in zip(candidates, level, strict=True)]
        count = Counter(names)
        clashing = [i for i, name in enumerate(names) if count[name] > 1 or name in taken]
        growing = [i for i in clashing if level[i] < len(candidates[i]) - 1]
        if not growing:
            taken.update(names)
            return names
        for i in growing:
            level[i] += 1


def tags_pass(tags: Iterable[str], wanted: Set[str], *, every: bool) -> bool:
    """Return whether `tags` has any of `wanted`, or all of them with `every`. An empty `wanted` lets all pass."""
    return not wanted or (wanted <= set(tags) if every else not wanted.isdisjoint(tags))


def _tails(path: str, above: str = "") -> list[str]:
    """Returns the ends of a prim path, from the shortest on; the whole path last.

    Args:
        path: Prim path.
        above: A prim at or above it, whose name and what is above it are left out of the others.
    """
    inner = path[len(above) :] if above and path.startswith(f"{above}/") else path
    parts = inner.strip("/").split("/")
    return ["/".join(parts[-count:]) for count in range(1, len(parts) + 1)] + [path]


def _owners(plan: BridgePlan) -> dict[str, int]:
    owners = {
        plan.layout.bodies[row]: index for index, robot in enumerate(plan.robots) for row in robot.bodies
    }
    for body in plan.physics.bodies if plan.physics is not None else ():
        if body.robot >= 0:
            owners.setdefault(body.path, body.robot)
    return owners


def _kinematic(plan: BridgePlan) -> set[str]:
    layout = plan.layout
    kinematic = {path for path, flag in zip(layout.bodies, layout.kinematic.tolist(), strict=True) if flag}
    if plan.physics is not None:
        kinematic |= {body.path for body in plan.physics.bodies if body.kinematic}
    return kinematic


def _robot(plan: BridgePlan, index: int, name: str, path: str) -> Entity:
    robot = plan.robots[index]
    dofs = sum(len(joint.dofs) for joint in robot.joints)
    where = f"{robot.path}, namespace {robot.namespace}, {dofs} degrees of freedom"
    return Entity(name=name, path=path, robot=index, category="robot", description=where, tags=("robot",))


def _prop(path: str, name: str, *, kinematic: bool, animated: bool) -> Entity:
    category: Category = "static_object" if kinematic else "object"
    return Entity(
        name=name,
        path=path,
        kinematic=kinematic,
        category="dynamic_object" if animated else category,
        description=path,
        tags=("prop", "kinematic") if kinematic else ("prop",),
    )
