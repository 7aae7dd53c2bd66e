"""The example assets are sound: they compose, keep to the layers of REP 0158, and are physically possible."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pxr", reason="usd-core is not installed")

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade, UsdUtils, UsdValidation

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
ASSETS = {
    "rover": EXAMPLES / "rover" / "rover.usda",
    "world": EXAMPLES / "rover" / "world.usda",
    "arm": EXAMPLES / "arm" / "arm.usda",
    "fleet": EXAMPLES / "fleet" / "fleet.usda",
    "camera_module": EXAMPLES / "fleet" / "camera_module" / "camera_module.usda",
}
GRIPPERS = ("none", "parallel", "suction")
CASES = [(name, None) for name in ASSETS] + [
    (name, choice) for name in ("arm", "fleet") for choice in GRIPPERS
]
PROJECTS = [EXAMPLES / name for name in ("plugins", "testing")]
"""Projects of users: their assets are small, in one layer each."""
LAYERS = sorted(
    path for path in EXAMPLES.rglob("*.usda") if not any(path.is_relative_to(each) for each in PROJECTS)
)
WRIST = "/arm/base_link/link_1/link_2/link_3/link_4/link_5/link_6"


def applied(prim: Usd.Prim) -> list[str]:
    return list(prim.GetPrimTypeInfo().GetAppliedAPISchemas())


def open_asset(
    name: str, gripper: str | None = None, load: Usd.Stage.InitialLoadSet = Usd.Stage.LoadAll
) -> Usd.Stage:
    session = Sdf.Layer.CreateAnonymous()
    if gripper is not None:
        arm = Sdf.CreatePrimInLayer(session, "/Fleet/arm" if name == "fleet" else "/arm")
        arm.variantSelections["gripper"] = gripper
    return Usd.Stage.Open(Sdf.Layer.FindOrOpen(str(ASSETS[name])), session, load)


@pytest.fixture(scope="module")
def stages() -> list[Usd.Stage]:
    """All assets, those with a gripper with each of them."""
    return [open_asset(*case) for case in CASES]


def joints_of(stage: Usd.Stage) -> list[UsdPhysics.Joint]:
    return [UsdPhysics.Joint(prim) for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)]


def bodies_of(stage: Usd.Stage) -> list[Usd.Prim]:
    return [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]


# ---------------------------------------------------------------------------------------------- composition


def test_composes_without_errors(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        assert stage.GetCompositionErrors() == [], stage.GetRootLayer().realPath
        assert stage.GetDefaultPrim().IsDefined()
        undefined = [prim.GetPath() for prim in stage.TraverseAll() if not prim.IsDefined()]
        assert undefined == [], "an overlay speaks of prims that base.usda does not define"


def test_openusd_validators_find_nothing(stages: list[Usd.Stage]) -> None:
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert {"usdPhysicsValidators:PhysicsJointChecker", "usdValidation:CompositionErrorTest"} <= {
        validator.GetMetadata().name for validator in validators
    }
    for stage in stages:
        found = UsdValidation.ValidationContext(validators).Validate(stage)
        assert [f"{error.GetName()}: {error.GetMessage()}" for error in found] == []


def test_every_file_is_found_by_a_relative_path() -> None:
    for path in ASSETS.values():
        layers, assets, unresolved = UsdUtils.ComputeAllDependencies(str(path))
        assert unresolved == []
        for layer in layers:
            assert Path(layer.realPath).is_relative_to(EXAMPLES)
            assert all(path.startswith(("./", "../")) for path in layer.GetCompositionAssetDependencies())
        assert all(Path(asset).is_relative_to(EXAMPLES) for asset in assets)


def test_entry_points_identify_themselves() -> None:
    for name in ASSETS:
        stage = open_asset(name)
        prim = stage.GetDefaultPrim()
        info = prim.GetAssetInfo()
        assert info["identifier"]
        assert info["version"]
        assert Usd.ModelAPI(prim).GetKind() == ("assembly" if name in ("world", "fleet") else "component")


def test_every_layer_states_its_units() -> None:
    for path in LAYERS:
        layer = Sdf.Layer.FindOrOpen(str(path))
        root = layer.pseudoRoot
        for key, value in {
            "metersPerUnit": 1.0,
            "kilogramsPerUnit": 1.0,
            "timeCodesPerSecond": 1.0,
            "upAxis": "Z",
        }.items():
            assert root.HasInfo(key), (path, key)
            assert root.GetInfo(key) == value, path
        assert layer.GetPrimAtPath(f"/{layer.defaultPrim}")


def test_the_gripper_has_a_default_and_changes_the_robot() -> None:
    stage = open_asset("arm")
    default = stage.GetDefaultPrim().GetVariantSet("gripper")
    assert default.GetVariantSelection() == "parallel"
    assert sorted(default.GetVariantNames()) == sorted(GRIPPERS)
    tools = {}
    for choice in GRIPPERS:
        stage = open_asset("arm", choice)
        children = {child.GetName() for child in stage.GetPrimAtPath(WRIST).GetChildren()}
        tools[choice] = children - {"visual", "collision", "tool0"}
    assert tools == {
        "none": set(),
        "parallel": {"gripper_mount_joint", "gripper_base"},
        "suction": {"gripper_mount_joint", "suction_gripper"},
    }


# --------------------------------------------------------------------------------------------------- layers


def opinions(layer: Sdf.Layer) -> Iterator[tuple[str, str]]:
    """Yield (path, what) for each applied schema, typed definition and property that a layer speaks of."""
    found: list[tuple[str, str]] = []

    def visit(path: Sdf.Path) -> None:
        spec = layer.GetObjectAtPath(path)
        if isinstance(spec, Sdf.PrimSpec):
            schemas = spec.GetInfo("apiSchemas")
            items = [*schemas.GetAddedOrExplicitItems(), *schemas.deletedItems] if schemas else []
            found.extend((str(path), item) for item in items)
            if spec.typeName:
                found.append((str(path), spec.typeName))
        elif isinstance(spec, Sdf.PropertySpec):
            found.append((str(path), spec.name))

    layer.Traverse("/", visit)
    yield from found


ROS = ("Ros", "ros:")
PHYSICS = ("Physics", "physics:", "drive:")
OWNERS = {
    "ros.usda": ROS,
    "physics.usda": PHYSICS,
    "sensors.usda": ("usd_ros_bridge:camera:", "usd_ros_bridge:lidar:", "usd_ros_bridge:diff_drive:"),
    "grippers.usda": ("usd_ros_bridge:gripper:",),
    "physx.usda": ("Physx", "physx"),
    "newton.usda": ("Newton", "newton:"),
}


def test_each_kind_of_opinion_stays_in_its_own_layer() -> None:
    for path, (owner, prefixes) in itertools.product(LAYERS, OWNERS.items()):
        here = [what for what in opinions(Sdf.Layer.FindOrOpen(str(path))) if what[1].startswith(prefixes)]
        if path.name == owner:
            assert here, f"{path} says nothing of what it is for"
        else:
            assert here == [], f"{path}: belongs in {owner}"


def kinematics(stage: Usd.Stage) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (str(prim.GetPath()), prim.GetTypeName(), tuple(applied(prim)))
        for prim in stage.Traverse()
        if prim.IsA(UsdPhysics.Joint) or any(api.startswith((*ROS, *PHYSICS)) for api in applied(prim))
    ]


@pytest.mark.parametrize("name", ASSETS)
def test_payloads_hold_geometry_only(name: str) -> None:
    full, light = open_asset(name), open_asset(name, load=Usd.Stage.LoadNone)
    assert kinematics(full) == kinematics(light)
    assert kinematics(full)
    meshes = [prim for prim in light.Traverse() if prim.IsA(UsdGeom.Mesh)]
    assert meshes == [], "heavy data loads without payloads"
    loaded, always = ({str(prim.GetPath()) for prim in stage.Traverse()} for stage in (full, light))
    hidden = loaded - always
    assert all("visual" in path.split("/") for path in hidden)
    assert hidden


def test_the_committed_meshes_are_what_the_script_writes() -> None:
    spec = importlib.util.spec_from_file_location(
        "make_example_meshes", ROOT / "tools" / "make_example_meshes.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, meshes in (("rover", module.rover()), ("arm", module.arm())):
        stage = Usd.Stage.Open(str(EXAMPLES / name / "geometries.usdc"))
        assert {prim.GetName() for prim in stage.Traverse()} == set(meshes)
        for mesh, (points, faces, normals) in meshes.items():
            schema = UsdGeom.Mesh(stage.GetPrimAtPath(f"/{mesh}"))
            np.testing.assert_allclose(schema.GetPointsAttr().Get(), points, atol=1e-6)
            np.testing.assert_allclose(schema.GetNormalsAttr().Get(), normals, atol=1e-6)
            assert list(schema.GetFaceVertexIndicesAttr().Get()) == [
                index for face in faces for index in face
            ]


@pytest.mark.parametrize("name", ["rover", "arm"])
def test_meshes_face_outwards(name: str) -> None:
    stage = Usd.Stage.Open(str(EXAMPLES / name / "geometries.usdc"))
    for prim in stage.Traverse():
        mesh = UsdGeom.Mesh(prim)
        points = np.array(mesh.GetPointsAttr().Get(), dtype=float)
        normals = np.array(mesh.GetNormalsAttr().Get(), dtype=float)
        indices = iter(mesh.GetFaceVertexIndicesAttr().Get())
        volume = 0.0
        for count in mesh.GetFaceVertexCountsAttr().Get():
            face = list(itertools.islice(indices, count))
            winding = np.cross(points[face[1]] - points[face[0]], points[face[2]] - points[face[0]])
            assert winding @ normals[face].mean(axis=0) > 0.0, prim.GetPath()
            for second, third in itertools.pairwise(face[1:]):
                volume += points[face[0]] @ np.cross(points[second], points[third]) / 6.0
        assert volume > 0.0, prim.GetPath()


# ------------------------------------------------------------------------------------------------ relations


def test_relationship_targets_exist(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        checked = 0
        for prim in stage.Traverse():
            for relationship in prim.GetAuthoredRelationships():
                for target in relationship.GetTargets():
                    assert stage.GetObjectAtPath(target), f"{relationship.GetPath()} -> {target}"
                    checked += 1
        assert checked


def test_interfaces_of_the_rover() -> None:
    stage = open_asset("rover")
    assert topics_of(stage) == {
        "/rover/Interfaces/joint_states": ("publisher", "joint_states", "sensor_msgs/msg/JointState", 50.0),
        "/rover/Interfaces/cmd_vel": ("subscription", "cmd_vel", "geometry_msgs/msg/Twist", None),
        "/rover/Interfaces/odom": ("publisher", "odom", "nav_msgs/msg/Odometry", 50.0),
        "/rover/lidar_link": ("publisher", "scan", "sensor_msgs/msg/LaserScan", 10.0),
        "/rover/imu_link": ("publisher", "imu", "sensor_msgs/msg/Imu", 200.0),
        f"{OPTICAL}/image_raw": ("publisher", "image_raw", "sensor_msgs/msg/Image", 15.0),
        f"{OPTICAL}/camera_info": ("publisher", "camera_info", "sensor_msgs/msg/CameraInfo", 15.0),
    }
    assert calls_of(stage) == {
        "/rover/headlights/set_headlights": ("service", "server", "set_headlights", "std_srvs/srv/SetBool")
    }


OPTICAL = "/rover/camera_link/camera/camera_optical_frame"


def topics_of(stage: Usd.Stage) -> dict[str, tuple]:
    return {
        str(prim.GetPath()): tuple(
            prim.GetAttribute(f"ros:topic:{key}").Get() for key in ("role", "name", "type", "publish_rate")
        )
        for prim in stage.Traverse()
        if "RosTopicAPI" in applied(prim)
    }


def calls_of(stage: Usd.Stage) -> dict[str, tuple]:
    return {
        str(prim.GetPath()): (
            kind,
            *(prim.GetAttribute(f"ros:{kind}:{key}").Get() for key in ("role", "name", "type")),
        )
        for prim in stage.Traverse()
        for kind, schema in (("service", "RosServiceAPI"), ("action", "RosActionAPI"))
        if schema in applied(prim)
    }


@pytest.mark.parametrize("gripper", GRIPPERS)
def test_interfaces_of_the_arm(gripper: str) -> None:
    stage = open_asset("arm", gripper)
    assert topics_of(stage) == {
        "/arm/Interfaces/joint_states": ("publisher", "joint_states", "sensor_msgs/msg/JointState", 100.0),
        "/arm/Interfaces/joint_commands": (
            "subscription",
            "joint_commands",
            "sensor_msgs/msg/JointState",
            None,
        ),
        "/arm/Interfaces/joint_trajectory": (
            "subscription",
            "joint_trajectory_controller/joint_trajectory",
            "trajectory_msgs/msg/JointTrajectory",
            None,
        ),
    }
    extra = {
        "none": {},
        "parallel": {
            "/arm/Interfaces/gripper_cmd": (
                "action",
                "server",
                "gripper_controller/gripper_cmd",
                "control_msgs/action/ParallelGripperCommand",
            )
        },
        "suction": {"/arm/Interfaces/vacuum": ("service", "server", "vacuum", "std_srvs/srv/SetBool")},
    }[gripper]
    assert calls_of(stage) == {
        "/arm/Interfaces/follow_joint_trajectory": (
            "action",
            "server",
            "joint_trajectory_controller/follow_joint_trajectory",
            "control_msgs/action/FollowJointTrajectory",
        ),
        **extra,
    }
    reported = stage.GetPrimAtPath("/arm/Controllers/joint_state_broadcaster").GetRelationship(
        "ros:joint_state_broadcaster:joints"
    )
    names = [target.name for target in reported.GetTargets()]
    fingers = ["left_finger_joint", "right_finger_joint"] if gripper == "parallel" else []
    assert names == [f"joint_{i}" for i in range(1, 7)] + fingers


def test_namespaces_of_the_fleet() -> None:
    stage = open_asset("fleet")
    spaces = {
        str(prim.GetPath()): prim.GetAttribute("ros:context:namespace").Get()
        for prim in stage.Traverse()
        if "RosContextAPI" in applied(prim)
    }
    assert spaces == {
        "/Fleet/rover_1": "rover_1",
        "/Fleet/rover_1/camera_left": "camera_left",
        "/Fleet/rover_1/camera_right": "camera_right",
        "/Fleet/rover_2": "rover_2",
        "/Fleet/arm": "arm",
    }
    for prim in stage.Traverse():
        assert not (prim.IsInstanceable() and any(api.startswith(ROS) for api in applied(prim)))


def test_frame_ids_are_unique_within_each_robot() -> None:
    stage = open_asset("fleet")
    for robot in ("rover_1", "rover_2", "arm"):
        ids = [
            prim.GetAttribute("ros:frame:id").Get() or prim.GetName()
            for prim in Usd.PrimRange(stage.GetPrimAtPath(f"/Fleet/{robot}"))
            if {"RosFrameAPI", "RosContextAPI", "PhysicsRigidBodyAPI"} & set(applied(prim))
        ]
        assert len(ids) == len(set(ids)), ids


# -------------------------------------------------------------------------------------------------- physics


def frame(position: Gf.Vec3f, rotation: Gf.Quatf) -> Gf.Matrix4d:
    matrix = Gf.Matrix4d(1.0)
    matrix.SetRotateOnly(Gf.Quatd(rotation))
    return matrix.SetTranslateOnly(Gf.Vec3d(position))


def test_both_sides_of_every_joint_agree_at_rest(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        cache = UsdGeom.XformCache()
        for joint in joints_of(stage):
            sides = []
            for rel, position, rotation in (
                (joint.GetBody0Rel(), joint.GetLocalPos0Attr(), joint.GetLocalRot0Attr()),
                (joint.GetBody1Rel(), joint.GetLocalPos1Attr(), joint.GetLocalRot1Attr()),
            ):
                targets = rel.GetTargets()
                assert len(targets) <= 1
                body = (
                    cache.GetLocalToWorldTransform(stage.GetPrimAtPath(targets[0]))
                    if targets
                    else Gf.Matrix4d(1.0)
                )
                sides.append(np.array(frame(position.Get(), rotation.Get()) * body))
            np.testing.assert_allclose(sides[0], sides[1], atol=1e-6, err_msg=str(joint.GetPath()))


def test_joints_join_each_body_once_and_to_its_parent(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        children: list[str] = []
        for joint in joints_of(stage):
            child = stage.GetPrimAtPath(joint.GetBody1Rel().GetTargets()[0])
            assert child.HasAPI(UsdPhysics.RigidBodyAPI)
            children.append(str(child.GetPath()))
            if parent := joint.GetBody0Rel().GetTargets():
                assert parent[0] == child.GetPath().GetParentPath()
            assert joint.GetPrim().GetParent() == child.GetParent(), (
                "REP 0158 section 1.3: next to the child link"
            )
            assert joint.GetPrim().GetAttribute("ros:joint:name").Get() == joint.GetPrim().GetName()
        assert len(children) == len(set(children))


def test_limits_are_authored_and_hold_the_rest_position(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        for joint in joints_of(stage):
            prim = joint.GetPrim()
            if not (prim.IsA(UsdPhysics.RevoluteJoint) or prim.IsA(UsdPhysics.PrismaticJoint)):
                continue
            lower, upper = prim.GetAttribute("physics:lowerLimit"), prim.GetAttribute("physics:upperLimit")
            assert lower.HasAuthoredValue()
            assert upper.HasAuthoredValue()
            assert lower.Get() <= 0.0 <= upper.Get()
            assert lower.Get() < upper.Get()
            assert np.isinf(lower.Get()) == np.isinf(upper.Get()) == ("wheel" in prim.GetName())


def test_bodies_have_possible_masses_and_inertias(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        for prim in bodies_of(stage):
            path = prim.GetPath()
            api = UsdPhysics.MassAPI(prim)
            for attribute in (api.GetMassAttr(), api.GetDiagonalInertiaAttr(), api.GetCenterOfMassAttr()):
                assert attribute.HasAuthoredValue(), path
            mass, inertia = api.GetMassAttr().Get(), np.array(api.GetDiagonalInertiaAttr().Get())
            assert mass > 0.0, path
            assert np.all(inertia > 0.0), path
            assert 2.0 * inertia.max() <= inertia.sum() * (1.0 + 1e-6), f"{path}: the triangle inequality"
            axes = api.GetPrincipalAxesAttr().Get()
            assert Gf.IsClose(Gf.Quatd(axes).GetLength(), 1.0, 1e-6), path
            np.testing.assert_allclose(inertia, inertia_of_collider(prim, mass), rtol=0.05, err_msg=str(path))


def inertia_of_collider(body: Usd.Prim, mass: float) -> np.ndarray:
    """Inertia in kg m2 of the body's one collider, as a solid (a capsule as a cylinder)."""
    scope = body.GetChild("collision")
    (collider,) = [prim for prim in Usd.PrimRange(scope) if prim.HasAPI(UsdPhysics.CollisionAPI)]
    if collider.IsA(UsdGeom.Cube):
        x, y, z = np.array(collider.GetAttribute("xformOp:scale").Get()) ** 2
        return mass / 12.0 * np.array([y + z, x + z, x + y])
    radius = collider.GetAttribute("radius").Get()
    if collider.IsA(UsdGeom.Sphere):
        return np.full(3, 0.4 * mass * radius**2)
    height = collider.GetAttribute("height").Get() + (2.0 * radius if collider.IsA(UsdGeom.Capsule) else 0.0)
    inertia = np.full(3, mass * (3.0 * radius**2 + height**2) / 12.0)
    inertia["XYZ".index(collider.GetAttribute("axis").Get())] = mass * radius**2 / 2.0
    return inertia


def test_colliders_are_guides_with_a_contact_material(stages: list[Usd.Stage]) -> None:
    for stage in stages:
        for prim in stage.Traverse():
            if not prim.HasAPI(UsdPhysics.CollisionAPI):
                continue
            assert UsdGeom.Imageable(prim).GetPurposeAttr().Get() == UsdGeom.Tokens.guide
            assert prim.GetAttribute("physics:approximation").Get() == "none"
            material = UsdShade.MaterialBindingAPI(prim).GetDirectBinding("physics").GetMaterial().GetPrim()
            for key in ("staticFriction", "dynamicFriction", "restitution"):
                assert material.GetAttribute(f"physics:{key}").HasAuthoredValue(), prim.GetPath()


def test_one_articulation_root_per_robot() -> None:
    for name, expected in (
        ("rover", ["/rover"]),
        ("world", ["/World/rover"]),
        ("arm", ["/arm"]),
        ("fleet", ["/Fleet/arm", "/Fleet/rover_1", "/Fleet/rover_2"]),
    ):
        stage = open_asset(name)
        roots = [
            str(prim.GetPath()) for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.ArticulationRootAPI)
        ]
        assert sorted(roots) == expected


def test_the_second_finger_follows_the_first() -> None:
    stage = open_asset("arm", "parallel")
    leader, follower = (
        stage.GetPrimAtPath(f"{WRIST}/gripper_base/{side}_finger_joint") for side in ("left", "right")
    )
    assert "NewtonMimicAPI" in applied(follower)
    assert follower.GetRelationship("newton:mimicJoint").GetTargets() == [leader.GetPath()]
    assert follower.GetAttribute("newton:mimicCoef1").Get() == 1.0
    assert leader.HasAPI(UsdPhysics.DriveAPI, "linear")
    assert not follower.HasAPI(UsdPhysics.DriveAPI, "linear")
    for limit in ("physics:lowerLimit", "physics:upperLimit"):
        assert leader.GetAttribute(limit).Get() == follower.GetAttribute(limit).Get()


def test_the_differential_drive_measures_what_is_there() -> None:
    stage = open_asset("rover")
    controller = stage.GetPrimAtPath("/rover/Controllers/diff_drive")
    left, right = (UsdPhysics.Joint.Get(stage, f"/rover/{side}_wheel_joint") for side in ("left", "right"))
    separation = left.GetLocalPos0Attr().Get()[1] - right.GetLocalPos0Attr().Get()[1]
    assert controller.GetAttribute("ros:diff_drive:wheel_separation").Get() == pytest.approx(separation)
    tyre = UsdGeom.Cylinder.Get(stage, "/rover/left_wheel/collision/tyre")
    radius = controller.GetAttribute("ros:diff_drive:wheel_radius").Get()
    assert radius == tyre.GetRadiusAttr().Get() == pytest.approx(left.GetLocalPos0Attr().Get()[2])
    linear, angular = (
        controller.GetAttribute(f"ros:diff_drive:{key}:max_velocity").Get()
        for key in ("linear:x", "angular:z")
    )
    fastest = np.degrees((linear + angular * separation / 2.0) / radius)
    assert left.GetPrim().GetAttribute("physxJoint:maxJointVelocity").Get() >= fastest


@pytest.mark.parametrize(
    ("name", "link", "optical"),
    [
        ("rover", "/rover/camera_link", OPTICAL),
        ("camera_module", "/camera_module", "/camera_module/camera/optical_frame"),
    ],
)
def test_optical_frames_look_forward(name: str, link: str, optical: str) -> None:
    stage = open_asset(name)
    cache = UsdGeom.XformCache()
    link_from_optical = cache.ComputeRelativeTransform(
        stage.GetPrimAtPath(optical), stage.GetPrimAtPath(link)
    )[0]
    x, y, z = (link_from_optical.TransformDir(Gf.Vec3d(*axis)) for axis in np.eye(3))
    np.testing.assert_allclose([x, y, z], [[0, -1, 0], [0, 0, -1], [1, 0, 0]], atol=1e-6)


def test_camera_pixels_are_square() -> None:
    stage = open_asset("fleet")
    cameras = [UsdGeom.Camera(prim) for prim in stage.Traverse() if prim.IsA(UsdGeom.Camera)]
    assert len(cameras) == 4
    for camera in cameras:
        width, height = camera.GetPrim().GetAttribute("usd_ros_bridge:camera:resolution").Get()
        aspect = camera.GetHorizontalApertureAttr().Get() / camera.GetVerticalApertureAttr().Get()
        assert aspect == pytest.approx(width / height, rel=1e-4)
