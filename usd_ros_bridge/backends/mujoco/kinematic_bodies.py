"""Kinematic bodies: move mocap bodies by commanded twists or by the stage's time samples.

MuJoCo moves mocap bodies in jumps and gives them no velocity. Their real velocity is added to the velocities of
contacts and equality constraints, so that friction moves the objects that lie on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import mujoco
import numpy as np

from usd_ros_bridge.backends.mujoco.compiled_model import CompiledModel
from usd_ros_bridge.backends.mujoco.constraint_velocities import add_contact_velocities, add_velocities, cross
from usd_ros_bridge.backends.time_samples import PoseTracks, StageRange
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    IndexArray,
    quaternion_conjugate,
    quaternion_multiply,
    twist_exponential,
    wxyz,
    xyzw,
)

_EQUALITY, _TENDON_LIMIT = mujoco.mjtConstraint.mjCNSTR_EQUALITY, mujoco.mjtConstraint.mjCNSTR_LIMIT_TENDON
_BODY_EQUALITIES: Final = frozenset({int(mujoco.mjtEq.mjEQ_CONNECT), int(mujoco.mjtEq.mjEQ_WELD)})
_STILL: Final = np.zeros(6)
_NEVER: Final = float("nan")


class KinematicBodies:
    """Mocap bodies of a model and their motion. Time is that of MjData, seconds since the start.

    A body follows its time samples until it is commanded; after a reset it follows them again.

    Attributes:
        moving: A body moves: call `advance` before every step.
    """

    def __init__(self, compiled: CompiledModel, data: Any, played: StageRange) -> None:
        """Initialize.

        Args:
            compiled: The compiled model.
            data: MjData of the simulation.
            played: Range of the stage's time to play.
        """
        model, scene = compiled.model, compiled.scene
        self._model, self._data, self._played = model, data, played
        self._compiled = compiled
        found = [track for track in scene.tracks if compiled.mocap_ids[track.row] >= 0]
        self._tracks = PoseTracks([track.time for track in found], [track.world_from_body for track in found])
        self._tracked: IndexArray = np.array([compiled.mocap_ids[t.row] for t in found], dtype=np.intp)
        self._follows = np.ones(len(found), dtype=bool)
        self._twists: dict[int, FloatArray] = {}
        self._arcs: dict[int, FloatArray] = {}
        # One more row for bodies below no mocap body, which is always zero.
        self._velocity = np.zeros((model.nmocap + 1, 6))
        self._moves = np.zeros(model.nmocap + 1, dtype=bool)
        self._seconds = _NEVER
        self._carrier: IndexArray = np.asarray(model.body_mocapid, dtype=np.intp)[model.body_rootid]
        self._carrier_of_geom = self._carrier[model.geom_bodyid]
        self._ties = _Ties(model, self._carrier)
        self._body_of_mocap = np.flatnonzero(np.asarray(model.body_mocapid) >= 0)
        self.moving = False
        self.reset()

    # --- Motion ------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget all commands and put bodies with time samples at the start of their samples."""
        self._twists.clear()
        self._follows[:] = True
        self._update_moving()
        self._apply_samples(float(self._data.time))

    def set_twist(self, body: int, twist: FloatArray) -> bool:
        """Set the twist of a body in its own frame (6,), m/s and rad/s; zero stops it.

        Returns:
            True if the motion changes.
        """
        mocap = int(self._compiled.mocap_ids[body])
        if np.array_equal(twist, self._twists.get(mocap, _STILL)) and not self._follows_samples(mocap):
            return False
        self.stop_samples(body)
        if twist.any():
            self._twists[mocap] = twist.copy()
            # A constant twist makes a perfect arc.
            arc = twist_exponential(twist * self._model.opt.timestep)
            self._arcs[mocap] = np.concatenate((arc[:3], wxyz(arc[3:])))
        else:
            self._twists.pop(mocap, None)
        self._update_moving()
        return True

    def stop_samples(self, body: int) -> None:
        """Stop playing the time samples of a body: it was commanded."""
        self._follows[self._tracked == self._compiled.mocap_ids[body]] = False
        self._update_moving()

    def transfer_state(self, old: KinematicBodies) -> None:
        """Copy the commands of the bodies that both have, by path."""
        bodies = {body.path: index for index, body in enumerate(self._compiled.scene.bodies)}
        old_bodies = {int(mocap): body for body, mocap in enumerate(old._compiled.mocap_ids) if mocap >= 0}
        stopped = old._tracked[~old._follows].tolist()
        for mocap in {*stopped, *old._twists}:
            index = bodies.get(old._compiled.scene.bodies[old_bodies[mocap]].path, -1)
            if index >= 0 and self._compiled.mocap_ids[index] >= 0:
                self.set_twist(index, old._twists.get(mocap, _STILL))

    def advance(self) -> None:
        """Set the poses of the bodies at the end of the next step; that step computes all poses."""
        data, step = self._data, self._model.opt.timestep
        self._apply_samples(float(data.time) + step)
        # MuJoCo's own functions: numpy takes ten times as long for few numbers.
        for mocap in self._twists:
            arc, moved, turned = self._arcs[mocap], np.empty(3), np.empty(4)
            mujoco.mju_rotVecQuat(moved, arc[:3], data.mocap_quat[mocap])
            mujoco.mju_mulQuat(turned, data.mocap_quat[mocap], arc[3:])
            mujoco.mju_normalize4(turned)
            data.mocap_pos[mocap] += moved
            data.mocap_quat[mocap] = turned

    # --- Velocities --------------------------------------------------------------------------------------------

    def apply_to_constraints(self) -> None:
        """Add the velocities of the bodies to the constraints of the current state, after `mj_step1`."""
        if not self.moving:
            return
        self._update_velocity()
        data = self._data
        if data.ncon:
            self._apply_to_contacts(data.contact)
        if self._ties:
            self._ties.apply(data, self.point_velocity)

    def point_velocity(self, carrier: int, point: FloatArray) -> FloatArray:
        """Return the velocity (6,), linear then angular, of a world point (3,) fixed to a mocap body, -1 for none."""
        velocity: FloatArray = self._velocity[carrier].copy()
        if carrier >= 0:
            velocity[:3] += np.cross(velocity[3:], point - self._data.mocap_pos[carrier])
        return velocity

    def body_velocity(self, body: int) -> FloatArray:
        """Return the twist (6,) that a mocap body adds to a body of MuJoCo, in the world frame."""
        return self.point_velocity(int(self._carrier[body]), self._data.xpos[body])

    def add_to_twists(self, ids: IndexArray, rows: IndexArray, twists: FloatArray) -> None:
        """Add the motion of mocap bodies, which MuJoCo has as zero, to the twists of bodies.

        Args:
            ids: (N,) MuJoCo's bodies.
            rows: (N,) their rows in `twists`.
            twists: (B, 6) linear then angular velocities of origins in the world frame.
        """
        carriers = self._carrier[ids]
        found = np.flatnonzero(self._moves[carriers])
        if not found.size:
            return
        carriers, rows = carriers[found], rows[found]
        velocity = self._velocity[carriers]
        lever = self._data.xpos[ids[found]] - self._data.mocap_pos[carriers]
        twists[rows, :3] += velocity[:, :3] + np.cross(velocity[:, 3:], lever)
        twists[rows, 3:] += velocity[:, 3:]

    # --- Private -----------------------------------------------------------------------------------------------

    def _update_moving(self) -> None:
        self.moving = bool(self._twists) or bool(self._follows.any())
        self._velocity[:] = 0.0
        self._moves[:] = False
        self._seconds = _NEVER

    def _follows_samples(self, mocap: int) -> bool:
        return bool(self._follows[self._tracked == mocap].any())

    def _apply_samples(self, seconds: float) -> None:
        """Set the poses of bodies to their time samples."""
        if not self._follows.any():
            return
        poses = self._sample(seconds)
        mocaps = self._tracked[self._follows]
        self._data.mocap_pos[mocaps] = poses[:, :3]
        self._data.mocap_quat[mocaps] = wxyz(poses[:, 3:])

    def _sample(self, seconds: float) -> FloatArray:
        """Return the poses (F, 7) of the bodies that follow their samples, and store their velocities."""
        stage_seconds, advances = self._played.stage_seconds(seconds)
        poses, twists = self._tracks.at(stage_seconds)
        rate = self._played.rate if advances else 0.0
        self._velocity[self._tracked[self._follows]] = rate * twists[self._follows]
        self._seconds = seconds
        return poses[self._follows]

    def _update_velocity(self) -> None:
        seconds = float(self._data.time)
        if seconds != self._seconds and self._follows.any():
            self._sample(seconds)
        for mocap, twist in self._twists.items():
            velocity, turn = self._velocity[mocap], self._data.mocap_quat[mocap]
            mujoco.mju_rotVecQuat(velocity[:3], twist[:3], turn)
            mujoco.mju_rotVecQuat(velocity[3:], twist[3:], turn)
        np.any(self._velocity, axis=1, out=self._moves)

    def _apply_to_contacts(self, contact: Any) -> None:
        carriers = self._carrier_of_geom[contact.geom]
        found = np.flatnonzero(self._moves[carriers].any(axis=1) & (contact.efc_address >= 0))
        if not found.size:
            return
        points, carriers = contact.pos[found], carriers[found]
        relative = np.zeros((len(found), 2, 3))
        for side, sign in ((1, 1.0), (0, -1.0)):
            if self._moves[carriers[:, side]].any():
                relative += sign * self._at_points(carriers[:, side], points)
        add_contact_velocities(self._model, self._data, found, relative)

    def _at_points(self, carriers: IndexArray, points: FloatArray) -> FloatArray:
        """Return linear and angular velocities (N, 2, 3) of points (N, 3) fixed to mocap bodies, -1 for none."""
        velocity = self._velocity[carriers].reshape(-1, 2, 3)
        velocity[:, 0] += cross(velocity[:, 1], points - self._data.xpos[self._body_of_mocap[carriers]])
        return velocity


_Velocity = Callable[[int, FloatArray], FloatArray]


class _Ties:
    """Equality constraints and tendons that connect the tree of a mocap body with another one."""

    def __init__(self, model: Any, carrier: IndexArray) -> None:
        self._model, self._carrier = model, carrier
        self._equalities = [index for index in range(model.neq) if self._connects_trees(*self._ends(index))]
        self._tendons = [
            index for index in range(model.ntendon) if self._connects_trees(*self._sites(index), site=True)
        ]

    def __bool__(self) -> bool:
        return bool(self._equalities or self._tendons)

    def apply(self, data: Any, point_velocity: _Velocity) -> None:
        """Add the motion of the mocap bodies to their velocities."""
        for index in self._equalities:
            rows = np.flatnonzero((data.efc_type == _EQUALITY) & (data.efc_id == index))
            if rows.size:
                add_velocities(data, rows, self._speeds(data, index, point_velocity)[: rows.size])
        for index in self._tendons:
            self._apply_to_tendon(data, index, point_velocity)

    def _connects_trees(self, first: int, second: int, *, site: bool = False) -> bool:
        if first < 0 or second < 0:
            return False
        bodies = [int(self._model.site_bodyid[each]) if site else each for each in (first, second)]
        one, other = (int(self._carrier[body]) for body in bodies)
        return one != other

    def _ends(self, index: int) -> tuple[int, int]:
        """Return the two bodies of an equality constraint, -1 where it has none."""
        model = self._model
        if int(model.eq_type[index]) not in _BODY_EQUALITIES:
            return -1, -1
        ends = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        if model.eq_objtype[index] == mujoco.mjtObj.mjOBJ_SITE:
            return int(model.site_bodyid[ends[0]]), int(model.site_bodyid[ends[1]])
        return ends

    def _sites(self, index: int) -> tuple[int, int]:
        """Return the two sites of a tendon, -1 where it has other points."""
        model = self._model
        start, count = int(model.tendon_adr[index]), int(model.tendon_num[index])
        if count != 2 or any(model.wrap_type[start : start + 2] != mujoco.mjtWrap.mjWRAP_SITE):
            return -1, -1
        return int(model.wrap_objid[start]), int(model.wrap_objid[start + 1])

    def _speeds(self, data: Any, index: int, point_velocity: _Velocity) -> FloatArray:
        """Return the rates (6,) of an equality's residuals: of the position, then of the rotation vector."""
        model = self._model
        bodies, points, turns = self._ends(index), [], []
        for side, body in enumerate(bodies):
            if model.eq_objtype[index] == mujoco.mjtObj.mjOBJ_SITE:
                site = int((model.eq_obj1id, model.eq_obj2id)[side][index])
                points.append(data.site_xpos[site])
                turns.append(quaternion_multiply(xyzw(data.xquat[body]), xyzw(model.site_quat[site])))
                continue
            # A connect has the anchor in the first body first, a weld the one in the second.
            weld = model.eq_type[index] == mujoco.mjtEq.mjEQ_WELD
            anchor = 3 * (1 - side) if weld else 3 * side
            points.append(
                data.xpos[body] + data.xmat[body].reshape(3, 3) @ model.eq_data[index, anchor : anchor + 3]
            )
            turn = xyzw(data.xquat[body])
            turns.append(turn if side else quaternion_multiply(turn, xyzw(model.eq_data[index, 6:10])))
        one, other = (
            point_velocity(int(self._carrier[body]), point)
            for body, point in zip(bodies, points, strict=True)
        )
        spin = np.append(0.5 * (one[3:] - other[3:]), 0.0)
        turned = quaternion_multiply(quaternion_multiply(quaternion_conjugate(turns[1]), spin), turns[0])
        return np.concatenate((one[:3] - other[:3], model.eq_data[index, 10] * turned[:3]))

    def _apply_to_tendon(self, data: Any, index: int, point_velocity: _Velocity) -> None:
        model, sites = self._model, self._sites(index)
        ends = [data.site_xpos[site] for site in sites]
        length = float(data.ten_length[index])
        one, other = (
            point_velocity(int(self._carrier[model.site_bodyid[site]]), end)
            for site, end in zip(sites, ends, strict=True)
        )
        rate = float((ends[1] - ends[0]) @ (other[:3] - one[:3])) / max(length, 1e-9)
        limits = np.flatnonzero((data.efc_type == _TENDON_LIMIT) & (data.efc_id == index))
        for row in limits.tolist():
            # The residual of a limit is the distance to it: for the upper limit it shrinks as the length grows.
            upper = float(model.tendon_range[index, 1])
            is_upper = abs(float(data.efc_pos[row]) - (upper - length)) < 1e-9
            add_velocities(data, np.array([row]), np.array([-rate if is_upper else rate]))
        for equality in np.flatnonzero(
            (model.eq_type == mujoco.mjtEq.mjEQ_TENDON) & (model.eq_obj1id == index)
        ).tolist():
            rows = np.flatnonzero((data.efc_type == _EQUALITY) & (data.efc_id == equality))
            add_velocities(data, rows, np.full(rows.size, rate))
