"""Time, replay, divergence and bodies by path of the MuJoCo backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from case_tables import each_case

pytest.importorskip("mujoco", reason="mujoco is not installed: make setup")

from numpy.testing import assert_allclose, assert_array_equal
from open_backend import EARTH, STEP_NS, Opened, arm, with_physics

from builders.plans import PlanBuilder, gripper, rover
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.physics import Body, Box, Collider, Drive, Inertial, Plane
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.state import State
from usd_ros_bridge.spatial.pose import IDENTITY_POSE, Pose
from usd_ros_bridge.spatial.transforms import exponential, pose


def falling() -> BridgePlan:
    """Robots over a floor, and a prop that the layout has no row for."""
    plan = with_physics(gripper(rover()).build(), gravity=EARTH)
    scene = plan.physics
    assert scene is not None
    prop = Body(
        path="/prop",
        world_from_body=Pose((3.0, 0.0, 1.0)),
        inertial=Inertial(mass=2.0, diagonal=(0.01, 0.01, 0.01)),
        angular_velocity=(0.0, 0.0, 3.0),
    )
    floor = Collider(path="/floor", body=-1, body_from_shape=IDENTITY_POSE, shape=Plane())
    cube = Collider(
        path="/prop/cube",
        body=len(scene.bodies),
        body_from_shape=Pose((0.0, 0.0, 0.1)),
        shape=Box((0.1, 0.2, 0.3)),
    )
    return replace(
        plan,
        physics=replace(scene, bodies=(*scene.bodies, prop), colliders=(*scene.colliders, floor, cube)),
    )


def fingerprint(state: State) -> bytes:
    assert state.body_twist is not None
    arrays = (
        state.joint_position,
        state.joint_velocity,
        state.joint_effort,
        state.body_pose,
        state.body_twist,
    )
    return b"".join(array.tobytes() for array in arrays)


# --- Time ---------------------------------------------------------------------------------------------------------


def test_the_step_is_the_option_s_else_the_asset_s_else_two_milliseconds() -> None:
    plan = with_physics(arm().build())
    assert plan.physics is not None
    authored = replace(plan, physics=replace(plan.physics, timestep=1 / 240))
    assert Opened(plan).backend.capabilities.step_ns == STEP_NS
    assert Opened(authored).backend.capabilities.step_ns == 4_166_667
    assert Opened(authored, dt="0.001").backend.capabilities.step_ns == 1_000_000


@each_case(
    ("key", "value", "possible"),
    [
        ("dt", "0", "1e-06 to 0.1 s"),
        ("dt", "1", "1e-06 to 0.1 s"),
        ("integrator", "verlet", "implicitfast"),
        ("on_divergence", "explode", "reset, hold"),
        ("gl", "glx", "osmesa"),
        ("max_hulls", "0", "1 to 10000"),
    ],
)
def test_an_option_that_is_not_possible_says_what_is(key: str, value: str, possible: str) -> None:
    with pytest.raises(BackendError, match=possible):
        Opened(with_physics(arm().build()), **{key: value})


def test_the_first_step_is_one_step_from_rest_whatever_its_time() -> None:
    plan = falling()
    early, late = Opened(plan), Opened(plan, time_ns=10**18)
    assert fingerprint(early.step()) == fingerprint(late.step())
    assert early.backend.simulation.time_ns == STEP_NS
    assert late.backend.simulation.time_ns == 10**18 + STEP_NS


@each_case("integrator", ["implicitfast", "implicit", "euler", "rk4"])
def test_many_steps_at_once_are_the_same_steps(integrator: str) -> None:
    # Explicit integrators need short steps for drives this stiff.
    one, many = (Opened(falling(), integrator=integrator, dt="0.00005") for _ in range(2))
    for opened in (one, many):
        opened.step(joint_position={"palm_joint": 1.0, "mast_joint": 0.7})
    for _ in range(600):
        expected = one.step()
    assert fingerprint(many.step(600)) == fingerprint(expected)
    assert not one.reports


def test_settling_leaves_no_trace() -> None:
    plain, settled = Opened(falling()), Opened(falling())
    for _ in range(400):
        expected = fingerprint(plain.step())
        found = fingerprint(settled.step())
        settled.backend.simulation.update_forces()
        settled.backend.simulation.update_forces()
        settled.backend.entity_state("/prop")
        assert found == expected


def test_a_replay_is_the_same_to_the_last_bit() -> None:
    opened = Opened(falling())

    def run() -> list[bytes]:
        return [
            fingerprint(opened.step(10, joint_position={"palm_joint": 0.02 * tick})) for tick in range(40)
        ]

    first = run()
    for body, address in enumerate(opened.backend.simulation.compiled.free_qpos):
        if address >= 0:
            opened.backend.simulation.set_body_state(body, pose((9.0, 9.0, 9.0)), np.ones(6))
    opened.restart()
    assert run() == first


def test_poses_belong_to_the_time_of_the_state() -> None:
    opened = Opened(falling())
    height = opened.backend.entity_state("/prop").pose[2]
    opened.step(100)
    fallen = 0.5 * 9.81 * 0.2**2
    assert_allclose(height - opened.backend.entity_state("/prop").pose[2], fallen, rtol=1e-6)


def test_a_robot_that_nothing_will_catch_is_reported() -> None:
    plan = with_physics(rover().build(), gravity=EARTH)
    opened = Opened(plan)
    assert {*opened.kinds} == {"mujoco.no_ground"}
    assert "/rover/base_link" in opened.reports[0][1]
    assert not Opened(with_physics(rover().build())).reports, "no gravity"
    assert not Opened(with_physics(arm().build(), gravity=EARTH)).reports, "it hangs from the world"
    assert not Opened(falling()).reports, "there is a floor"


# --- Divergence ---------------------------------------------------------------------------------------------------


def unstable() -> BridgePlan:
    """An arm whose drive no step of 2 ms by rk4 can follow, once it is touched; other integrators can."""
    return with_physics(arm(limits=(-np.inf, np.inf)).build(), drives={"elbow": Drive(stiffness=1e9)})


def test_what_diverges_is_named_and_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = Opened(unstable(), integrator="rk4")
    rest = opened.step().joint_position.copy()
    opened.step(joint_position={"elbow": 1.0})
    states = [opened.step(5) for _ in range(400)]
    assert {*opened.kinds} == {"mujoco.diverged"}
    assert "/arm/joints/elbow" in opened.reports[0][1]
    assert "back to the state at rest" in opened.reports[0][1]
    assert "\n" not in opened.reports[0][1]
    assert_allclose(states[-1].joint_position, rest, atol=1e-6)
    assert states[-1].time_ns == opened.time_ns
    assert not list(tmp_path.iterdir()), "MuJoCo's log file"


def test_what_diverges_can_be_held_until_a_reset() -> None:
    opened = Opened(unstable(), integrator="rk4", on_divergence="hold")
    rest = opened.step().joint_position.copy()
    opened.step(joint_position={"elbow": 1.0})
    for _ in range(400):
        state = opened.step(5)
    held = fingerprint(state)
    assert np.isfinite(state.body_pose).all()
    assert_array_equal(state.joint_velocity, 0.0)
    assert fingerprint(opened.step(5, joint_position={"elbow": 0.5})) == held
    assert state.time_ns == opened.time_ns
    assert len(opened.reports) == 1
    opened.backend.reset()
    assert_allclose(opened.step().joint_position, rest, atol=1e-9)


def test_a_number_that_is_none_is_caught_as_well() -> None:
    opened = Opened(falling())
    opened.step(10)
    opened.backend.simulation.data.qpos[-1] = np.nan
    state = opened.step(10)
    assert np.isfinite(state.body_pose).all()
    assert {*opened.kinds} == {"mujoco.diverged"}
    assert "NaN" in opened.reports[0][1]


# --- Bodies by path -----------------------------------------------------------------------------------------------


def test_every_body_of_the_scene_is_an_entity() -> None:
    opened = Opened(falling())
    assert opened.backend.entities() == (*opened.plan.layout.bodies, "/prop")
    state = opened.backend.entity_state("/prop")
    assert_allclose(state.twist[3:], [0.0, 0.0, 3.0], atol=1e-12)
    assert state.acceleration is not None
    assert_allclose(state.acceleration[:3], EARTH, atol=1e-9)


def test_a_resting_body_does_not_accelerate() -> None:
    opened = Opened(falling())
    opened.step(2000)
    acceleration = opened.backend.entity_state("/prop").acceleration
    assert acceleration is not None
    assert_allclose(acceleration, 0.0, atol=1e-3)


def test_a_pose_alone_leaves_a_body_standing_still() -> None:
    opened = Opened(falling())
    opened.step(50)
    there = pose((0.0, 5.0, 7.0), exponential(np.array([0.5, 0.0, 0.0])))
    assert opened.backend.set_entity_state("/prop", pose=there) == ""
    state = opened.backend.entity_state("/prop")
    assert_allclose(state.pose, there, atol=1e-12)
    assert_allclose(state.twist, 0.0, atol=1e-12)
    assert opened.backend.set_entity_state("/prop", twist=np.arange(6.0)) == ""
    state = opened.backend.entity_state("/prop")
    assert_allclose(state.pose, there, atol=1e-12)
    assert_allclose(state.twist, np.arange(6.0), atol=1e-12)


@each_case(
    ("path", "arguments", "reason"),
    [
        ("/gripper/palm", {"pose": pose((1.0, 0.0, 0.0))}, "palm_joint"),
        ("/gripper/mount", {"pose": pose((1.0, 0.0, 0.0))}, "mount_joint"),
        ("/prop", {"pose": np.zeros(7)}, "quaternion"),
        ("/prop", {"twist": np.full(6, np.nan)}, "finite"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    path: str, arguments: dict[str, np.ndarray], reason: str
) -> None:
    opened = Opened(falling())
    before = opened.backend.entity_state(path).pose
    assert reason in opened.backend.set_entity_state(path, **arguments)
    assert_array_equal(opened.backend.entity_state(path).pose, before)


def test_bounds_are_in_the_body_s_own_axes_wherever_it_is() -> None:
    opened = Opened(falling())
    expected = np.array([-0.1, -0.2, -0.2]), np.array([0.1, 0.2, 0.4])
    for turn in (0.0, 0.7):
        where = pose((1.0, 2.0, 3.0), exponential(np.array([turn, 0.3, turn])))
        assert opened.backend.set_entity_state("/prop", pose=where) == ""
        found = opened.backend.entity_bounds("/prop")
        assert found is not None
        assert_allclose(found, expected, atol=1e-9)


def test_bounds_hold_what_hangs_from_a_body() -> None:
    builder = PlanBuilder()
    robot = builder.robot("/robot")
    robot.body("base")
    robot.body("tip")
    robot.joint("joint", "base", "tip", body0_from_joint=Pose((1.0, 0.0, 0.0)))
    found = Opened(with_physics(builder.build())).backend.entity_bounds("/robot/base")
    assert found is not None
    assert_allclose(found, ([-0.02, -0.02, -0.02], [1.02, 0.02, 0.02]), atol=1e-9)


def test_mujoco_leaves_no_log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened = Opened(unstable(), integrator="rk4")
    # MuJoCo itself warns of a velocity that is none.
    simulation = opened.backend.simulation
    simulation.data.qvel[0] = float("nan")
    mujoco.mj_step(simulation.model, simulation.data)
    assert list(tmp_path.iterdir()) == []
