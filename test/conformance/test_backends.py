"""What every backend must keep to, run against each that is built in and the ones that hosts make."""

from __future__ import annotations

import re
import traceback
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from builders.physics import with_physics
from builders.plans import gripper, rover
from usd_ros_bridge.backends.array import ArrayBackend
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.backends.registry import BACKENDS
from usd_ros_bridge.model.plan import BridgePlan, Scene
from usd_ros_bridge.model.state import JointTrack, PoseTrack
from usd_ros_bridge.spatial.transforms import exponential, pose
from usd_ros_bridge.testing.backend_conformance import BackendConformance, conformance_plan


def sampled_plan() -> BridgePlan:
    """Two robots with something for every backend: limits, speeds, a mimic joint, time samples of joint and body."""
    time = np.array([0.0, 1.0, 2.0])
    builder = gripper(rover())
    drive = np.array([pose((0.5 * t, 0.0, 0.1), exponential(np.array([0.0, 0.0, 0.3 * t]))) for t in time])
    return builder.build(
        Scene(
            pose_tracks=(PoseTrack(row=0, time=time, world_from_body=drive),),
            joint_tracks=(
                JointTrack(
                    row=builder.robots[1].row("palm_joint"), time=time, position=np.array([0.3, 0.8, 0.1])
                ),
            ),
        )
    )


class HandMadePlan(BackendConformance):
    """The plan is made by hand: it has time samples, and needs no OpenUSD."""

    needs = ""
    """A module without which the backend is not tested."""

    def make_plan(self) -> BridgePlan:
        return self.prepared(sampled_plan())

    def make_empty_plan(self) -> BridgePlan:
        return self.prepared(BridgePlan(asset="empty"))

    def prepared(self, plan: BridgePlan) -> BridgePlan:
        return with_physics(plan) if self.is_simulated() else plan


class Null(HandMadePlan):
    backend = "null"


class Kinematic(HandMadePlan):
    backend = "kinematic"


class Playback(HandMadePlan):
    backend = "playback"


class JointStates(HandMadePlan):
    backend = "joint_states"


class Mujoco(HandMadePlan):
    backend = "mujoco"
    needs = "mujoco"


class Newton(HandMadePlan):
    """Newton imports the stage by itself, in single precision; its drives know no limits of speed."""

    backend = "newton"
    needs = "newton"
    simulated = True
    precision = 1e-6
    limits_speed = False
    needed = "stage"

    def prepared(self, plan: BridgePlan) -> BridgePlan:
        # Only where OpenUSD is there for the backend that wants it.
        from builders.physics_stage import write_stage

        plan = super().prepared(plan)
        assert plan.physics is not None
        return replace(plan, stage=write_stage(plan.physics))


class Array(HandMadePlan):
    """A host whose arrays have the layout's rows: used as they are."""

    simulated = False

    def make_backend(self, plan: BridgePlan) -> Backend:
        layout = plan.layout
        return ArrayBackend(
            layout,
            body_pose=layout.body_pose.copy(),
            joint_position=layout.joint_position.copy(),
            joint_velocity=np.zeros(len(layout.dofs)),
            joint_effort=np.zeros(len(layout.dofs)),
            body_twist=np.zeros((len(layout.bodies), 6)),
            commands=False,
        )


class MappedArray(HandMadePlan):
    """A host with rows, quaternions and buffers of its own, and without the last body: copied at every step."""

    simulated = False

    def make_backend(self, plan: BridgePlan) -> Backend:
        layout = plan.layout
        rows = np.arange(len(layout.bodies))[::-1].copy()
        position = layout.body_pose[::-1, :3].copy()
        quaternion = layout.body_pose[::-1][:, [6, 3, 4, 5]].copy()
        if rows.size:
            rows[-1] = -1
        return ArrayBackend(
            layout,
            body_pose=(position.copy, quaternion.copy),
            joint_position=layout.joint_position[::-1].copy,
            quaternion="wxyz",
            body_rows=rows,
            joint_rows=np.arange(len(layout.dofs))[::-1],
            commands=False,
        )


# --- All tests of a backend in one ---------------------------------------------------------------------------------


@pytest.mark.parametrize("conformance", HandMadePlan.__subclasses__(), ids=lambda each: each.__name__)
def test_a_backend_passes(conformance: type[HandMadePlan]) -> None:
    if conformance.needs and find_spec(conformance.needs) is None:
        pytest.skip(f"{conformance.needs} is not installed")
    failures = {}
    for name in filter(re.compile("test_").match, dir(conformance)):
        try:
            with conformance().made_bench() as bench:
                getattr(conformance(), name)(bench)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - shown below
            failures[name] = "".join(traceback.format_exception(error))
    assert not failures, "\n".join(failures.values())


# --- As authors of backends run them, with the asset that they get ---------------------------------------------------


class TestKinematicOnTheAsset(BackendConformance):
    backend = "kinematic"


@pytest.mark.skipif(find_spec("mujoco") is None, reason="mujoco is not installed: make setup")
class TestMujocoOnTheAsset(BackendConformance):
    backend = "mujoco"


def test_every_built_in_backend_is_tested() -> None:
    tested = {each.backend for each in HandMadePlan.__subclasses__()}
    assert {each.name for each in BACKENDS.entries() if each.builtin} <= tested


def test_the_asset_is_the_plan_that_is_made_by_hand() -> None:
    asset, by_hand = conformance_plan(), sampled_plan()
    assert [each for each in asset.diagnostics if each.severity == "error"] == []
    assert asset.layout.bodies == by_hand.layout.bodies
    assert asset.layout.dofs == by_hand.layout.dofs
    assert [robot.path for robot in asset.robots] == [robot.path for robot in by_hand.robots]
    # But for the right finger, which the stage shows where its leader has it.
    np.testing.assert_allclose(asset.layout.body_pose[:-1], by_hand.layout.body_pose[:-1], atol=1e-6)
    np.testing.assert_allclose(asset.layout.max_velocity, by_hand.layout.max_velocity, rtol=1e-6)
