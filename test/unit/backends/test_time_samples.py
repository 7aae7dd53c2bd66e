"""Time samples of kinematic bodies and frames under every backend that has time, against OpenUSD's evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pxr import Usd, UsdGeom

from case_tables import each_case
from open_backends import OpenBackend
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.joint_states import JointStatesBackend
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.backends.null import NullBackend
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.reporting import OnceReporter
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.transforms import (
    FloatArray,
    compose,
    exponential,
    normalized,
    pose,
    relative,
    to_matrix,
)

STAGE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    kilogramsPerUnit = 1
    upAxis = "Z"
    timeCodesPerSecond = 10
    startTimeCode = 10
    endTimeCode = 30
)
def Xform "World" {
    def PhysicsScene "scene" {
        float physics:gravityMagnitude = 9.81
    }
    def Cube "floor" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
        double size = 2
        double3 xformOp:translate = (0, 0, -11)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Xform "door" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"]) {
        bool physics:kinematicEnabled = true
        double3 xformOp:translate.timeSamples = { 10: (0, 0, 0), 20: (1, 0, 0), 30: (1, 2, 0) }
        float xformOp:rotateZ.timeSamples = { 10: 0, 20: 90, 30: 45 }
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
        def Cube "leaf" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double size = 0.2
        }
    }
    def Xform "platform" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        bool physics:kinematicEnabled = true
        double3 xformOp:translate.timeSamples = { 10: (5, 0, 0), 30: (5, 1, 0) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Cube "top" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double size = 1
        }
    }
    def Xform "bot" (prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"]) {
        string ros:context:namespace = "bot"
        bool physics:kinematicEnabled = true
        def Xform "marker" (prepend apiSchemas = ["RosFrameAPI"]) {
            double3 xformOp:translate = (0.1, 0, 0.5)
            float xformOp:rotateZ.timeSamples = { 10: 0, 20: 170, 30: 200 }
            uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
        }
    }
    def Xform "load" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI", "RosContextAPI"]) {
        string ros:context:namespace = "load"
        double3 xformOp:translate = (5, 0, 0.6)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Cube "box" (prepend apiSchemas = ["PhysicsCollisionAPI"]) {
            double size = 0.2
        }
    }
}
"""
SECOND = 1_000_000_000
START = 7 * SECOND


def open_stage() -> Usd.Stage:
    """Returns the stage in memory."""
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(STAGE)
    return stage


class Bench(OpenBackend):
    """An open backend; times are seconds since its first state."""

    def __init__(self, make: Callable[[BridgePlan], Backend], **options: str) -> None:
        self.stage = open_stage()
        plan = load_plan(self.stage, physics=True)
        super().__init__(plan, make(plan), **options)
        step_ns = self.backend.capabilities.step_ns
        # The first call of a backend that owns time is one step on from rest.
        self.first = START + step_ns
        self.begun_ns = START if step_ns else self.first

    def at(self, seconds: float) -> State:
        state = self.backend.step(self.begun_ns + round(seconds * SECOND), self.commands)
        self.commands.clear()
        return state

    def usd_pose(self, path: str, seconds: float) -> FloatArray:
        """Returns where OpenUSD has a prim at a time of its range, which is 1 s to 3 s."""
        code = 10.0 + (seconds * 10.0) % 20.0
        world = UsdGeom.XformCache(Usd.TimeCode(code)).GetLocalToWorldTransform(
            self.stage.GetPrimAtPath(path)
        )
        turn = world.ExtractRotationQuat()
        return pose(tuple(world.ExtractTranslation()), (*turn.GetImaginary(), turn.GetReal()))


def make_mujoco(_plan: BridgePlan) -> Backend:
    pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")
    from usd_ros_bridge.backends.mujoco import MujocoBackend

    return MujocoBackend()


MAKERS: dict[str, Callable[[BridgePlan], Backend]] = {
    "null": lambda _plan: NullBackend(),
    "kinematic": lambda _plan: KinematicBackend(),
    "joint_states": lambda _plan: JointStatesBackend(),
    "array": lambda plan: ArrayBackend(plan.layout),
    "mujoco": make_mujoco,
}


def same(found: FloatArray, expected: FloatArray, tolerance: float = 1e-6) -> None:
    """Compares poses (7,) as matrices: quaternions have two signs."""
    assert_allclose(to_matrix(found), to_matrix(expected), atol=tolerance)


@each_case("name", MAKERS)
def test_kinematic_bodies_and_frames_are_where_openusd_has_them(name: str) -> None:
    bench = Bench(MAKERS[name])
    bench.backend.step(bench.first, bench.commands)
    for seconds in (0.4, 1.0, 1.5, 1.998, 2.2, 7.0):
        state = bench.at(seconds)
        for path in ("/World/door", "/World/bot/marker"):
            same(state.body_pose[bench.body(path)], bench.usd_pose(path, seconds))
    again = bench.at(8.5).body_pose.copy()
    bench.backend.reset()
    bench.backend.step(bench.first, bench.commands)
    replayed = bench.at(0.5).body_pose
    for path in ("/World/door", "/World/bot/marker"):
        same(again[bench.body(path)], replayed[bench.body(path)])


@each_case("name", ["null", "kinematic", "mujoco"])
def test_their_velocities_are_those_of_the_samples(name: str) -> None:
    bench = Bench(MAKERS[name])
    bench.backend.step(bench.first, bench.commands)
    twist = bench.at(0.5).body_twist
    assert twist is not None
    quarter, marker = np.pi / 2, np.deg2rad(170.0)
    assert_allclose(twist[bench.body("/World/door")], [1.0, 0, 0, 0, 0, quarter], atol=1e-6)
    assert_allclose(twist[bench.body("/World/bot/marker")], [0, 0, 0, 0, 0, marker], atol=1e-6)
    twist = bench.at(1.5).body_twist
    assert twist is not None
    assert_allclose(twist[bench.body("/World/door")], [0, 2.0, 0, 0, 0, -quarter / 2], atol=1e-6)


@pytest.mark.parametrize("name", ["kinematic", "mujoco"])
def test_a_frame_that_moves_within_a_body_moves_with_it(name: str) -> None:
    bench = Bench(MAKERS[name])
    bench.commands.body_twist[bench.body("/World/bot")] = (0.3, 0, 0, 0, 0, 0.5)
    bench.backend.step(bench.first, bench.commands)
    bench.commands.clear()
    state = bench.at(1.2)
    base, marker = (state.body_pose[bench.body(path)] for path in ("/World/bot", "/World/bot/marker"))
    assert base[0] > 0.3
    within = relative(bench.usd_pose("/World/bot", 1.2), bench.usd_pose("/World/bot/marker", 1.2))
    same(marker, compose(base, within))
    assert state.body_twist is not None
    lever = marker[:3] - base[:3]
    twist = state.body_twist[bench.body("/World/bot")]
    assert_allclose(twist[3:], [0, 0, 0.5], atol=1e-9)
    moved = state.body_twist[bench.body("/World/bot/marker")]
    assert_allclose(moved[:3], twist[:3] + np.cross(twist[3:], lever), atol=1e-9)
    assert_allclose(moved[5], 0.5 + np.deg2rad(30.0), atol=1e-6)


@pytest.mark.parametrize("name", ["kinematic", "mujoco"])
def test_a_command_ends_an_animation_until_a_reset(name: str) -> None:
    bench = Bench(MAKERS[name])
    row, there = bench.body("/World/door"), pose((3.0, 1.0, 0.0))
    bench.backend.step(bench.first, bench.commands)
    bench.commands.body_pose[row] = there
    bench.at(0.5)
    state = bench.at(1.0)
    same(state.body_pose[row], there)
    assert state.body_twist is not None
    assert not state.body_twist[row].any()
    bench.backend.reset()
    bench.backend.step(bench.first, bench.commands)
    same(bench.at(0.5).body_pose[row], bench.usd_pose("/World/door", 0.5))


@pytest.mark.parametrize("name", ["kinematic", "mujoco"])
def test_without_loop_it_stays_at_the_end(name: str) -> None:
    bench = Bench(MAKERS[name], loop="false")
    bench.backend.step(bench.first, bench.commands)
    state = bench.at(5.0)
    for path in ("/World/door", "/World/bot/marker"):
        same(state.body_pose[bench.body(path)], bench.usd_pose(path, 1.999999999))
        assert state.body_twist is not None
        assert not state.body_twist[bench.body(path)].any()


def test_an_animated_platform_carries_what_lies_on_it() -> None:
    """It has no row in the layout: a prop that nothing but the simulation knows."""
    bench = Bench(make_mujoco)
    assert "/World/platform" not in bench.plan.layout.bodies
    bench.backend.step(bench.first, bench.commands)
    state = bench.at(1.5)
    platform = bench.backend.entity_state("/World/platform")  # type: ignore[attr-defined]
    assert_allclose(platform.pose[:3], [5.0, 0.75, 0.0], atol=1e-9)
    assert_allclose(platform.twist, [0, 0.5, 0, 0, 0, 0], atol=1e-9)
    load = state.body_pose[bench.body("/World/load")]
    # It slips at first: v^2 / (2 mu g), with the friction of colliders without a material.
    assert load[1] == pytest.approx(0.75 - 0.25 / (2 * 0.5 * 9.81), abs=0.003)
    assert load[2] == pytest.approx(0.6, abs=1e-3)


def test_many_steps_at_once_are_the_same_steps_with_animations() -> None:
    one, many = (Bench(make_mujoco) for _ in range(2))
    for bench in (one, many):
        bench.backend.step(bench.first, bench.commands)
    for number in range(2, 400):
        expected = one.at(number * 0.002)
    found = many.at(399 * 0.002)
    for name in ("body_pose", "body_twist"):
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes()


def test_poses_between_samples_are_interpolated_as_in_playback() -> None:
    from usd_ros_bridge.backends.time_samples import PoseTracks
    from usd_ros_bridge.spatial.transforms import interpolate_poses

    random = np.random.default_rng(3)
    time = np.cumsum(random.uniform(0.1, 1.0, 6))
    poses = np.concatenate((random.normal(size=(6, 3)), normalized(random.normal(size=(6, 4)))), axis=1)
    at = random.uniform(time[0] - 1.0, time[-1] + 1.0, 50)
    tracks: Any = PoseTracks([time], [poses])
    expected = np.concatenate([tracks.at(float(each))[0] for each in at])
    assert_allclose(interpolate_poses(time, poses, at), expected, atol=1e-12)
    turn = pose((0, 0, 0), exponential(np.array([0.0, 0.0, 1.0])))
    assert_allclose(interpolate_poses(np.zeros(1), turn[None], at[:2]), [turn, turn])


@each_case("name", ["null", "kinematic", "mujoco"])
def test_tf_has_the_poses_of_the_state(name: str) -> None:
    bench = Bench(MAKERS[name])
    bench.backend.close()
    robot = next(number for number, each in enumerate(bench.plan.robots) if each.path == "/World/bot")
    frames = bench.plan.robots[robot].frames
    with Runtime(bench.plan, bench.backend, reporter=OnceReporter(lambda _kind, _message: None)) as runtime:
        moving = [index for index, frame in enumerate(frames) if not frame.static]
        runtime.tick(bench.first)
        for seconds in (0.5, 1.0, 1.3):
            now = bench.begun_ns + round(seconds * SECOND)
            runtime.tick(now)
            assert runtime.snapshot.robot_time_ns(robot) == now
            poses = runtime.snapshot.frame_poses(robot)
            shown = {frames[index].path: poses[place] for place, index in enumerate(moving)}
            within = relative(
                bench.usd_pose("/World/bot", seconds), bench.usd_pose("/World/bot/marker", seconds)
            )
            same(shown["/World/bot/marker"], within)
