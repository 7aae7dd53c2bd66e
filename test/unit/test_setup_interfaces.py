"""The interface packages that `make setup` builds are the released ones: same fields, same constants, same hashes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.project

ament_index_python = pytest.importorskip("ament_index_python", reason="ROS 2 is not installed")
typesys = pytest.importorskip("rosbags.typesys", reason="rosbags is not installed: make setup-tests")

ROOT = Path(__file__).resolve().parents[2]
# By the version of an installed package: the prefix of a pip environment does not say its distribution.
DISTRO = os.environ.get("ROS_DISTRO") or {"7": "jazzy", "9": "kilted"}[version("ros-rclpy").partition(".")[0]]
STORE = typesys.get_typestore(typesys.Stores[f"ROS2_{DISTRO.upper()}"])
PACKAGES = ("tf2_msgs", "control_msgs", "simulation_interfaces", "rviz_resource_interfaces")
# rosbags reads `char` as uint8, which has another number in a type description.
CHAR_FIELDS = ("service_msgs/msg/ServiceEventInfo",)
INDEX_FIELDS = ("index", "multi_dof_index")


def interfaces(package: str) -> list[str]:
    content, _prefix = ament_index_python.get_resource("rosidl_interfaces", package)
    return [line for line in content.splitlines() if not line.endswith(".idl")]


def described(package: str, interface: str) -> dict[str, str]:
    """Type name -> RIHS01 hash, as the generator described an interface and all it is made of."""
    share = Path(ament_index_python.get_package_share_directory(package))
    content = json.loads((share / interface).with_suffix(".json").read_text(encoding="utf-8"))
    return {row["type_name"]: row["hash_string"] for row in content["type_hashes"]}


def all_hashes() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for interface in interfaces(package):
            yield from described(package, interface).items()


def test_messages_known_elsewhere_have_the_released_hashes() -> None:
    compared = 0
    for name, type_hash in set(all_hashes()):
        if name in STORE.fielddefs and name not in CHAR_FIELDS:
            assert STORE.hash_rihs01(name) == type_hash, name
            compared += 1
    # tf2_msgs itself, and the std, geometry, sensor and trajectory messages that everything here is made of.
    assert compared >= 15
    assert "tf2_msgs/msg/TFMessage" in dict(all_hashes())


def test_messages_of_other_packages_hash_as_their_own_packages_say() -> None:
    for name, type_hash in set(all_hashes()):
        package, kind, message = name.split("/")
        if package not in PACKAGES and kind == "msg":
            assert described(package, f"msg/{message}.msg")[name] == type_hash, name


def test_transform_message_has_the_hash_of_every_release() -> None:
    expected = "RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087"
    assert described("tf2_msgs", "msg/TFMessage.msg")["tf2_msgs/msg/TFMessage"] == expected


def test_the_service_of_rviz_has_the_hash_of_kilted() -> None:
    """As the released package's own generated code has it (get_resource__description.c)."""
    expected = "RIHS01_f21666bca3a1354cd35a1d747d5c66a699a6a9ce79729550106d00825835a3a6"
    name = "rviz_resource_interfaces/srv/GetResource"
    assert described("rviz_resource_interfaces", "srv/GetResource.srv")[name] == expected


@pytest.mark.parametrize("package", ["control_msgs", "simulation_interfaces"])
def test_messages_hash_as_an_independent_parser_says(package: str) -> None:
    """These packages are in no type store: rosbags parses our definitions and hashes them by its own rules."""
    share = Path(ament_index_python.get_package_share_directory(package))
    names = [interface for interface in interfaces(package) if interface.endswith(".msg")]
    for interface in names:
        name = f"{package}/msg/{Path(interface).stem}"
        STORE.register(typesys.get_types_from_msg((share / interface).read_text(encoding="utf-8"), name))
    for interface in names:
        name = f"{package}/msg/{Path(interface).stem}"
        assert STORE.hash_rihs01(name) == described(package, interface)[name]
    assert len(names) >= 8


def test_simulation_interfaces_are_those_of_both_distributions() -> None:
    """1.5.1 and 1.6.1 agree; 2.1 has flags in SetEntityState, which other releases' clients would not send."""
    from simulation_interfaces.msg import Bounds, Result, SimulationState, SimulatorFeatures
    from simulation_interfaces.srv import SetEntityState, SetSimulationState, StepSimulation

    assert list(SetEntityState.Request.get_fields_and_field_types()) == ["entity", "state"]
    assert StepSimulation.Request().steps == 1
    assert (Result.RESULT_FEATURE_UNSUPPORTED, Result.RESULT_OK, Result.RESULT_OPERATION_FAILED) == (0, 1, 4)
    assert (SimulationState.STATE_STOPPED, SimulationState.STATE_PLAYING, SimulationState.STATE_PAUSED) == (
        0,
        1,
        2,
    )
    assert (Bounds.TYPE_BOX, Bounds.TYPE_SPHERE) == (1, 3)
    assert (SimulatorFeatures.ENTITY_STATE_GETTING, SimulatorFeatures.STEP_SIMULATION_ACTION) == (10, 33)
    assert SetSimulationState.Response.ALREADY_IN_TARGET_STATE == 101


def test_feedback_of_follow_joint_trajectory_fits_the_distribution() -> None:
    """control_msgs 6.3.0 added the indices of the points in use; Jazzy has 5.x."""
    from control_msgs.action import FollowJointTrajectory

    fields = FollowJointTrajectory.Feedback.get_fields_and_field_types()
    assert [name in fields for name in INDEX_FIELDS] == [DISTRO != "jazzy"] * 2
    assert list(fields)[:5] == ["header", "joint_names", "desired", "actual", "error"]


def test_constants() -> None:
    from control_msgs.action import FollowJointTrajectory
    from control_msgs.msg import JointComponentTolerance
    from tf2_msgs.msg import TF2Error

    result = FollowJointTrajectory.Result
    assert (result.SUCCESSFUL, result.INVALID_GOAL, result.INVALID_JOINTS) == (0, -1, -2)
    assert (result.OLD_HEADER_TIMESTAMP, result.PATH_TOLERANCE_VIOLATED, result.GOAL_TOLERANCE_VIOLATED) == (
        -3,
        -4,
        -5,
    )
    assert (TF2Error.NO_ERROR, TF2Error.TIMEOUT_ERROR, TF2Error.TRANSFORM_ERROR) == (0, 5, 6)
    assert (JointComponentTolerance.X_AXIS, JointComponentTolerance.ROTATION) == (1, 5)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_interface_has_its_python_class_and_type_support(package: str) -> None:
    from rclpy.type_support import check_for_type_support

    for interface in interfaces(package):
        kind, name = Path(interface).parent.name, Path(interface).stem
        message_class = getattr(importlib.import_module(f"{package}.{kind}"), name)
        check_for_type_support(message_class)


def test_definitions_stay_out_of_colcon_workspaces() -> None:
    assert (ROOT / "interfaces" / "COLCON_IGNORE").exists()


def test_plain_shell_finds_the_packages() -> None:
    """Nothing is sourced, nothing exported: the environment's Python alone knows its prefix and leaks nothing."""
    if "AMENT_PREFIX_PATH" in os.environ and os.environ.get("ROS_DISTRO"):
        pytest.skip("a ROS 2 environment is sourced: its variables are the user's")
    code = (
        "import os, rclpy, ament_index_python as index\n"
        "print(index.get_resource('rosidl_interfaces', 'tf2_msgs')[1])\n"
        "print(index.get_package_share_directory('usd_ros_bridge'))\n"
        "print(os.environ.get('LD_LIBRARY_PATH'), os.environ.get('_ROS_WHEELS_BOOTSTRAP_COMPLETE'))\n"
    )
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True)
    prefix, share, leaked = done.stdout.splitlines()
    assert (prefix, share) == (sys.prefix, f"{sys.prefix}/share/usd_ros_bridge")
    assert leaked == "None None"
