"""Stamping: a stage's plan from that of its distinct robots, those once more that others repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.options import PlanOptions
from usd_ros_bridge.model.plan import BridgePlan, ControllerPlan, InterfacePlan, Pose, RobotPlan, TopicPlan
from usd_ros_bridge.model.scene import Scene
from usd_ros_bridge.model.state import Layout
from usd_ros_bridge.model.transforms import IDENTITY, relative
from usd_ros_bridge.planning import names
from usd_ros_bridge.planning.copies import Fleet
from usd_ros_bridge.planning.interfaces import ODOMETRY
from usd_ros_bridge.planning.merging import Merged, Unlike, copies_of, merge
from usd_ros_bridge.planning.paths import prim_name
from usd_ros_bridge.planning.poses import as_poses
from usd_ros_bridge.planning.robot_stamp import Imprint, RobotStamp, Shift, renumbered_robot
from usd_ros_bridge.planning.topics import JOINT_STATE_BROADCASTER

_RENAMED: Final = frozenset({"2.7.id", "2.10.name"})
"""Codes of findings about names that had to change: an ancestor's name, the root's perhaps, tells them apart."""

_LONGEST: Final = min(names.MAX_RESOLVED.values())


def stamp(plan: BridgePlan, fleet: Fleet, options: PlanOptions) -> BridgePlan | None:
    """Returns the plan of all robots, None where robots that looked like copies have plans of their own.

    Args:
        plan: The plan of the fleet's distinct records.
        fleet: Which robots repeat which.
        options: The caller's decisions.
    """
    try:
        return _Stamping(plan, fleet, options).stamped()
    except Unlike:
        return None


class _Stamping:
    """The state of stamping one fleet."""

    def __init__(self, plan: BridgePlan, fleet: Fleet, options: PlanOptions) -> None:
        self._plan = plan
        self._fleet = fleet
        self._options = options
        self._copies = copies_of(fleet)
        self._robots = {robot.path: robot for robot in plan.robots}
        if not self._copies.keys() <= self._robots.keys():
            raise Unlike
        roots = fleet.contexts.roots
        self._numbers = {root: number for number, root in enumerate(roots)}
        self._bodies = merge(fleet, plan.layout.bodies)
        self._cameras = merge(fleet, [camera.path for camera in plan.scene.cameras])
        self._first_dof, self._dof_sources = self._number_dofs()
        self._dof_rows = self._original_dof_rows()

    def stamped(self) -> BridgePlan:
        """Returns the whole plan.

        Raises:
            Unlike: A copy's plan would not be its original's with other names.
        """
        plan = self._plan
        self._stamps = {root: self._stamp_of(self._robots[root]) for root in self._copies}
        self._imprints = self._make_imprints()
        robots = tuple([self._robot(root) for root in self._fleet.contexts.roots])
        topics = self._interfaces(plan.topics, lambda stamp: stamp.topic)
        services = self._interfaces(plan.services, lambda stamp: stamp.interface)
        actions = self._interfaces(plan.actions, lambda stamp: stamp.interface)
        self._check_names(topics, services, actions)
        return replace(
            plan,
            robots=robots,
            topics=topics,
            services=services,
            actions=actions,
            controllers=self._controllers(),
            diagnostics=self._diagnostics(),
            layout=self._layout(),
            scene=self._scene(),
        )

    # --- Order and numbers ----------------------------------------------------------------------------------------

    def _number_dofs(self) -> tuple[dict[str, int], NDArray[np.intp]]:
        """Returns the first row of each robot, and which original row each row repeats: robots in traversal order."""
        counts, before, row = {}, {}, 0
        for robot in self._plan.robots:
            before[robot.path], counts[robot.path] = row, len(robot.joint_state_rows)
            row += counts[robot.path]
        first, sources, row = {}, [np.zeros(0, dtype=np.intp)], 0
        for root in self._fleet.contexts.roots:
            original = self._fleet.originals.get(root, root)
            first[root] = row
            row += counts[original]
            sources.append(np.arange(before[original], before[original] + counts[original]))
        self._first_dof_before = before
        return first, np.concatenate(sources)

    def _original_dof_rows(self) -> list[int]:
        rows = [-1] * (len(self._plan.layout.dofs) + 1)
        for robot in self._plan.robots:
            first, before = self._first_dof[robot.path], self._first_dof_before[robot.path]
            for number in range(len(robot.joint_state_rows)):
                rows[before + number] = first + number
        return rows

    # --- Robots ---------------------------------------------------------------------------------------------------

    def _stamp_of(self, robot: RobotPlan) -> RobotStamp:
        return RobotStamp(robot, self._root_frame_id(robot), self._literal(robot), self._options)

    def _root_frame_id(self, robot: RobotPlan) -> str:
        ids = [frame.id for frame in robot.frames if frame.path == robot.path]
        if not ids or (ids[0] != self._frame_id(robot.path) and not self._authored_id(robot.path)):
            raise Unlike
        return ids[0]

    def _authored_id(self, root: str) -> str:
        return next((r.id for r in self._fleet.index.records.frames if r.path == root and r.id), "")

    def _frame_id(self, root: str) -> str:
        return names.valid_frame_id(names.valid_name(prim_name(root)))

    def _literal(self, robot: RobotPlan) -> set[str]:
        """Returns the topics whose frame_id is authored, and does not change with the robot's name."""
        records = self._fleet.distinct.topics
        root_of = self._fleet.contexts.root_of
        found = set()
        for record in records:
            if record.override_frame_id and root_of(record.path) == robot.path:
                if record.type == ODOMETRY and self._options.tf_output == "global":
                    # Whether the prefix is in front of it depends on who moves the base.
                    raise Unlike
                found.add(record.path)
        for controller in self._plan.controllers:
            if controller.schema == JOINT_STATE_BROADCASTER and controller.parameters.get("frame_id"):
                found.update(controller.interfaces)
        return found

    def _make_imprints(self) -> dict[str, Imprint]:
        bodies, cameras = self._bodies.shifts(), self._cameras.shifts()
        still = Shift(0)
        worlds = self._own_poses()
        imprints = {}
        for original, copies in self._copies.items():
            robot = self._robots[original]
            authored = self._authored_id(original)
            taken = {frame.id for frame in robot.frames if frame.path != original}
            taken |= {robot.parent_frame, robot.odom_frame}
            own = next(frame.id for frame in robot.frames if frame.path == original)
            for copy in copies:
                frame_id = own if authored else self._frame_id(copy)
                if not authored and frame_id in taken:
                    raise Unlike
                frames, prims = worlds[copy]
                imprints[copy] = Imprint(
                    root=copy,
                    number=self._numbers[copy],
                    name=names.robot_name(copy, self._fleet.index.records.asset_names),
                    namespace=self._fleet.contexts.by_path[copy].namespace,
                    frame_id=frame_id,
                    bodies=bodies.get(copy, still),
                    dofs=Shift(self._first_dof[copy] - self._first_dof_before[original]),
                    cameras=cameras.get(copy, still),
                    world_from_frame=frames,
                    world_from_prim=prims,
                )
        return imprints

    def _own_poses(self) -> dict[str, tuple[dict[int, Pose], dict[str, Pose]]]:
        """Returns poses in the world by copy: of its context, and of frames and interfaces that nothing moves."""
        loose: dict[str, list[tuple[int | str, str]]] = {}
        for original in self._copies:
            number = [robot.path for robot in self._plan.robots].index(original)
            loose[original] = [
                (frame_number, frame.path)
                for frame_number, frame in enumerate(self._robots[original].frames)
                if frame.carrier < 0 or frame.path == original
            ]
            loose[original] += [
                (interface.path, interface.path)
                for interface in (*self._plan.topics, *self._plan.services, *self._plan.actions)
                if interface.robot == number and interface.body < 0
            ]
        wanted = [
            (copy, key, copy + path[len(original) :])
            for original, copies in self._copies.items()
            for copy in copies
            for key, path in loose[original]
        ]
        poses = self._fleet.index.poses
        rows = poses.find_rows([path for _, _, path in wanted])
        found: dict[str, tuple[dict[int, Pose], dict[str, Pose]]] = {
            copy: ({}, {}) for copy in self._fleet.originals
        }
        for (copy, key, _), pose in zip(
            wanted, as_poses(relative(IDENTITY, poses.world_from_prim[rows])), strict=True
        ):
            if isinstance(key, int):
                found[copy][0][key] = pose
            else:
                found[copy][1][key] = pose
        return found

    def _robot(self, root: str) -> RobotPlan:
        if root in self._imprints:
            return self._stamps[self._fleet.originals[root]].robot(self._imprints[root])
        robot = self._robots[root]
        bodies, dofs = self._bodies.rows, self._dof_rows
        if all(bodies[row] == row for row in robot.bodies) and all(
            dofs[row] == row for row in robot.joint_state_rows
        ):
            return robot
        return renumbered_robot(robot, bodies, dofs)

    # --- Interfaces and controllers -------------------------------------------------------------------------------

    def _interfaces(
        self, plans: Sequence[Any], stamp_of: Callable[[RobotStamp], Callable[[Any, Imprint], Any]]
    ) -> tuple[Any, ...]:
        def renumber(plan: Any, robot: int) -> Any:
            numbers: dict[str, Any] = {"robot": robot, "body": self._bodies.rows[plan.body]}
            if isinstance(plan, TopicPlan):
                numbers["dofs"] = tuple([self._dof_rows[row] for row in plan.dofs])
                numbers["camera"] = self._cameras.rows[plan.camera]
            return replace(plan, **numbers)

        late = [isinstance(plan, TopicPlan) and plan.implicit for plan in plans]
        merged = merge(self._fleet, [plan.path for plan in plans], late)
        return self._merged(plans, merged, stamp_of, renumber)

    def _controllers(self) -> tuple[ControllerPlan, ...]:
        def renumber(plan: ControllerPlan, robot: int) -> ControllerPlan:
            rows = self._dof_rows
            claims = tuple([claim if isinstance(claim, str) else rows[claim] for claim in plan.claims])
            return replace(plan, dofs=tuple([rows[row] for row in plan.dofs]), claims=claims, robot=robot)

        plans = self._plan.controllers
        merged = merge(self._fleet, [plan.path for plan in plans], [plan.implied for plan in plans])
        return self._merged(plans, merged, lambda stamp: stamp.controller, renumber)

    def _merged(
        self,
        plans: Sequence[Any],
        merged: Merged,
        stamp_of: Callable[[RobotStamp], Callable[[Any, Imprint], Any]],
        renumber: Callable[[Any, int], Any],
    ) -> tuple[Any, ...]:
        """Returns the plans of distinct robots, with `renumber(plan, robot)`, and stamped ones, in one order."""
        self._check_reasons(plans)
        robots = [self._numbers[robot.path] for robot in self._plan.robots]
        result = []
        for source, owner in zip(merged.sources, merged.owners, strict=True):
            plan = plans[source]
            if owner:
                stamp = self._stamps[self._fleet.originals[owner]]
                result.append(stamp_of(stamp)(plan, self._imprints[owner]))
            else:
                result.append(renumber(plan, robots[plan.robot] if plan.robot >= 0 else -1))
        return tuple(result)

    def _check_reasons(self, plans: Iterable[InterfacePlan | ControllerPlan]) -> None:
        for plan in plans:
            if plan.reason:
                self._check_text(plan.reason, self._fleet.contexts.root_of(plan.path))

    def _check_text(self, text: str, original: str) -> None:
        """A text about an original that names it or its namespace is another text for each copy."""
        if original in self._copies:
            namespace = self._fleet.contexts.by_path[original].namespace
            if original in text or namespace in text:
                raise Unlike

    def _check_names(self, *groups: Sequence[InterfacePlan]) -> None:
        """Robots whose names meet are found out of the plan of all; names may have become too long."""
        owners: dict[tuple[int, str, int | None], int] = {}
        met: set[int] = set()
        copies = {self._numbers[copy] for copy in self._fleet.originals}
        for kind, group in enumerate(groups):
            for plan in group:
                if plan.robot in copies and len(plan.name) > _LONGEST:
                    raise Unlike
                if not plan.enabled:
                    continue
                other = owners.setdefault((kind, plan.name, plan.domain_id), plan.robot)
                if other != plan.robot:
                    met |= {other, plan.robot}
        if not met.isdisjoint(copies):
            raise Unlike

    # --- Findings, layout, scene ----------------------------------------------------------------------------------

    def _diagnostics(self) -> tuple[Diagnostic, ...]:
        """Returns the findings, those about an original followed by the same about its copies."""
        read = len(self._fleet.distinct.diagnostics)
        found = self._plan.diagnostics[read:]
        root_of = self._fleet.contexts.root_of
        result = list(self._plan.diagnostics[:read])
        for root, of_robot in groupby(found, lambda finding: root_of(finding.path)):
            findings = list(of_robot)
            result += findings
            for finding in findings if root in self._copies else ():
                self._check_text(finding.message + finding.remedy, root)
                if finding.code in _RENAMED:
                    raise Unlike
            for copy in self._copies.get(root, ()):
                result += [replace(finding, path=copy + finding.path[len(root) :]) for finding in findings]
        return tuple(result)

    def _layout(self) -> Layout:
        layout, bodies, dofs = self._plan.layout, self._bodies, self._dof_sources
        poses = self._fleet.index.poses
        sources = np.array(bodies.sources, dtype=np.intp)
        body_pose = layout.body_pose[sources]
        copied = np.array([bool(owner) for owner in bodies.owners], dtype=bool)
        originals = np.isin(sources, sources[copied])
        authored = poses.world_from_prim[poses.find_rows(bodies.paths)]
        if (body_pose[originals & ~copied] != authored[originals & ~copied]).any():
            # The joints have it elsewhere than it was authored.
            raise Unlike
        body_pose[copied] = authored[copied]
        joints: list[str] = []
        for root in self._fleet.contexts.roots:
            original = self._fleet.originals.get(root, root)
            first = self._first_dof_before[original]
            own = layout.dof_joints[first : first + len(self._robots[original].joint_state_rows)]
            joints += [root + path[len(original) :] for path in own] if root != original else own
        return Layout(
            bodies=tuple(bodies.paths),
            dofs=tuple([layout.dofs[row] for row in dofs.tolist()]),
            dof_joints=tuple(joints),
            body_pose=body_pose,
            joint_position=layout.joint_position[dofs],
            lower=layout.lower[dofs],
            upper=layout.upper[dofs],
            max_velocity=layout.max_velocity[dofs],
            kinematic=layout.kinematic[sources],
        )

    def _scene(self) -> Scene:
        scene, cameras = self._plan.scene, self._cameras
        return replace(
            scene,
            cameras=tuple(
                [
                    replace(scene.cameras[source], path=path)
                    for source, path in zip(cameras.sources, cameras.paths, strict=True)
                ]
            ),
            pose_tracks=tuple([replace(t, row=self._bodies.rows[t.row]) for t in scene.pose_tracks]),
            joint_tracks=tuple([replace(t, row=self._dof_rows[t.row]) for t in scene.joint_tracks]),
        )
