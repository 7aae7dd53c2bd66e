"""Converted MJCFs follow commands by ROS topics as MuJoCo follows the same controls on the original file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from asset_table import ASSETS, ModelDifference

pytest.importorskip("rclpy", reason="rclpy is not installed: make setup, or source ROS 2")

from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState

from usd_ros_bridge import Bridge, BridgeOptions, load_plan
from usd_ros_bridge.backends.mujoco import MujocoBackend
from usd_ros_bridge.model.physics import Actuator
from usd_ros_bridge.model.plan import BridgePlan

ACTUATED = ("humanoid", "walker", "dog", "panda_gripper")
MAX_ERROR = 1e-6
"""rad, m or of a quaternion, after one second"""
COMMANDS = 10
"""Messages in that second."""


def original(directory: Path, name: str) -> Any:
    """MuJoCo's model of the original, changed where the converted asset is another, and without contacts."""
    content = json.loads((directory / name / "asset.json").read_text())
    spec = mujoco.MjSpec.from_file(content["original"])
    for difference in ASSETS[name].differences:
        assert isinstance(difference, ModelDifference)
        setattr(getattr(spec, difference.element)(difference.name), difference.attribute, difference.value)
    model = spec.compile()
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    return model


class Asset:
    """A converted asset: what its joints and actuators are called in the original."""

    def __init__(self, directory: Path, name: str) -> None:
        content = json.loads((directory / name / "asset.json").read_text())
        self.plan: BridgePlan = load_plan(directory / name / content["asset"], physics=True)
        assert self.plan.physics is not None
        self.scene = self.plan.physics
        self.actuators = {self.name(each.path): each for each in self.scene.actuators}
        self.joints = {
            self.name(path): dof
            for path, dof in zip(self.plan.layout.dof_joints, self.plan.layout.dofs, strict=True)
        }

    def name(self, path: str) -> str:
        assert self.plan.stage is not None
        prim = self.plan.stage.GetPrimAtPath(path)
        return str(prim.GetDisplayName() or prim.GetName())

    def message(self, controls: dict[str, float]) -> JointState:
        """Commands joints where their actuators take commands of theirs, and all other actuators by name."""
        message = JointState()
        for name, control in controls.items():
            actuator = self.actuators[name]
            values = {"position": np.nan, "velocity": np.nan, "effort": np.nan}
            values[actuator.interface or "position"] = control / actuator.control_per_command
            message.name.append(self._called(actuator))
            for field, value in values.items():
                getattr(message, field).append(value)
        return message

    def _called(self, actuator: Actuator) -> str:
        if not actuator.interface:
            return actuator.names[0]
        return self.joints[self.name(self.scene.joints[actuator.joint].path)]

    def qpos(self, model: Any, ours: Any) -> tuple[np.ndarray, np.ndarray]:
        """Addresses of all positions in the original's `qpos` and in the bridge's."""
        compiled, pairs, flat = ours.compiled, list[tuple[int, int]](), 0
        for joint in self.scene.joints:
            for place in range(len(joint.dofs)):
                theirs = model.joint(self.name(joint.path)).qposadr[0]
                pairs.append((theirs, compiled.qpos_of_dof[flat + place]))
            flat += len(joint.dofs)
        for number, body in enumerate(self.scene.bodies):
            if compiled.free_qpos[number] >= 0:
                first = model.jnt_qposadr[model.body(self.name(body.path)).jntadr[0]]
                pairs += [(first + place, compiled.free_qpos[number] + place) for place in range(7)]
        assert sorted(theirs for theirs, _ in pairs) == list(range(model.nq))
        theirs, own = zip(*pairs, strict=True)
        return np.array(theirs), np.array(own)


def random_controls(model: Any, random: np.random.Generator) -> dict[str, float]:
    """Half of what actuators take at most: single precision of the asset grows with what moves."""
    limited = model.actuator_ctrllimited.astype(bool)
    lower, upper = (
        np.where(limited, model.actuator_ctrlrange[:, side], bound) for side, bound in ((0, -1.0), (1, 1.0))
    )
    values = (0.5 * random.uniform(lower, upper)).tolist()
    return {model.actuator(number).name: value for number, value in enumerate(values)}


@pytest.mark.parametrize("name", ACTUATED)
def test_commands_move_an_asset_as_mujoco_moves_the_original(
    assets_directory: Path, ros_harness: Any, name: str
) -> None:
    asset, model = Asset(assets_directory, name), original(assets_directory, name)
    assert asset.actuators.keys() == {model.actuator(number).name for number in range(model.nu)}
    data, random = mujoco.MjData(model), np.random.default_rng(158)
    steps, history = round(1.1 / model.opt.timestep), list[np.ndarray]()
    reported: list[tuple[str, str]] = []
    heard: list[JointState] = []
    node, backend = ros_harness.node, MujocoBackend()
    commands = node.create_publisher(JointState, "/joint_commands", 10)
    states = node.create_subscription(JointState, "/joint_states", heard.append, QoSProfile(depth=1000))
    try:
        with Bridge(
            asset.plan,
            backend,
            options=BridgeOptions(threaded=False),
            inform=lambda *_: None,
            report=lambda kind, message: reported.append((kind, message)),
        ) as bridge:
            simulation = backend.simulation
            simulation.model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
            simulation.refresh()
            meet(ros_harness, bridge, commands, states)
            for step in range(steps):
                if step % (steps // COMMANDS) == 0:
                    controls = random_controls(model, random)
                    data.ctrl[:] = list(controls.values())
                    commands.publish(asset.message(controls))
                    deliver(ros_harness, bridge)
                mujoco.mj_step(model, data)
                history.append(data.qpos.copy())
                assert bridge.step((step + 1) * simulation.step_ns)
                ros_harness.executor.spin_once(timeout_sec=0.0)
            sent = next(row.count for row in bridge.status().interfaces if row.name == "/joint_states")
            ros_harness.wait_for(lambda: len(heard) == sent, what="joint states")
            theirs, own = asset.qpos(model, simulation)
            # Steps that nobody is shown are made when the next one is.
            last = simulation.time_ns // simulation.step_ns
            error = np.abs(simulation.data.qpos[own] - history[last - 1][theirs]).max()
            assert last * model.opt.timestep >= 1.0
    finally:
        node.destroy_publisher(commands)
        node.destroy_subscription(states)
    assert error <= MAX_ERROR
    assert np.abs(data.qpos - model.qpos0).max() > 0.01
    assert any(np.abs(message.effort).max() > 0.0 for message in heard)
    assert [kind for kind, _ in reported if kind.startswith(("mujoco", "sink", "backend"))] == []


def meet(harness: Any, bridge: Bridge, commands: Any, states: Any) -> None:
    """Wait until both sides of both topics have discovered each other: within one process a message is lost before."""

    def met() -> bool:
        bridge.poll()
        rows = {row.name: row.matched for row in bridge.status().interfaces}
        is_known = rows["/joint_states"] == 1 and states.get_publisher_count() == 1
        return is_known and harness.are_connected(commands, bridge)

    harness.wait_for(met, timeout=20.0, what="discovery")


def deliver(harness: Any, bridge: Bridge) -> None:
    def arrived() -> bool:
        bridge.poll()
        return bridge.parts.runtime.inbox.pending

    harness.wait_for(arrived, what="the command")
