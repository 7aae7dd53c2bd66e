"""A robot's URDF, read by something else, puts links where the bridge puts frames, at any joint positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from urdf_reader import ReadUrdf

from builders.plans import PlanBuilder, gripper, rest_of, rover
from usd_ros_bridge.export.urdf import Urdf, robot_urdf
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.records import DofAxis
from usd_ros_bridge.model.state import State
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, compose, inverse, pose, pose_array, to_matrix

ASSETS = Path(__file__).parents[2] / "assets"
TOLERANCE = 1e-9
DOF_AXES: tuple[DofAxis, ...] = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")


def follow(plan: BridgePlan, position: FloatArray) -> FloatArray:
    """Joint positions with those of mimic joints as their rules say."""
    result = position.copy()
    for robot in plan.robots:
        for dof in (dof for joint in robot.joints for dof in joint.dofs):
            if dof.mimic is not None:
                result[dof.row] = dof.mimic.multiplier * position[dof.mimic.leader] + dof.mimic.offset
    return result


def root_from_frames(plan: BridgePlan, robot: int, root: str, position: FloatArray) -> dict[str, FloatArray]:
    """Matrices (4, 4) of all frames of a robot in one of them (in the world for its parent frame), by the runtime."""
    state = rest_of(plan)
    moved = State(
        time_ns=0,
        joint_position=follow(plan, position),
        joint_velocity=state.joint_velocity,
        joint_effort=state.joint_effort,
        body_pose=state.body_pose,
    )
    bodies = Kinematics(plan).body_poses(moved)
    of_robot = plan.robots[robot]
    places = {}
    for frame in of_robot.frames:
        carrier = bodies[frame.carrier] if frame.carrier >= 0 else pose()
        places[frame.id] = compose(carrier, pose_array(frame.carrier_from_frame))
    root_from_world = inverse(places[root]) if root in places else pose()
    return {name: to_matrix(compose(root_from_world, place)) for name, place in places.items()}


def check(plan: BridgePlan, position: FloatArray, robot: int = 0, *, atol: float = TOLERANCE) -> Urdf:
    """Compares all links that are frames; returns the URDF."""
    urdf = robot_urdf(plan, robot)
    read = ReadUrdf(urdf.text)
    assert list(read.links) == list(urdf.links)
    assert list(read.joints) == list(urdf.joints)
    assert read.root == urdf.links[0]
    rows = {dof.name: dof.row for joint in plan.robots[robot].joints for dof in joint.dofs}
    links = read.poses({name: float(position[row]) for name, row in rows.items()})
    frames = root_from_frames(plan, robot, read.root, position)
    own = set(urdf.links) - set(urdf.added_links) - {plan.robots[robot].parent_frame}
    assert own <= frames.keys()
    for name in own:
        np.testing.assert_allclose(links[name], frames[name], rtol=0.0, atol=atol, err_msg=name)
    return urdf


# --- Any robot ----------------------------------------------------------------------------------------------------

REALS = st.floats(-1.0, 1.0)


@st.composite
def poses(draw: st.DrawFn) -> Pose:
    x, y, z = draw(st.one_of(st.just((0.0, 0.0, 0.0)), st.tuples(REALS, REALS, REALS)))
    turn = draw(
        st.sampled_from([(0.0, 0.0, 0.0, 1.0), (0.5, 0.5, 0.5, 0.5), (0.0, 2**-0.5, 0.0, 2**-0.5)])
        | st.tuples(REALS, REALS, REALS, st.floats(0.1, 1.0))
    )
    norm = float(np.linalg.norm(turn))
    qx, qy, qz, qw = (value / norm for value in turn)
    return Pose((x, y, z), (qx, qy, qz, qw))


@st.composite
def robots(draw: st.DrawFn) -> BridgePlan:
    """A tree of bodies, fixed or free, with joints of every kind, either way round, one or several to an edge."""
    robot = PlanBuilder().robot("/robot")
    robot.body("body0", draw(poses()))
    fixed = draw(st.booleans())
    if fixed:
        robot.joint(
            "anchor",
            "",
            "body0",
            kind=draw(st.sampled_from(["fixed", "revolute"])),
            body0_from_joint=draw(poses()),
        )
    for number in range(1, draw(st.integers(1, 4)) + 1):
        parent = f"body{draw(st.integers(0, number - 1))}"
        robot.body(f"body{number}")
        inverted = draw(st.booleans())
        kind = draw(st.sampled_from(["revolute", "continuous", "prismatic", "fixed", "spherical", "generic"]))
        count = draw(st.integers(1, 3)) if kind in ("revolute", "prismatic") else 1
        for part in range(count):
            axes = None
            if kind == "generic":
                axes = draw(st.lists(st.sampled_from(DOF_AXES), min_size=1, max_size=6, unique=True))
            robot.joint(
                f"joint{number}_{part}",
                parent,
                f"body{number}",
                axis=draw(st.sampled_from(["X", "Y", "Z"])),
                kind=kind,
                dofs=axes,
                inverted=inverted,
                body0_from_joint=draw(poses()),
                body1_from_joint=draw(poses()),
            )
        if count > 1:
            robot.merge(count)
    if draw(st.booleans()):
        robot.fixed_frame("tool", f"body{number}", draw(poses()))
    return robot.plan.build()


@settings(deadline=None, max_examples=100)
@given(robots(), st.data())
def test_links_are_where_the_frames_are(plan: BridgePlan, data: st.DataObject) -> None:
    count = len(plan.layout.dofs)
    position = np.array(data.draw(st.lists(st.floats(-4.0, 4.0), min_size=count, max_size=count)))
    urdf = check(plan, position)
    assert not [each for each in urdf.diagnostics if each.severity == "error"]


@pytest.mark.parametrize("build", [gripper, rover])
def test_robots_built_by_hand(build: object) -> None:
    plan = build().build()  # type: ignore[operator]
    rng = np.random.default_rng(1)
    for _ in range(20):
        check(plan, rng.uniform(-3.0, 3.0, len(plan.layout.dofs)))


def test_angles_are_exact_at_and_near_a_right_angle_of_pitch() -> None:
    for pitch in (np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, np.pi / 2 - 1e-7, -np.pi / 2 + 1e-5):
        half = pitch / 2.0
        robot = PlanBuilder().robot()
        robot.body("body0")
        robot.body("body1")
        about_y = pose(rotation=(0.0, np.sin(half), 0.0, np.cos(half)))
        about_x = pose(rotation=(np.sin(0.4), 0.0, 0.0, np.cos(0.4)))
        x, y, z, qx, qy, qz, qw = compose(about_y, about_x).tolist()
        robot.joint("joint", "body0", "body1", body0_from_joint=Pose((x, y, z), (qx, qy, qz, qw)))
        check(robot.plan.build(), np.array([0.3]), atol=1e-11)


# --- Every asset of the tests -------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_urdfs_of_all_assets() -> None:
    for path in sorted(ASSETS.glob("*.usda")):
        check_urdfs(path)


def test_urdfs_of_assets_with_joints_of_all_kinds() -> None:
    paths = sorted(ASSETS.glob("joint_*.usda"))
    assert len(paths) > 5
    for path in paths:
        check_urdfs(path)


def check_urdfs(path: Path) -> None:
    """Compare the URDFs of all robots of an asset, if its layer opens by itself."""
    pytest.importorskip("pxr", reason="usd-core is not installed: make setup")
    from usd_ros_bridge.api import load_plan
    from usd_ros_bridge.errors import AssetError
    from usd_ros_bridge.usd import quiet

    with quiet():
        try:
            plan = load_plan(path, physics=True)
        except AssetError:
            return
    rng = np.random.default_rng(2)
    for index, robot in enumerate(plan.robots):
        for _ in range(3):
            position = rng.uniform(-1.0, 1.0, len(plan.layout.dofs))
            urdf = check(plan, position, index)
        missing = [frame for frame in robot.frames if frame.id not in urdf.links and frame.path != robot.path]
        said = [each.path for each in urdf.diagnostics if each.code == "3.8.frame"]
        assert said == [frame.path for frame in missing[:1]], path
        edges = [robot.edges[f.edge] for f in robot.frames if f.edge >= 0 and f.id in urdf.links[1:]]
        joints = [robot.joints[number] for edge in edges for number in edge.joints]
        assert {dof.name for joint in joints for dof in joint.dofs} <= set(urdf.joints)
        rigid = [robot.joints[edge.joints[0]].name for edge in edges if edge.rigid]
        assert set(rigid) <= set(urdf.joints)
