"""examples/mujoco_loop runs as it stands, in a process of its own, and shows what MuJoCo computes."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")
pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
pytest.importorskip("mujoco", reason="mujoco is not installed: make setup-tests")

import mujoco
from numpy.testing import assert_allclose
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

from usd_ros_bridge import load_plan
from usd_ros_bridge.spatial.transforms import compose, relative

pytestmark = pytest.mark.process

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "mujoco_loop"
PACKAGE = Path(importlib.util.find_spec("usd_ros_bridge").origin).parents[1]
SCRIPT = FOLDER / "loop.py"
TARGETS = {"pan_joint": 0.8, "tilt_joint": -0.4}
LATCHED = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def stamp_ns(message: Any) -> int:
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def pose_of(transform: Any) -> np.ndarray:
    t, r = transform.transform.translation, transform.transform.rotation
    return np.array([t.x, t.y, t.z, r.x, r.y, r.z, r.w])


@pytest.fixture
def loop() -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "ROS_PYTHON_CHECK_FIELDS": "1"}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "300"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    # Killed, it could hold a lock in shared memory for ever, which its peers wait for.
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90.0)


def test_the_script_fits_on_a_screen() -> None:
    assert len(SCRIPT.read_text(encoding="utf-8").splitlines()) < 40


def test_joint_states_and_transforms_are_those_of_mujoco(ros_harness: Any, loop: Any) -> None:
    states: list[JointState] = []
    moving: list[TFMessage] = []
    static: list[TFMessage] = []
    node = ros_harness.node
    node.create_subscription(JointState, "/pan_tilt/joint_states", states.append, 100)
    node.create_subscription(TFMessage, "/pan_tilt/tf", moving.append, 100)
    node.create_subscription(TFMessage, "/pan_tilt/tf_static", static.append, LATCHED)
    commands = node.create_publisher(JointState, "/pan_tilt/joint_commands", 10)

    def running() -> bool:
        assert loop.poll() is None, loop.stderr.read()
        return bool(states and moving and static) and commands.get_subscription_count() == 1

    ros_harness.wait_for(running, timeout=90.0, what="the loop's first messages")
    assert_allclose(states[0].position, 0.0, atol=0.05)

    def command(name: str) -> bool:
        """Command one joint; return whether it moves. A message before both sides know each other is lost."""
        commands.publish(JointState(name=[name], position=[TARGETS[name]]))
        return abs(dict(zip(states[-1].name, states[-1].velocity, strict=True))[name]) > 0.1

    # A joint that is not named keeps its target.
    for name in ("pan_joint", "tilt_joint"):
        ros_harness.wait_for(partial(command, name), what=f"a motion of {name}")

    def arrived() -> bool:
        position = dict(zip(states[-1].name, states[-1].position, strict=True))
        still = max(abs(speed) for speed in states[-1].velocity) < 1e-3
        return still and all(abs(position[name] - target) < 0.05 for name, target in TARGETS.items())

    ros_harness.wait_for(arrived, timeout=90.0, what="the commanded positions")
    assert any(max(map(abs, message.velocity)) > 0.2 for message in states), "it moved, and said how fast"

    state_by_stamp = {stamp_ns(message): message for message in states}
    pairs = [
        (message.transforms, state_by_stamp[stamp_ns(message.transforms[0])])
        for message in moving
        if stamp_ns(message.transforms[0]) in state_by_stamp
    ]
    assert len(pairs) > 20
    model = mujoco.MjModel.from_xml_path(str(FOLDER / "pan_tilt.xml"))
    data = mujoco.MjData(model)
    for transforms, state in pairs:
        for name, position in zip(state.name, state.position, strict=True):
            data.qpos[model.joint(name).qposadr[0]] = position
        mujoco.mj_kinematics(model, data)
        base = world_from(data, "base_link")
        frames = {transform.child_frame_id: transform for transform in transforms}
        assert frames.keys() == {"pan_link", "tilt_link"}
        pan, tilt = pose_of(frames["pan_link"]), pose_of(frames["tilt_link"])
        assert_allclose(pan, relative(base, world_from(data, "pan_link")), atol=1e-9)
        assert_allclose(compose(pan, tilt), relative(base, world_from(data, "tilt_link")), atol=1e-9)
    assert {transform.child_frame_id for transform in static[0].transforms} == {
        "pan_tilt",
        "base_link",
        "camera_optical_frame",
    }


def world_from(data: Any, body: str) -> np.ndarray:
    found = data.body(body)
    return np.concatenate((found.xpos, found.xquat[[1, 2, 3, 0]]))


def test_both_descriptions_are_of_one_robot() -> None:
    plan = load_plan(FOLDER / "pan_tilt.usda")
    assert plan.diagnostics == ()
    model = mujoco.MjModel.from_xml_path(str(FOLDER / "pan_tilt.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    for row, path in enumerate(plan.layout.bodies):
        assert_allclose(world_from(data, path.rpartition("/")[2]), plan.layout.body_pose[row], atol=1e-9)
    for row, name in enumerate(plan.layout.dofs):
        lower, upper = model.joint(name).range
        assert_allclose((lower, upper), (plan.layout.lower[row], plan.layout.upper[row]), atol=1e-6)


def test_masses_and_inertias_are_the_same() -> None:
    from pxr import Usd, UsdPhysics

    stage = Usd.Stage.Open(str(FOLDER / "pan_tilt.usda"))
    model = mujoco.MjModel.from_xml_path(str(FOLDER / "pan_tilt.xml"))
    bodies = [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]
    assert len(bodies) == model.nbody - 1
    for prim in bodies:
        mass, body = UsdPhysics.MassAPI(prim), model.body(prim.GetName())
        assert_allclose(mass.GetMassAttr().Get(), body.mass[0], rtol=1e-6)
        assert_allclose(mass.GetCenterOfMassAttr().Get(), body.ipos, atol=1e-6)
        # MuJoCo sorts the principal axes.
        assert_allclose(sorted(mass.GetDiagonalInertiaAttr().Get()), sorted(body.inertia), atol=1e-7)


def test_openusd_validators_find_nothing() -> None:
    from pxr import Usd, UsdValidation

    stage = Usd.Stage.Open(str(FOLDER / "pan_tilt.usda"))
    assert stage.GetCompositionErrors() == []
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    found = UsdValidation.ValidationContext(validators).Validate(stage)
    assert [f"{error.GetName()}: {error.GetMessage()}" for error in found] == []
