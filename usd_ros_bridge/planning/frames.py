"""Frames: which prims are tf2 frames, their names, and their parents (REP 0158 section 2.7)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.errors import quoted
from usd_ros_bridge.model.diagnostics import DiagnosticCollector
from usd_ros_bridge.model.plan import AxisLetter, FramePlan
from usd_ros_bridge.model.records import FrameRecord, fallback
from usd_ros_bridge.options import PlanOptions
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.base_link import Base
from usd_ros_bridge.planning.contexts import Contexts
from usd_ros_bridge.planning.kinematics.joint_graph import RobotTree
from usd_ros_bridge.planning.kinematics.kinematic_model import KinematicModel
from usd_ros_bridge.planning.names import Nearest, parent_path, prim_name
from usd_ros_bridge.planning.robot_joints import ReportedPrims
from usd_ros_bridge.planning.stage_index import StageIndex, as_poses
from usd_ros_bridge.spatial import transforms
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray

TOP = ""
"""Parent of a frame that hangs from the robot's parent_frame."""


@dataclass(slots=True)
class FrameDraft:
    """A frame while it is being worked out.

    Attributes:
        path: Prim path.
        robot: Index of the robot.
        parent: Path of its parent frame, TOP for the robot's parent_frame.
        carrier: Path of the prim that moves it, "" for none.
        static: Whether it goes to /tf_static.
        edge: Index of the edge that ends here and starts in the parent, -1 where there is none.
        turn: Axis of the prim that the frame's X is along.
        name: Frame id.
        is_base: Whether the transform of the robot's base is this frame's.
    """

    path: str
    robot: int
    parent: str = TOP
    carrier: str = ""
    static: bool = True
    edge: int = -1
    turn: AxisLetter = "X"
    name: str = ""
    is_base: bool = False


class FramePlanner:
    """Planner of the frames of all robots."""

    def __init__(
        self,
        index: StageIndex,
        contexts: Contexts,
        kinematics: KinematicModel,
        bases: Sequence[Base],
        odom_frames: Mapping[int, str],
        options: PlanOptions,
        findings: DiagnosticCollector,
    ) -> None:
        self._index = index
        self._contexts = contexts
        self._kinematics = kinematics
        self._bases = bases
        self._odom_frames = odom_frames
        self._options = options
        self._findings = findings
        self._robot_of_root = {robot.context.path: i for i, robot in enumerate(kinematics.robots)}
        self._records: Mapping[str, FrameRecord] = {r.path: r for r in index.records.frames}
        self._reported = ReportedPrims(index.records.isaac_robots, "links", index.bodies)
        self._edge_into = [
            {edge.child: number for number, edge in enumerate(robot.edges)} for robot in kinematics.robots
        ]

    def plan(self, needing: Collection[str]) -> list[list[FrameDraft]]:
        """Return the frames of each robot, parents before children, named and placed in the tree.

        Args:
            needing: Prims that need a frame at or above them: interfaces, explicit frames, contexts.
        """
        self._links: set[str] = set()
        self._drafts = self._members(needing)
        self._nearest = Nearest(self._drafts)
        self._check_records()
        joined = [self._joined_bodies(number) for number in range(len(self._kinematics.robots))]
        base_links = [self._base_links(number) for number in range(len(self._kinematics.robots))]
        for draft in sorted(self._drafts.values(), key=lambda d: d.path.count("/")):
            if draft.path in base_links[draft.robot]:
                self._attach_base(draft, base_links[draft.robot])
            elif draft.path in self._index.bodies:
                self._attach_body(draft)
            else:
                self._attach_xform(draft, joined[draft.robot])
            self._apply_authored_routing(draft)
        self._name_all()
        return self._ordered()

    # --- Which prims ------------------------------------------------------------------------------------------

    def _members(self, needing: Collection[str]) -> dict[str, FrameDraft]:
        index, owners = self._index, self._kinematics.owners
        found: dict[str, int] = {}
        for path, context in self._contexts.by_path.items():
            found[path] = self._robot_of_root[context.root]
        for number, robot in enumerate(self._kinematics.robots):
            for body in self._reported_bodies(robot, needing):
                found[body] = number
        for path in needing:
            body = index.body_at(path)
            if body in owners:
                found.setdefault(body, self._robot_of_root[owners[body]])
        for number, base in enumerate(self._bases):
            if base.body:
                found.setdefault(base.body, number)
        for path in self._records:
            owner = self._contexts.root_of(path) or owners.get(index.body_at(path), "")
            if owner:
                found[path] = self._robot_of_root[owner]
            else:
                self._findings.warning(
                    "2.7.context",
                    path,
                    "the frame is below no robot; it is not broadcast",
                    "apply RosContextAPI to the robot's root prim",
                )
        self._add_isaac_links(found)
        if self._options.frames_from_xforms == "auto":
            self._add_links(found)
        elif self._options.frames_from_xforms:
            for path, xform in index.records.xforms.items():
                parent = path.rpartition("/")[0]
                if xform.type_name == "Xform" and parent in found and parent in index.bodies:
                    found.setdefault(path, found[parent])
        turns = self._add_sites(found)
        return {
            path: FrameDraft(path, found[path], turn=turns.get(path, "X"))
            for path in index.sort(found)
            if index.poses.is_usable(path)
        }

    # --- Isaac's robot schema ---------------------------------------------------------------------------------

    def _reported_bodies(self, robot: RobotTree, needing: Collection[str]) -> Collection[str]:
        """Return a robot's bodies that are frames: Isaac's list of links limits them.

        What something needs a frame at stays, and what carries a frame.
        """
        if not self._reported.limited:
            return robot.bodies
        body_at = self._index.body_at
        sites = [record.path for record in self._index.records.isaac_sites]
        needed = {body_at(path) for path in (*needing, *sites)}
        parents = {edge.child: edge.parent for edge in robot.edges}
        kept: set[str] = set()
        for body in robot.bodies:
            link = body if body in needed or self._reported.reports(body) else ""
            while link and link not in kept:
                kept.add(link)
                link = parents.get(link, "")
        return kept

    def _add_isaac_links(self, found: dict[str, int]) -> None:
        """Add the links that are no bodies: Xforms that a list or IsaacLinkAPI names."""
        index = self._index
        marked = [record.path for record in index.records.isaac_links if self._reported.reports(record.path)]
        for path in (*self._reported.listed(), *marked):
            xform = index.records.xforms.get(path)
            if path in found or path in index.bodies or xform is None or xform.type_name != "Xform":
                continue
            number = self._robot_of(path, found)
            if number >= 0:
                found[path] = number
                self._links.add(path)

    def _add_sites(self, found: dict[str, int]) -> dict[str, AxisLetter]:
        """Add points of interest; return the axis of each that its frame's X is along, by path."""
        turns: dict[str, AxisLetter] = {}
        for record in self._index.records.isaac_sites:
            axis = fallback(record, "forward_axis")
            number = self._robot_of(record.path, found)
            if record.path in found and record.path not in self._links:
                if axis != "X":
                    self._warn_of_axis(
                        record.path, f"the frame is there without the site: {quoted(axis)} is ignored"
                    )
                continue
            if number < 0:
                continue
            found[record.path] = number
            self._links.add(record.path)
            if axis in ("X", "Y", "Z"):
                turns[record.path] = axis
            else:
                self._warn_of_axis(record.path, f"{quoted(axis)} is no axis; X counts")
        return turns

    def _warn_of_axis(self, path: str, message: str) -> None:
        self._findings.warning(
            "isaac.forward_axis",
            path,
            message,
            "author X, Y or Z, on an Xform that is no body and has no RosFrameAPI",
            attribute="isaac:forwardAxis",
        )

    def _robot_of(self, path: str, found: Mapping[str, int], *, loose: bool = True) -> int:
        """Return the robot that an Xform is a frame of: of the body that it is in, else of its context; -1 for none."""
        body = self._index.body_at(path)
        if body:
            return found.get(body, -1)
        return self._robot_of_root.get(self._contexts.root_of(path), -1) if loose else -1

    # --- Links without mass -----------------------------------------------------------------------------------

    def _add_links(self, found: dict[str, int]) -> None:
        """Add the Xforms that stand for links of URDF: those of its converter, others where nothing has a Ros*API.

        A link that is called like the parent frame is that frame.
        """
        index = self._index
        for record in index.records.plain_links:
            path = record.path
            number = self._robot_of(path, found, loose=record.converted)
            if number < 0 or not self._reported.reports(path):
                continue
            context = self._kinematics.robots[number].context
            if not record.converted and (
                context.path not in self._contexts.without_ros or names.holds_geometry(prim_name(path))
            ):
                continue
            if (index.records.xforms[path].kept_name or prim_name(path)) != context.parent_frame:
                found.setdefault(path, number)
                self._links.add(path)

    def _check_records(self) -> None:
        for path, record in self._records.items():
            if record.id and names.valid_frame_id(record.id) != record.id:
                self._findings.error(
                    "2.7.id",
                    path,
                    f"{quoted(record.id)} is no frame id; "
                    f"{quoted(self._authored_id(path) or prim_name(path))} is used",
                    "use letters, digits and '_', no leading slash",
                    attribute="ros:frame:id",
                )
            xform = self._index.records.xforms.get(path)
            if xform is not None and xform.type_name == "Camera":
                self._findings.warning(
                    "2.8",
                    path,
                    "RosFrameAPI is on a camera, which looks along -Z; ROS optical frames look along +Z",
                    "apply it to a child Xform that is turned by 180 degrees about X",
                )

    # --- Parents of frames ----------------------------------------------------------------------------------

    def _joined_bodies(self, number: int) -> list[str]:
        """Return the bodies that joints connect to the context or the base, sorted as text for prefix look-ups."""
        robot, base = self._kinematics.robots[number], self._bases[number]
        joined = [base.body] if base.body else []
        for position, tree in enumerate(robot.trees):
            if not tree.root or position == base.tree:
                joined.extend(tree.bodies)
        return sorted(joined)

    def _base_links(self, number: int) -> list[str]:
        """Return the frames of a base that moves: the links without mass above its body (base_footprint), the body."""
        base = self._bases[number]
        if not base.free or base.body not in self._drafts:
            return []
        found = [base.body]
        above = parent_path(base.body)
        while above:
            if (
                (above in self._links or above in self._records)
                and above in self._drafts
                and above not in self._contexts.by_path
                and not self._index.carrier_at(above)
            ):
                found.append(above)
            above = parent_path(above)
        return found[::-1]

    def _attach_base(self, draft: FrameDraft, links: Sequence[str]) -> None:
        """Chain the frames of a base as the asset nests them: the first one moves, the others are fixed to it."""
        robot = self._kinematics.robots[draft.robot]
        place = links.index(draft.path)
        draft.carrier = links[-1]
        draft.is_base, draft.static = place == 0, place > 0
        if place > 0:
            draft.parent = links[place - 1]
        elif draft.path != robot.context.path:
            draft.parent = (
                self._single_parent(draft, robot) if len(links) == 1 else self._context_frame(robot)
            )

    def _context_frame(self, robot: RobotTree) -> str:
        return robot.context.path if robot.context.path in self._drafts else TOP

    def _attach_body(self, draft: FrameDraft) -> None:
        robot = self._kinematics.robots[draft.robot]
        edges, into = robot.edges, self._edge_into[draft.robot]
        draft.carrier = draft.path
        number = into.get(draft.path)
        if number is None:
            draft.static = False
            draft.parent = TOP if draft.path == robot.context.path else self._single_parent(draft, robot)
            return
        rigid = draft.path not in self._index.animated
        current: int | None = number
        parent = draft.path
        while current is not None:
            rigid = rigid and self._kinematics.is_rigid(edges[current])
            parent = edges[current].parent
            if not parent or parent in self._drafts:
                break
            current = into.get(parent)
        draft.static = rigid and current is not None
        if parent in self._drafts:
            draft.parent = parent
        else:
            draft.parent = self._context_frame(robot) if robot.anchor or current is None else TOP
        if current == number and not self._kinematics.moves_freely(edges[number]):
            draft.edge = number

    def _single_parent(self, draft: FrameDraft, robot: RobotTree) -> str:
        """Return the context for a floating root, the nearest ancestor for a single body that authors a frame."""
        explicit = draft.path in self._records or draft.path in self._contexts.by_path
        if explicit and draft.path not in robot.bodies and draft.path != self._bases[draft.robot].body:
            above = self._drafts.get(self._nearest.above(draft.path))
            if above is not None and above.robot == draft.robot:
                return above.path
        return self._context_frame(robot)

    def _attach_xform(self, draft: FrameDraft, joined: Sequence[str]) -> None:
        index, robot = self._index, self._kinematics.robots[draft.robot]
        draft.carrier = index.carrier_at(draft.path)
        if draft.path == robot.context.path:
            draft.static = not draft.carrier
            return
        above = self._drafts.get(self._nearest.above(draft.path))
        if above is None or above.robot != draft.robot:
            above = self._drafts.get(self._context_frame(robot))
        draft.parent = above.path if above else TOP
        above_carrier = above.carrier if above else ""
        if not draft.carrier:
            inherits = above is not None and above_carrier != index.carrier_at(above.path)
            body = above_carrier if inherits else ""
            # A link above a base that cannot move, base_footprint of a fixed robot, stays with the context.
            is_free = self._bases[draft.robot].free
            is_link = draft.path in self._links
            if not inherits and (is_free or not is_link) and (body := self._first_below(draft.path, joined)):
                draft.parent = above_carrier = body
            draft.carrier = body
            if not body and is_free and not is_link:
                self._findings.warning(
                    "2.7.carrier",
                    draft.path,
                    "the frame is below no body of the robot; it will not move with it",
                    "move the prim below the body that carries it",
                )
        draft.static = draft.carrier == above_carrier

    def _first_below(self, path: str, joined: Sequence[str]) -> str:
        """Return the first joined body, in traversal order, that is a frame below `path`."""
        prefix = path + "/"
        below = []
        for body in joined[bisect_left(joined, prefix) :]:
            if not body.startswith(prefix):
                break
            if body in self._drafts:
                below.append(body)
        return min(below, key=self._index.order, default="")

    def _apply_authored_routing(self, draft: FrameDraft) -> None:
        record = self._records.get(draft.path)
        if record is None or record.static == draft.static:
            return
        is_body = draft.is_base or draft.path in self._index.bodies
        if record.static is None:
            if not draft.static and not is_body:
                self._findings.warning(
                    "2.7.static",
                    draft.path,
                    "the prim moves, and ros:frame:static is not authored: it is broadcast as it moves, although the "
                    "schema's fallback is true",
                    "author ros:frame:static = false; or true, to have it broadcast once",
                    attribute="ros:frame:static",
                )
            return
        if not record.static:
            draft.static = False
        elif is_body:
            self._findings.warning(
                "2.7.static",
                draft.path,
                "static = true on a body that moves is ignored",
                "leave ros:frame:static out on bodies",
                attribute="ros:frame:static",
            )
        else:
            draft.static = True
            self._findings.warning(
                "2.7.static",
                draft.path,
                "static = true on a prim that moves: it is broadcast once, as it is at rest",
                "author ros:frame:static = false",
                attribute="ros:frame:static",
            )

    # --- What they are called ---------------------------------------------------------------------------------

    def _name_all(self) -> None:
        by_topic: dict[tuple[int | None, str], names.UniqueNames] = {}
        by_robot: dict[int, names.UniqueNames] = {}
        links = {r.path: r.name_override for r in self._index.records.isaac_links if r.name_override}
        for draft in self._drafts.values():
            context = self._kinematics.robots[draft.robot].context
            table = by_robot.get(draft.robot)
            if table is None:
                # One for each TF topic.
                tree = "" if self._options.tf_output == "shared" else context.namespace
                table = by_topic.setdefault((context.domain_id, tree), names.UniqueNames())
                by_robot[draft.robot] = table
                table.claim(context.parent_frame, "")
                odom = self._odom_frames.get(draft.robot)
                if odom is not None:
                    table.claim(odom, "")
            use_isaac = self._options.isaac_names or context.path in self._contexts.without_ros
            self._name(draft, table, links.get(draft.path, "") if use_isaac else "")
        # Names that a converter kept are the robot's own, and need no remark.
        with_colon = {
            draft.name: draft.path
            for draft in self._drafts.values()
            if ":" in draft.name and (self._authored_id(draft.path) or draft.path in links)
        }
        if with_colon:
            path = next(iter(with_colon.values()))
            attribute = "ros:frame:id" if self._authored_id(path) else ""
            self._findings.warning(
                "2.7.id", path, names.colon_remark(with_colon), names.COLON_REMEDY, attribute=attribute
            )

    def _name(self, draft: FrameDraft, table: names.UniqueNames, isaac: str) -> None:
        path = draft.path
        authored = self._authored_id(path) if path in self._records else ""
        wanted = authored or (names.valid_frame_id(isaac) if isaac else "")
        make_valid = names.valid_frame_id
        if not wanted and (kept := self._kept_id(path, table)):
            wanted, make_valid = kept, names.kept_frame_id
        wanted = wanted or names.valid_name(prim_name(path))
        draft.name = table.claim_near(wanted, path, make_valid)
        if draft.name == wanted:
            return
        owner = table.owner(wanted) or "the robot's parent_frame or odometry"
        message = f"the frame id {quoted(wanted)} is that of {owner}; {quoted(draft.name)} is used"
        remedy = "author ros:frame:id"
        if authored and self._authored_id(owner):
            self._findings.error("2.7.id", draft.path, message, remedy, attribute="ros:frame:id")
        else:
            self._findings.warning("2.7.id", draft.path, message, remedy, attribute="ros:frame:id")

    def _kept_id(self, path: str, table: names.UniqueNames) -> str:
        """Return the name that a converter kept, "" where there is none or another frame has it."""
        xform = self._index.records.xforms.get(path)
        kept = xform.kept_name if xform is not None else ""
        if not kept or (names.is_numbered(prim_name(path), kept) and table.owner(kept) is not None):
            return ""
        return names.kept_frame_id(kept)

    def _authored_id(self, path: str) -> str:
        record = self._records.get(path)
        return names.valid_frame_id(record.id) if record is not None and record.id else ""

    def _ordered(self) -> list[list[FrameDraft]]:
        result: list[list[FrameDraft]] = [[] for _ in self._kinematics.robots]
        done: set[str] = set()
        for draft in self._drafts.values():
            chain = []
            current: FrameDraft | None = draft
            while current is not None and current.path not in done:
                done.add(current.path)
                chain.append(current)
                current = self._drafts.get(current.parent)
            for link in reversed(chain):
                result[link.robot].append(link)
        return result


_HALF = math.sqrt(0.5)
_X_ALONG: Final[Mapping[str, FloatArray]] = {
    "Y": np.array([0.0, 0.0, 0.0, 0.0, 0.0, _HALF, _HALF]),
    "Z": np.array([0.0, 0.0, 0.0, 0.0, -_HALF, 0.0, _HALF]),
}
"""The shortest rotation that takes X to another axis, as a pose."""

_NO_FRAME: Final = (-1, -1)
"""Robot and index of a frame that is not there."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacedFrames:
    """Frames of all robots as plans.

    Attributes:
        robots: Frames of each robot, parents first.
        by_path: Robot and index of each frame by prim path.
        ids: Frame id by prim path.
        bases: Index of the frame of each robot's base, -1 where it cannot move.
        nearest: Nearest frame at or above a prim.
    """

    robots: Sequence[tuple[FramePlan, ...]]
    by_path: Mapping[str, tuple[int, int]]
    ids: Mapping[str, str]
    bases: Sequence[int]
    nearest: Nearest

    def at(self, path: str) -> FramePlan | None:
        """Return the nearest frame at or above a prim."""
        found = self.by_path.get(self.nearest(path))
        return None if found is None else self.robots[found[0]][found[1]]


def place_frames(
    drafts: Sequence[Sequence[FrameDraft]],
    index: StageIndex,
    kinematics: KinematicModel,
    body_rows: Mapping[str, int],
    world_from_body: FloatArray,
    odom_frames: Mapping[int, str],
) -> PlacedFrames:
    """Compute transforms at rest of all frames at once.

    Args:
        drafts: Frames of each robot, parents first.
        index: The stage.
        kinematics: The joints, with transforms along edges.
        body_rows: Row of each body by path.
        world_from_body: (B, 7) bodies at rest.
        odom_frames: Odometry frame by robot: it replaces the parent of the base's frame.
    """
    flat = [draft for of_robot in drafts for draft in of_robot]
    position = {draft.path: number for number, draft in enumerate(flat)}
    prims = index.poses.find_rows(position)
    carriers = index.poses.find_rows([draft.carrier for draft in flat])
    carrier_from_frame = _carrier_poses(flat, prims, carriers, index)
    rows = np.array([body_rows.get(draft.carrier, -1) for draft in flat], dtype=np.intp)
    bodies = np.concatenate((world_from_body, transforms.IDENTITY[None]))
    world_from_frame = transforms.compose(bodies[rows], carrier_from_frame)
    parents = np.array([position.get(draft.parent, -1) for draft in flat], dtype=np.intp)
    world_from_parent = np.concatenate((world_from_frame, transforms.IDENTITY[None]))[parents]
    parent_from_frame = transforms.relative(world_from_parent, world_from_frame)
    parent_from_frame = parent_from_frame[_model_frames(prims, carriers, parents, index)]
    on_edges = [number for number, draft in enumerate(flat) if draft.edge >= 0]
    if on_edges:
        edges = [kinematics.edge_offsets[flat[number].robot] + flat[number].edge for number in on_edges]
        parent_from_frame[on_edges] = kinematics.edge_rest[edges]
    reckoned = [number for number, draft in enumerate(flat) if draft.is_base and draft.robot in odom_frames]
    parent_from_frame[reckoned] = transforms.IDENTITY
    poses = zip(as_poses(parent_from_frame), as_poses(carrier_from_frame), rows.tolist(), strict=True)
    return _as_plans(drafts, poses, kinematics, odom_frames)


def _carrier_poses(
    flat: Sequence[FrameDraft], prims: NDArray[np.intp], carriers: NDArray[np.intp], index: StageIndex
) -> FloatArray:
    """Return `carrier_from_frame` (F, 7), in the world where nothing moves a frame."""
    result = index.poses.relative(carriers, prims)
    result[prims == carriers] = transforms.IDENTITY
    for number, draft in enumerate(flat):
        if draft.turn != "X":
            result[number] = transforms.compose(result[number], _X_ALONG[draft.turn])
    return result


def _model_frames(
    prims: NDArray[np.intp], carriers: NDArray[np.intp], parents: NDArray[np.intp], index: StageIndex
) -> NDArray[np.intp]:
    """Return which frame has the transform of each, to the last bit: the same one in the robot that is repeated.

    Args:
        prims: Row of each frame's prim.
        carriers: Row of what moves it, -1 for nothing.
        parents: Number of its parent among the frames, -1 for none.
        index: The stage.
    """
    robots, models = index.poses.robots, index.poses.models
    own = np.arange(len(prims))
    frames = np.full(len(models), -1, dtype=np.intp)
    frames[prims] = own
    of_models = frames[models[prims]]
    tops = np.append(prims, -1)[parents]
    same = (of_models >= 0) & (robots[prims] >= 0) & (robots[tops] == robots[prims])
    same &= (models[tops] == tops[of_models]) & (models[carriers] == carriers[of_models])
    return np.where(same, of_models, own)


def _as_plans(
    drafts: Sequence[Sequence[FrameDraft]],
    poses: Iterator[tuple[Pose, Pose, int]],
    kinematics: KinematicModel,
    odom_frames: Mapping[int, str],
) -> PlacedFrames:
    """Return frames as plans; `poses` give each one's parent_from_frame, carrier_from_frame and carrier."""
    by_path: dict[str, tuple[int, int]] = {}
    ids: dict[str, str] = {}
    robots, bases = [], []
    for robot, of_robot in enumerate(drafts):
        plans: list[FramePlan] = []
        top = kinematics.robots[robot].context.parent_frame
        for draft in of_robot:
            by_path[draft.path] = (robot, len(plans))
            ids[draft.path] = draft.name
            odom = odom_frames.get(robot) if draft.is_base else None
            parent_from_frame, carrier_from_frame, carrier = next(poses)
            plans.append(
                FramePlan(
                    id=draft.name,
                    parent=ids.get(draft.parent, top) if odom is None else odom,
                    path=draft.path,
                    static=draft.static and odom is None,
                    parent_from_frame=parent_from_frame,
                    parent_index=by_path.get(draft.parent, _NO_FRAME)[1] if odom is None else -1,
                    edge=draft.edge if odom is None else -1,
                    carrier=carrier,
                    carrier_from_frame=carrier_from_frame,
                )
            )
        robots.append(tuple(plans))
        bases.append(next((number for number, draft in enumerate(of_robot) if draft.is_base), -1))
    return PlacedFrames(robots, by_path, ids, bases, Nearest(by_path))
