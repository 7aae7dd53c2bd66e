"""What a URDF says of a robot: root, joints, masses, shapes and colours, and what it leaves out."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from urdf_reader import ReadUrdf

from builders.physics import with_physics
from builders.plans import PlanBuilder, gripper, rover
from usd_ros_bridge.api import load_plan
from usd_ros_bridge.export.mesh_files import MeshFile
from usd_ros_bridge.export.urdf import Urdf, UrdfExporter, robot_urdf
from usd_ros_bridge.export.urdf.document import UNLIMITED
from usd_ros_bridge.export.urdf.urdf_visuals import PLANE_THICKNESS
from usd_ros_bridge.model.appearance import Color
from usd_ros_bridge.model.diagnostics import Diagnostic
from usd_ros_bridge.model.physics import (
    WORLD_BODY,
    Box,
    Capsule,
    Collider,
    Cone,
    Cylinder,
    Inertial,
    Mesh,
    PhysicsScene,
    Plane,
    Shape,
    Sphere,
    Visual,
)
from usd_ros_bridge.model.plan import BridgePlan, FramePlan
from usd_ros_bridge.spatial.pose import Pose

HALF = 0.5**0.5
TRIANGLE = Mesh(
    np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [9.0, 9.0, 9.0]]),
    np.array([[0, 1, 2]], np.int32),
)


class Files:
    """Keeps what it is asked to put into files."""

    def __init__(self, answer: MeshFile | Diagnostic | None = None) -> None:
        self.asked: list[tuple[str, Mesh, Color | None]] = []
        self._answer = answer

    def write(self, mesh: Mesh, *, path: str, color: Color | None = None) -> MeshFile | Diagnostic:
        self.asked.append((path, mesh, color))
        return self._answer or MeshFile(uri=f"file:///meshes/{len(self.asked)}.stl")


def read(urdf: Urdf) -> ReadUrdf:
    return ReadUrdf(urdf.text)


def codes(urdf: Urdf) -> list[tuple[str, str, str]]:
    return [(each.code, each.severity, each.path) for each in urdf.diagnostics]


def with_shapes(
    plan: BridgePlan, visuals: Sequence[Visual] = (), colliders: Sequence[Collider] = ()
) -> BridgePlan:
    physical = with_physics(plan)
    assert physical.physics is not None
    scene = replace(physical.physics, visuals=tuple(visuals), colliders=tuple(colliders))
    return replace(physical, physics=scene)


def seen(shape: Shape, body: int = 0, place: Pose = Pose(), name: str = "look") -> Visual:  # noqa: B008 - frozen
    return Visual(path=f"/rover/base_link/{name}", body=body, body_from_shape=place, shape=shape)


# --- The tree -----------------------------------------------------------------------------------------------------


def test_a_free_robots_root_is_its_base_and_it_is_named_after_its_context() -> None:
    urdf = robot_urdf(rover(path="/World/rover").build(), 0)
    assert urdf.name == read(urdf).name == "rover"
    assert urdf.links == ("base_link", "left_wheel", "right_wheel", "mast_joint_link", "mast", "camera")
    assert urdf.added_links == ("mast_joint_link",)
    assert urdf.diagnostics == ()


NAMED = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "World"
{
    def Xform "one" (
        prepend apiSchemas = ["RosContextAPI"]
        %s
    )
    {
        string ros:context:namespace = "one"
        def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI", "RosFrameAPI"] ) {}
        def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}
        def PhysicsRevoluteJoint "joint"
        {
            custom float urdf:limit:velocity = 1.5
            rel physics:body0 = </World/one/base>
            rel physics:body1 = </World/one/arm>
        }
    }
}
"""


ROBOT_ASSET = """#usda 1.0
(
    defaultPrim = "Robot"
    metersPerUnit = 1
    upAxis = "Z"
)
def Xform "Robot" (
    prepend apiSchemas = ["RosContextAPI"]
    assetInfo = { string name = "picker" }
)
{
    def Xform "base" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}
    def Xform "arm" ( prepend apiSchemas = ["PhysicsRigidBodyAPI"] ) {}
    def PhysicsRevoluteJoint "joint" {
        rel physics:body0 = </Robot/base>
        rel physics:body1 = </Robot/arm>
    }
}
"""
FLEET_ASSET = '#usda 1.0\n(\n metersPerUnit = 1\n upAxis = "Z"\n)\n' + "".join(
    f'def "r{number}" (\n references = @./robot.usda@\n {info}\n)\n'
    f'{{\n string ros:context:namespace = "r{number}"\n}}\n'
    for number, info in enumerate(("", "", 'assetInfo = { string name = "packer" }'))
)


def test_a_robot_is_named_after_its_asset(tmp_path: Path) -> None:
    names = {
        "": "one",
        'assetInfo = { string identifier = "x"; string name = "ur5e <2>" }': "ur5e <2>",
        "assetInfo = { int name = 5 }": "one",
        'assetInfo = { string name = "" }': "one",
        'assetInfo = { string name = "\\x1b[31m" }': "one",
        f'assetInfo = {{ string name = "{"n" * 300}" }}': "one",
    }
    found = {}
    for number, asset_info in enumerate(names):
        asset = tmp_path / f"named_{number}.usda"
        asset.write_text(NAMED % asset_info, encoding="utf-8")
        urdf = robot_urdf(load_plan(asset), 0)
        assert urdf.name == read(urdf).name
        found[asset_info] = urdf.name
    assert found == names


def test_the_velocity_limit_that_a_urdf_left_is_in_the_urdf_again(tmp_path: Path) -> None:
    asset = tmp_path / "named.usda"
    asset.write_text(NAMED % "", encoding="utf-8")
    limit = ET.fromstring(robot_urdf(load_plan(asset), 0).text).find("joint/limit")
    assert limit is not None
    assert float(limit.attrib["velocity"]) == 1.5


def test_copies_of_a_robot_have_names_of_their_own(tmp_path: Path) -> None:
    robot = tmp_path / "robot.usda"
    robot.write_text(ROBOT_ASSET, encoding="utf-8")
    fleet = tmp_path / "fleet.usda"
    fleet.write_text(FLEET_ASSET, encoding="utf-8")
    exporter = UrdfExporter(load_plan(fleet))
    assert [exporter.robot(number).name for number in range(3)] == ["picker", "picker", "packer"]


def test_a_fixed_robots_root_is_the_frame_that_all_others_hang_from() -> None:
    plan = gripper().build()
    robot = plan.robots[0]
    context = FramePlan(id="gripper", parent="world", path="/gripper", static=True, parent_from_frame=Pose())
    frames = [context]
    for frame in robot.frames:
        above = 0 if frame.parent_index < 0 else frame.parent_index + 1
        frames.append(replace(frame, parent=frames[above].id, parent_index=above))
    plan = replace(plan, robots=(replace(robot, frames=tuple(frames)),))
    urdf = robot_urdf(plan, 0)
    assert urdf.links == ("gripper", "mount", "palm", "left_finger", "right_finger")
    assert read(urdf).joints["mount_joint"].type == "fixed"


def test_what_several_frames_hang_from_is_the_root_where_no_frame_of_the_robot_is() -> None:
    robot = PlanBuilder().robot()
    for name in ("left", "right"):
        robot.body(name)
        robot.joint(f"{name}_joint", "", name, body0_from_joint=Pose((0.0, 1.0, 0.0)))
    urdf = robot_urdf(robot.plan.build(), 0)
    assert urdf.links == ("world", "left", "right")
    assert {joint.parent for joint in read(urdf).joints.values()} == {"world"}


def test_a_body_that_a_joint_moves_in_the_world_is_not_the_root() -> None:
    robot = PlanBuilder().robot()
    robot.body("pendulum")
    robot.joint("pivot", "", "pendulum", axis="Y", limits=(-1.0, 2.0))
    joint = read(robot_urdf(robot.plan.build(), 0)).joints["pivot"]
    assert (joint.type, joint.parent, joint.child) == ("revolute", "world", "pendulum")


def test_a_robot_without_frames_is_one_link() -> None:
    robot = PlanBuilder().robot("/empty")
    urdf = robot_urdf(robot.plan.build(), 0)
    assert (urdf.name, urdf.links, urdf.joints) == ("empty", ("world",), ())
    assert read(urdf).root == "world"


def test_frames_that_do_not_hang_from_a_free_robots_base_are_left_out_and_said() -> None:
    builder = rover()
    robot = builder.robots[0]
    robot.body("drone")
    robot.body("rotor")
    robot.joint("rotor_joint", "drone", "rotor")
    urdf = robot_urdf(builder.build(), 0)
    assert "drone" not in urdf.links
    assert codes(urdf) == [("3.8.frame", "warning", "/rover/drone")]
    assert "2 of 7 frames" in urdf.diagnostics[0].message
    assert urdf.diagnostics[0].message.endswith(": drone, rotor")


def test_a_body_without_joints_among_other_frames_is_not_the_root() -> None:
    robot = PlanBuilder().robot("/cell")
    robot.frames.append(
        FramePlan(id="cell", parent="world", path="/cell", static=True, parent_from_frame=Pose())
    )
    robot.fixed_frame("camera", "cell", Pose((0.0, 0.0, 2.0)))
    robot.body("crate", Pose((1.0, 0.0, 0.0)))
    robot.frames[-1] = replace(robot.frames[-1], parent="cell", parent_index=0)
    plan = robot.plan.build()
    assert plan.robots[0].frames[plan.robots[0].base].id == "crate"
    urdf = robot_urdf(plan, 0)
    assert urdf.links == ("cell", "camera", "crate")
    assert {joint.type for joint in read(urdf).joints.values()} == {"fixed", "floating"}
    assert codes(urdf) == [("3.8.floating", "info", "/cell/crate")]


def test_a_mimic_joint_whose_leader_is_left_out_follows_nothing_and_that_is_said() -> None:
    builder = rover()
    robot = builder.robots[0]
    robot.body("drone")
    robot.body("rotor")
    robot.joint("rotor_joint", "drone", "rotor")
    robot.body("flap")
    robot.joint("flap_joint", "base_link", "flap", mimic=("rotor_joint", 1.0, 0.0))
    urdf = robot_urdf(builder.build(), 0)
    assert read(urdf).joints["flap_joint"].mimic is None
    assert ("3.8.mimic", "warning", "/rover/flap") in codes(urdf)


def test_what_no_joint_position_determines_floats() -> None:
    robot = PlanBuilder().robot()
    robot.body("anchor")
    robot.joint("mount", "", "anchor", kind="fixed")
    robot.body("ball", Pose((0.0, 0.0, -1.0)))
    robot.joint("rope", "anchor", "ball", kind="distance")
    robot.fixed_frame("mark", "ball", Pose((0.1, 0.0, 0.0)), static=False)
    urdf = robot_urdf(robot.plan.build(), 0)
    joints = read(urdf).joints
    assert (joints["ball_joint"].type, joints["ball_joint"].parent) == ("floating", "anchor")
    assert joints["mark_joint"].type == "fixed", "nothing moves between a body and a frame that it carries"
    assert codes(urdf) == [("3.8.floating", "info", "/robot/ball")]


# --- Joints -------------------------------------------------------------------------------------------------------


def one_joint(**options: object) -> ReadUrdf:
    robot = PlanBuilder().robot()
    robot.body("base")
    robot.body("link")
    robot.joint("joint", "base", "link", **options)  # type: ignore[arg-type]
    return read(robot_urdf(robot.plan.build(), 0))


def test_limits_are_those_of_the_plan() -> None:
    limit = one_joint(limits=(-1.5, 0.25), max_velocity=2.5).joints["joint"].limit
    assert limit == {"lower": -1.5, "upper": 0.25, "velocity": 2.5, "effort": UNLIMITED}


def test_what_has_no_limit_has_a_large_one_where_urdf_wants_a_number() -> None:
    joint = one_joint(kind="prismatic", limits=(-np.inf, 0.1)).joints["joint"]
    assert joint.limit == {"lower": -UNLIMITED, "upper": 0.1, "velocity": UNLIMITED, "effort": UNLIMITED}


@pytest.mark.parametrize(
    ("velocity", "limit"), [(np.inf, None), (3.0, {"velocity": 3.0, "effort": UNLIMITED})]
)
def test_a_rotation_without_limits_is_continuous(velocity: float, limit: Mapping[str, float] | None) -> None:
    joint = one_joint(max_velocity=velocity).joints["joint"]
    assert (joint.type, joint.limit) == ("continuous", limit)


def test_a_joint_that_the_tree_runs_against_has_its_axis_turned_round_and_its_own_limits() -> None:
    joint = one_joint(inverted=True, axis="X", limits=(-0.1, 0.7)).joints["joint"]
    np.testing.assert_allclose(joint.axis, [-1.0, 0.0, 0.0], atol=1e-12)
    assert joint.limit is not None
    assert (joint.limit["lower"], joint.limit["upper"]) == (-0.1, 0.7)


def test_mimic_joints_name_their_leader() -> None:
    joint = read(robot_urdf(gripper().build(), 0)).joints["right_finger_joint"]
    assert joint.mimic == ("left_finger_joint", 1.0, 0.001)


def test_several_degrees_of_freedom_take_massless_links() -> None:
    robot = PlanBuilder().robot()
    robot.body("base")
    robot.body("hand")
    robot.fixed_frame("wrist_rx_link", "base")
    robot.joint("wrist", "base", "hand", kind="spherical", limits=(-0.5, 0.5))
    plan = with_physics(robot.plan.build())
    urdf = robot_urdf(plan, 0)
    assert urdf.added_links == ("wrist_rx_link_", "wrist_ry_link")
    assert urdf.joints == ("wrist_rx", "wrist_ry", "wrist_rz", "wrist_rx_link_joint")
    found = read(urdf)
    assert [found.joints[name].child for name in urdf.joints[:3]] == [*urdf.added_links, "hand"]
    assert [found.inertia(name) for name in urdf.added_links] == [None, None]


def test_an_axis_that_misses_the_childs_origin_takes_a_massless_link() -> None:
    found = one_joint(body1_from_joint=Pose((0.0, 0.3, 0.0)))
    assert list(found.links) == ["base", "joint_link", "link"]
    assert found.joints["joint_fixed"].type == "fixed"
    along = one_joint(body1_from_joint=Pose((0.0, 0.0, 0.3)))
    assert list(along.links) == ["base", "link"]


def test_a_link_and_a_joint_may_share_a_name_and_links_added_never_take_that_of_a_frame() -> None:
    robot = PlanBuilder().robot()
    robot.body("arm")
    robot.body("elbow")
    robot.joint("elbow", "arm", "elbow")
    robot.fixed_frame("tool", "elbow")
    robot.body("end")
    robot.joint("tool_joint", "elbow", "end", kind="fixed")
    urdf = robot_urdf(robot.plan.build(), 0)
    assert "elbow" in urdf.links
    assert "elbow" in urdf.joints
    assert sorted(urdf.joints) == ["elbow", "tool_joint", "tool_joint_"]
    read(urdf)


def test_names_are_escaped_and_come_back_as_they_were() -> None:
    name = "a<b> & \"c\" 'd' ü"
    robot = PlanBuilder().robot()
    robot.body("base")
    robot.body("link")
    robot.joint(name, "base", "link", kind="spherical")
    urdf = robot_urdf(robot.plan.build(), 0)
    assert urdf.joints == (f"{name}_rx", f"{name}_ry", f"{name}_rz")
    assert list(read(urdf).joints) == list(urdf.joints)
    assert urdf.added_links == tuple(f"a_b_____c___d____{axis}_link" for axis in ("rx", "ry"))


def test_loops_are_left_out_and_said() -> None:
    plan = with_physics(gripper().build())
    assert plan.physics is not None
    closing = replace(plan.physics.joints[0], path="/gripper/closing", closes_loop=True)
    plan = replace(plan, physics=replace(plan.physics, joints=(*plan.physics.joints, closing)))
    urdf = robot_urdf(plan, 0)
    assert codes(urdf) == [("3.8.loop", "info", "/gripper/closing")]
    assert "closing" not in urdf.text


def test_friction_and_passive_damping_are_dynamics() -> None:
    plan = with_physics(gripper().build(), drives={"palm_joint": None})
    assert plan.physics is not None
    joints = tuple(
        replace(each, dofs=tuple(replace(dof, damping=0.5, friction=0.25) for dof in each.dofs))
        for each in plan.physics.joints
    )
    found = read(robot_urdf(replace(plan, physics=replace(plan.physics, joints=joints)), 0))
    assert found.joints["palm_joint"].dynamics == {"damping": 0.5, "friction": 0.25}
    assert found.joints["left_finger_joint"].dynamics == {"friction": 0.25}, "a drive's damping is no joint's"


# --- Masses -------------------------------------------------------------------------------------------------------


def with_inertial(inertial: Inertial) -> ReadUrdf:
    plan = with_physics(rover().build())
    assert plan.physics is not None
    bodies = (replace(plan.physics.bodies[0], inertial=inertial), *plan.physics.bodies[1:])
    return read(robot_urdf(replace(plan, physics=replace(plan.physics, bodies=bodies)), 0))


def test_principal_axes_become_a_matrix() -> None:
    about_z = (0.0, 0.0, np.sin(np.pi / 8), np.cos(np.pi / 8))
    found = with_inertial(
        Inertial(mass=2.0, center=(0.1, 0.2, 0.3), diagonal=(1.0, 3.0, 3.5), principal=about_z)
    )
    inertia = found.inertia("base_link")
    assert inertia is not None
    mass, place, matrix = inertia
    assert mass == 2.0
    expected = np.eye(4)
    expected[:3, 3] = (0.1, 0.2, 0.3)
    np.testing.assert_allclose(place, expected, atol=1e-12)
    # Turned by 45 degrees: the mean of the two on the diagonal, half of their difference beside it.
    np.testing.assert_allclose(matrix, [[2.0, -1.0, 0.0], [-1.0, 2.0, 0.0], [0.0, 0.0, 3.5]], atol=1e-12)


def test_a_tiny_robots_inertia_keeps_its_digits() -> None:
    inertia = with_inertial(Inertial(mass=1e-6, diagonal=(1.25e-15, 2.5e-15, 3e-15))).inertia("base_link")
    assert inertia is not None
    np.testing.assert_allclose(np.diag(inertia[2]), [1.25e-15, 2.5e-15, 3e-15], rtol=1e-11)


def test_a_body_without_mass_has_no_inertial() -> None:
    assert with_inertial(Inertial(mass=0.0)).inertia("base_link") is None


def test_a_plan_without_physics_gives_links_and_joints() -> None:
    found = read(robot_urdf(rover().build(), 0))
    assert {child.tag for link in found.links.values() for child in link} == set()


# --- Shapes -------------------------------------------------------------------------------------------------------


def geometry(shape: Shape, **kind: bool) -> list[tuple[str, list[float], dict[str, list[float]]]]:
    """Name, position and geometry of what a shape on the base becomes."""
    if kind.get("collides"):
        collider = Collider(path="/rover/base_link/look", body=0, body_from_shape=Pose(), shape=shape)
        plan = with_shapes(rover().build(), colliders=[collider])
    else:
        plan = with_shapes(rover().build(), visuals=[seen(shape)])
    found = read(robot_urdf(plan, 0)).shapes("base_link", "collision" if kind.get("collides") else "visual")
    return [
        (
            name,
            pose[:3, 3].tolist(),
            {tag: [], **{k: [float(x) for x in v.split()] for k, v in sizes.items()}},
        )
        for name, pose, tag, sizes, _ in found
    ]


@pytest.mark.parametrize("collides", [False, True])
def test_primitives(collides: bool) -> None:
    here = [0.0, 0.0, 0.0]
    assert geometry(Sphere(0.5), collides=collides) == [("look", here, {"sphere": [], "radius": [0.5]})]
    assert geometry(Box((0.1, 0.2, 0.3)), collides=collides) == [
        ("look", here, {"box": [], "size": [0.2, 0.4, 0.6]})
    ]
    assert geometry(Cylinder(0.5, 1.5), collides=collides) == [
        ("look", here, {"cylinder": [], "radius": [0.5], "length": [3.0]})
    ]
    assert geometry(Capsule(0.5, 1.5), collides=collides) == [
        ("look", here, {"cylinder": [], "radius": [0.5], "length": [3.0]}),
        ("look_top", [0.0, 0.0, 1.5], {"sphere": [], "radius": [0.5]}),
        ("look_bottom", [0.0, 0.0, -1.5], {"sphere": [], "radius": [0.5]}),
    ]
    assert geometry(Capsule(0.5, 0.0), collides=collides) == [("look", here, {"sphere": [], "radius": [0.5]})]
    assert geometry(Plane((2.0, 1.0)), collides=collides) == [
        ("look", [0.0, 0.0, -PLANE_THICKNESS / 2], {"box": [], "size": [4.0, 2.0, PLANE_THICKNESS]})
    ]


def test_a_shape_is_where_it_is_on_its_link() -> None:
    turned = Pose((1.0, 2.0, 3.0), (HALF, 0.0, 0.0, HALF))
    plan = with_shapes(rover().build(), visuals=[seen(Capsule(0.1, 0.5), place=turned)])
    rod, top, _ = read(robot_urdf(plan, 0)).shapes("base_link", "visual")
    np.testing.assert_allclose(rod[1][:3, :3], [[1, 0, 0], [0, 0, -1], [0, 1, 0]], atol=1e-11)
    np.testing.assert_allclose(top[1][:3, 3], [1.0, 1.5, 3.0], atol=1e-12)


def test_meshes_that_collide_as_what_bounds_them() -> None:
    box = geometry(replace(TRIANGLE, approximation="boundingCube"), collides=True)
    assert box == [("look", [1.0, 0.5, 0.0], {"box": [], "size": [2.0, 1.0, 0.0]})]
    ((_, centre, ball),) = geometry(replace(TRIANGLE, approximation="boundingSphere"), collides=True)
    assert centre == [1.0, 0.5, 0.0]
    assert ball["radius"][0] == pytest.approx(np.hypot(1.0, 0.5))


def test_a_cone_is_a_mesh_that_is_closed() -> None:
    files = Files()
    plan = with_shapes(rover().build(), visuals=[seen(Cone(0.5, 1.0))])
    robot_urdf(plan, 0, meshes=files)
    ((_, mesh, _),) = files.asked
    corners = mesh.points[mesh.triangles]
    volume = np.einsum("ti,ti->t", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6.0
    assert volume == pytest.approx(np.pi * 0.5**2 * 2.0 / 3.0, rel=0.01), "or it is inside out"


def test_a_plane_without_end_is_left_out_and_said() -> None:
    urdf = robot_urdf(with_shapes(rover().build(), visuals=[seen(Plane())]), 0)
    assert codes(urdf) == [("3.8.shape", "warning", "/rover/base_link/look")]
    assert read(urdf).shapes("base_link", "visual") == []


def test_names_of_shapes_differ_on_one_link() -> None:
    plan = with_shapes(
        rover().build(),
        visuals=[seen(Sphere(0.1)), seen(Sphere(0.2)), seen(Sphere(0.3))],
        colliders=[Collider(path="/x/look", body=0, body_from_shape=Pose(), shape=Sphere(0.1))],
    )
    found = read(robot_urdf(plan, 0))
    assert [shape[0] for shape in found.shapes("base_link", "visual")] == ["look", "look_2", "look_3"]
    assert [shape[0] for shape in found.shapes("base_link", "collision")] == ["look"]


def test_colours_are_srgb_and_said_once() -> None:
    red = (1.0, 0.0, 0.0, 0.5)
    grey = (0.2158605, 0.2158605, 0.2158605, 1.0)
    visuals = [
        replace(seen(Sphere(0.1), body), color=color) for body, color in ((0, red), (1, grey), (2, red))
    ]
    found = read(robot_urdf(with_shapes(rover().build(), visuals), 0))
    assert len(found.colors) == 2
    colors = [found.shapes(link, "visual")[0][4] for link in ("base_link", "left_wheel", "right_wheel")]
    assert colors[0] == colors[2] == red
    assert colors[1] == pytest.approx((0.502, 0.502, 0.502, 1.0), abs=1e-3), (
        "128 of 255 is 0.216 in linear light"
    )


def test_a_collider_is_seen_only_where_it_has_a_colour() -> None:
    hidden = Collider(path="/rover/base_link/hull", body=0, body_from_shape=Pose(), shape=Sphere(0.1))
    shown = replace(hidden, path="/rover/base_link/shell", color=(0.0, 1.0, 0.0, 1.0))
    found = read(robot_urdf(with_shapes(rover().build(), colliders=[hidden, shown]), 0))
    assert [shape[0] for shape in found.shapes("base_link", "visual")] == ["shell"]
    assert [shape[0] for shape in found.shapes("base_link", "collision")] == ["hull", "shell"]
    assert found.shapes("base_link", "collision")[1][4] is None


# --- Meshes -------------------------------------------------------------------------------------------------------


def meshes(answer: MeshFile | Diagnostic | None) -> tuple[Urdf, Files]:
    collider = Collider(
        path="/rover/base_link/hull",
        body=0,
        body_from_shape=Pose(),
        shape=TRIANGLE,
        color=(1.0, 1.0, 1.0, 1.0),
    )
    files = Files(answer)
    plan = with_shapes(rover().build(), visuals=[seen(TRIANGLE)], colliders=[collider])
    return robot_urdf(plan, 0, meshes=files), files


def test_meshes_are_named_by_their_files() -> None:
    urdf, files = meshes(None)
    assert [(path, color is None) for path, _, color in files.asked] == [
        ("/rover/base_link/look", False),
        ("/rover/base_link/hull", False),
        ("/rover/base_link/hull", True),
    ]
    (_, _, tag, attributes, color) = read(urdf).shapes("base_link", "visual")[0]
    assert (tag, dict(attributes)) == ("mesh", {"filename": "file:///meshes/1.stl"})
    assert color is not None


def test_a_file_with_colours_of_its_own_has_no_material() -> None:
    urdf, _ = meshes(MeshFile(uri="package://a/b&c.obj", has_colors=True))
    (_, _, _, attributes, color) = read(urdf).shapes("base_link", "visual")[0]
    assert dict(attributes) == {"filename": "package://a/b&c.obj"}
    assert color is None


def test_without_a_place_for_files_meshes_are_left_out_and_counted_once() -> None:
    plan = with_shapes(rover().build(), visuals=[seen(TRIANGLE), seen(TRIANGLE)])
    urdf = robot_urdf(plan, 0)
    assert codes(urdf) == [("3.8.mesh", "info", "/rover")]
    assert "2 left out" in urdf.diagnostics[0].message


def test_what_stands_in_the_way_of_all_meshes_is_said_once_and_the_rest_goes_on() -> None:
    fault = Diagnostic(code="3.8.mesh_directory", severity="error", path="", message="read only")
    urdf, files = meshes(fault)
    assert len(files.asked) == 3
    assert urdf.diagnostics == (fault,)
    assert "mesh" not in urdf.text
    assert read(urdf).inertia("base_link") is not None


def test_what_a_file_lacks_is_said() -> None:
    lost = Diagnostic(code="3.8.texture", severity="warning", path="/rover/base_link/look", message="gone")
    urdf, _ = meshes(MeshFile(uri="file:///x.stl", diagnostics=(lost,)))
    assert urdf.diagnostics == (lost,)


# --- What no body carries, and other robots -----------------------------------------------------------------------


def standing(path: str) -> Visual:
    return Visual(path=path, body=WORLD_BODY, body_from_shape=Pose((5.0, 0.0, 1.0)), shape=Sphere(0.1))


def test_what_stands_below_a_fixed_robots_frames_is_on_the_nearest_of_them() -> None:
    context = FramePlan(
        id="cell", parent="world", path="/cell", static=True, parent_from_frame=Pose((4.0, 0.0, 0.0)),
        carrier_from_frame=Pose((4.0, 0.0, 0.0)),
    )  # fmt: skip
    stand = FramePlan(
        id="stand", parent="cell", path="/cell/stand", static=True, parent_from_frame=Pose((0.0, 0.0, 1.0)),
        parent_index=0, carrier_from_frame=Pose((4.0, 0.0, 1.0)),
    )  # fmt: skip
    plan = PlanBuilder().robot("/cell").plan.build()
    robot = replace(plan.robots[0], frames=(context, stand))
    scene = PhysicsScene(
        visuals=tuple(map(standing, ("/cell/wall", "/cell/stand/post/cap", "/elsewhere/tree")))
    )
    found = read(robot_urdf(replace(plan, robots=(robot,), physics=scene), 0))
    assert [(name, pose[:3, 3].tolist()) for name, pose, *_ in found.shapes("cell", "visual")] == [
        ("wall", [1.0, 0.0, 1.0])
    ]
    assert [(name, pose[:3, 3].tolist()) for name, pose, *_ in found.shapes("stand", "visual")] == [
        ("cap", [1.0, 0.0, 0.0])
    ]


def test_what_stands_beside_a_free_robot_is_no_part_of_it() -> None:
    plan = with_shapes(rover().build(), visuals=[standing("/rover/marker"), standing("/rover2/marker")])
    assert "visual" not in robot_urdf(plan, 0).text


def test_each_robot_has_its_own() -> None:
    plan = with_physics(gripper(rover()).build())
    first, second = robot_urdf(plan, 0), robot_urdf(plan, 1)
    assert (first.name, second.name) == ("rover", "gripper")
    assert not set(first.links) & set(second.links)
    assert read(second).joints["right_finger_joint"].mimic == ("left_finger_joint", 1.0, 0.001)


def test_an_exporter_of_all_robots_gives_what_each_alone_is() -> None:
    plan = with_physics(gripper(rover()).build())
    exporter = UrdfExporter(plan)
    assert [exporter.robot(number) for number in (0, 1, 0)] == [
        robot_urdf(plan, number) for number in (0, 1, 0)
    ]
