"""Stages with much of the same: many references to one robot, many prims that repeat nothing, many time samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pxr import Usd
from reading import read_asset

from builders.stages import write_fleet
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.read.properties import UNREPEATED


def records_of(text: str) -> StageRecords:
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(f"#usda 1.0\n{text}")
    return read_stage(stage, asset="test")


def test_equal_prims_of_equal_robots_have_one_number_and_paths_of_their_own(tmp_path: Path) -> None:
    _, records = read_asset(str(write_fleet(tmp_path, robots=3, links=3)))
    joints = {joint.path: joint for joint in records.joints}
    first, second = (joints[f"/fleet/robot_{number}/joint_2"] for number in (0, 1))
    assert first.specs == second.specs > 0
    assert first.specs != joints["/fleet/robot_0/joint_1"].specs
    assert second.body0 == ("/fleet/robot_1/link_1",)
    assert second.drives is first.drives, (
        "limits and drives are parts of joints, which have the path: equal ones are shared"
    )


def test_an_opinion_over_one_of_the_robots_counts_there_alone(tmp_path: Path) -> None:
    stage = Usd.Stage.Open(str(write_fleet(tmp_path, robots=3, links=3)))
    stage.GetPrimAtPath("/fleet/robot_1/joint_2").GetAttribute("physics:lowerLimit").Set(-10.0)
    limits = {joint.path: joint.lower_limit for joint in read_stage(stage, asset="test").joints}
    assert [limits[f"/fleet/robot_{number}/joint_2"] for number in range(3)] == [-90.0, -10.0, -90.0]


def test_a_robot_after_thousands_of_prims_that_repeat_nothing_is_read_all_the_same() -> None:
    scenery = "\n".join(f'def Scope "rock_{number}" {{}}' for number in range(UNREPEATED + 10))
    records = records_of(
        scenery
        + """
def Xform "Robot" (prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"]) {
    def Xform "mast" {}
    def PhysicsFixedJoint "anchor" {
        rel physics:body1 = </Robot>
    }
}
"""
    )
    assert [context.path for context in records.contexts] == ["/Robot"]
    assert [body.path for body in records.bodies] == ["/Robot"]
    assert [joint.path for joint in records.joints] == ["/Robot/anchor"]
    assert "/Robot/mast" in records.xforms
    assert records.order["/Robot"] == UNREPEATED + 10


def test_thousands_of_samples_that_differ_at_the_last_only() -> None:
    count = 3000
    still = ", ".join(f"{time}: (1, 0, 0)" for time in range(count - 1))
    angles = ", ".join(f"{time}: {time % 90}" for time in range(count))
    records = records_of(
        f"""
def Xform "Robot" (prepend apiSchemas = ["RosContextAPI", "PhysicsRigidBodyAPI"]) {{
    double3 xformOp:translate.timeSamples = {{ {still}, {count - 1}: (2, 0, 0) }}
    uniform token[] xformOpOrder = ["xformOp:translate"]
    def PhysicsRevoluteJoint "joint" {{
        float state:angular:physics:position.timeSamples = {{ {angles} }}
    }}
}}
"""
    )
    (pose,), (value,) = records.pose_tracks, records.value_tracks
    np.testing.assert_array_equal(pose.time_codes, np.arange(count))
    np.testing.assert_array_equal(pose.world_from_prim[:, 0, 3], [*[1.0] * (count - 1), 2.0])
    np.testing.assert_array_equal(value.values, np.arange(count) % 90)
