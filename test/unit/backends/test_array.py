"""The array backend: hosts' arrays by reference, by copy, in their order, and what they get back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from builders.plans import gripper, rover
from case_tables import each_case
from open_backends import OpenBackend
from usd_ros_bridge import ArrayBackend, SensorBackend, SensorSample, rows_of
from usd_ros_bridge.backends.base import Backend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan, TopicPlan
from usd_ros_bridge.model.state import Commands
from usd_ros_bridge.spatial.transforms import normalized

PLAN = gripper(rover()).build()
LAYOUT = PLAN.layout
DOFS, BODIES = len(LAYOUT.dofs), len(LAYOUT.bodies)
RANDOM = np.random.default_rng(7)


def opened(backend: ArrayBackend, plan: BridgePlan = PLAN, **options: str) -> list[tuple[str, str]]:
    return OpenBackend(plan, backend, **options).reports


def random_poses(count: int = BODIES) -> np.ndarray:
    poses = RANDOM.normal(size=(count, 7))
    poses[:, 3:] = normalized(poses[:, 3:])
    return poses


def publisher(path: str) -> TopicPlan:
    return TopicPlan(path=path, role="publisher", name=path, type="sensor_msgs/msg/LaserScan", robot=0)


def nothing() -> Commands:
    return Commands(LAYOUT)


# --- By reference --------------------------------------------------------------------------------------------------


def test_it_is_a_backend_with_sensors() -> None:
    backend = ArrayBackend(LAYOUT)
    assert isinstance(backend, Backend)
    assert isinstance(backend, SensorBackend)


def test_float64_arrays_with_the_layouts_rows_are_used_without_a_copy() -> None:
    arrays: dict[str, Any] = {
        "body_pose": random_poses(),
        "joint_position": RANDOM.normal(size=DOFS),
        "joint_velocity": RANDOM.normal(size=DOFS),
        "joint_effort": RANDOM.normal(size=DOFS),
        "body_twist": RANDOM.normal(size=(BODIES, 6)),
    }
    backend = ArrayBackend(LAYOUT, **arrays)
    opened(backend)
    state = backend.step(1, nothing())
    for name, array in arrays.items():
        assert getattr(state, name) is array
    arrays["joint_position"][:] = 0.25
    assert backend.step(2, nothing()).joint_position[0] == 0.25


def test_the_hosts_arrays_are_never_written() -> None:
    arrays: dict[str, Any] = {
        "body_pose": random_poses(),
        "joint_position": RANDOM.normal(size=DOFS),
        "joint_velocity": RANDOM.normal(size=DOFS).astype(np.float32),
    }
    for array in arrays.values():
        array.flags.writeable = False
    backend = ArrayBackend(LAYOUT, **arrays)
    opened(backend)
    for time_ns in range(3):
        backend.step(time_ns, nothing())
    backend.reset()


def test_a_getter_follows_swapped_buffers_and_touches_neither() -> None:
    buffers = [np.full(DOFS, 1.0), np.full(DOFS, 2.0, dtype=np.float32), np.full(DOFS, 3.0)]
    turn = iter([0, 0, 1, 2, 1])
    backend = ArrayBackend(LAYOUT, joint_position=lambda: buffers[next(turn)])
    opened(backend)
    seen = [float(backend.step(tick, nothing()).joint_position[0]) for tick in range(4)]
    assert seen == [1.0, 2.0, 3.0, 2.0]
    assert [buffer[0] for buffer in buffers] == [1.0, 2.0, 3.0]


# --- Other memory --------------------------------------------------------------------------------------------------


class ByInterface:
    """An array of a library that speaks `__array_interface__` alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__


class ByDlpack:
    """An array of a library that speaks DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


@each_case("wrap", [ByInterface, ByDlpack])
@each_case("dtype", [np.float64, np.float32])
def test_other_libraries_arrays_are_read_anew_in_each_step(wrap: type, dtype: type) -> None:
    positions = np.zeros(DOFS, dtype=dtype)
    poses = random_poses().astype(dtype)
    backend = ArrayBackend(LAYOUT, joint_position=wrap(positions), body_pose=wrap(poses))
    opened(backend)
    positions[:] = 0.5
    poses[:, :3] = 7.0
    state = backend.step(1, nothing())
    assert_array_equal(state.joint_position, 0.5)
    assert_array_equal(state.body_pose[:, :3], 7.0)
    assert state.body_pose.dtype == np.float64


def test_single_precision_rotations_are_made_units() -> None:
    poses = random_poses().astype(np.float32)
    backend = ArrayBackend(LAYOUT, body_pose=poses)
    opened(backend)
    state = backend.step(1, nothing())
    assert_allclose(np.linalg.norm(state.body_pose[:, 3:], axis=1), 1.0, atol=1e-15)
    assert_allclose(state.body_pose, poses, atol=1e-6)


class OnDevice:
    """What a device array shows of itself before a copy; `get` is CuPy's, `cpu` PyTorch's, `numpy` Warp's."""

    def __init__(self, method: str, array: np.ndarray) -> None:
        self.__cuda_array_interface__ = {"shape": (DOFS,), "typestr": "<f4", "data": (0, False), "version": 3}
        setattr(self, method, array.copy)


@each_case("method", ["get", "cpu", "numpy"])
def test_device_arrays_are_copied_by_their_own_library(method: str) -> None:
    array = np.linspace(0.0, 1.0, DOFS, dtype=np.float32)
    backend = ArrayBackend(LAYOUT, joint_position=OnDevice(method, array))
    opened(backend)
    assert_array_equal(backend.step(1, nothing()).joint_position, array)


def test_a_device_array_that_nobody_copies_is_refused_in_one_line() -> None:
    backend = ArrayBackend(LAYOUT, joint_position=OnDevice("other", np.zeros(DOFS)))
    with pytest.raises(
        BackendError, match=r"^joint_position is in a device's memory .* hand over a callable"
    ) as caught:
        opened(backend)
    assert "\n" not in str(caught.value)


# --- Order ---------------------------------------------------------------------------------------------------------


@each_case("paired", [False, True])
@each_case("quaternion", ["xyzw", "wxyz"])
@each_case("dtype", [np.float64, np.float32])
def test_rows_and_quaternions_are_put_in_order(paired: bool, quaternion: Any, dtype: type) -> None:
    wanted = random_poses()
    rows = RANDOM.permutation(BODIES + 3)[:BODIES]
    host = np.zeros((BODIES + 3, 7), dtype=dtype)
    host[rows] = wanted if quaternion == "xyzw" else wanted[:, [0, 1, 2, 6, 3, 4, 5]]
    pose = (host[:, :3], host[:, 3:]) if paired else host
    backend = ArrayBackend(LAYOUT, body_pose=pose, quaternion=quaternion, body_rows=rows)
    opened(backend)
    assert not backend.capabilities.joint_driven
    assert_allclose(backend.step(1, nothing()).body_pose, wanted, atol=1e-12 if dtype == np.float64 else 1e-6)
    host[rows, :3] += 1.0
    moved = backend.step(2, nothing()).body_pose
    assert_allclose(moved[:, :3], wanted[:, :3] + 1.0, atol=1e-12 if dtype == np.float64 else 1e-6)


def test_quaternion_order_without_row_maps() -> None:
    wanted = random_poses()
    backend = ArrayBackend(LAYOUT, body_pose=wanted[:, [0, 1, 2, 6, 3, 4, 5]], quaternion="wxyz")
    opened(backend)
    assert_array_equal(backend.step(1, nothing()).body_pose, wanted)


def test_what_the_host_lacks_stays_at_rest_and_is_said() -> None:
    joint_rows = np.full(DOFS, -1)
    joint_rows[1] = 0
    body_rows = np.full(BODIES, -1)
    body_rows[0] = 1
    backend = ArrayBackend(
        LAYOUT,
        body_pose=random_poses(2),
        joint_position=np.array([0.01]),
        body_twist=np.ones((2, 6)),
        body_rows=body_rows,
        joint_rows=joint_rows,
    )
    reports = opened(backend)
    assert [kind for kind, _ in reports] == ["array.rest"]
    assert f"{DOFS - 1} degree(s) of freedom" in reports[0][1]
    assert backend.capabilities.joint_driven
    state = backend.step(1, nothing())
    assert state.joint_position[1] == 0.01
    others = np.arange(DOFS) != 1
    assert_array_equal(state.joint_position[others], LAYOUT.joint_position[others])
    assert_array_equal(state.body_pose[1:], LAYOUT.body_pose[1:])
    assert state.body_twist is not None
    assert_array_equal(state.body_twist, [[1.0] * 6] + [[0.0] * 6] * (BODIES - 1))


def test_velocities_may_have_indices_of_their_own() -> None:
    backend = ArrayBackend(
        LAYOUT,
        joint_position=np.arange(DOFS + 7.0),
        joint_velocity=np.arange(DOFS + 6.0),
        joint_rows=np.arange(DOFS) + 7,
        velocity_rows=np.arange(DOFS) + 6,
    )
    opened(backend)
    state = backend.step(1, nothing())
    assert_array_equal(state.joint_position, np.arange(DOFS) + 7)
    assert_array_equal(state.joint_velocity, np.arange(DOFS) + 6)
    assert np.isnan(state.joint_effort).all()
    assert state.body_twist is None


def test_rows_by_name() -> None:
    assert rows_of(["/a/x", "/a/y"], ["y", "z", "x"], key=lambda path: path[3:]).tolist() == [2, 0]
    assert rows_of(["x", "q"], ["y", "x"], partial=True).tolist() == [1, -1]
    assert rows_of([], []).shape == (0,)
    for names, host, message in (
        (["x", "q"], ["x"], "the host has no row for 'q'; it has 'x'"),
        (["x"], ["x", "x"], "the host has several rows for 'x'"),
        (["x", "x"], ["x", "y"], "'x': several entries of the layout"),
    ):
        with pytest.raises(BackendError, match=message):
            rows_of(names, host)


# --- Mistakes ------------------------------------------------------------------------------------------------------


@each_case(
    ("options", "message"),
    [
        ({"joint_position": np.zeros(DOFS + 1)}, r"joint_position has shape .* but must have \(\d+,\)"),
        ({"joint_position": np.zeros((DOFS, 1))}, "joint_position has shape"),
        ({"joint_position": np.float64(1.0)}, "joint_position has shape"),
        ({"joint_position": np.zeros(DOFS, dtype=complex)}, "joint_position holds complex128"),
        ({"joint_position": [0.0] * DOFS}, "joint_position is a list: it must be a numpy array"),
        ({"joint_position": lambda: None}, "joint_position is a NoneType"),
        ({"joint_position": np.zeros(2), "joint_rows": np.arange(DOFS)}, r"must have \(at least \d+,\)"),
        ({"joint_position": (np.zeros(DOFS), np.zeros(DOFS))}, "must be one array"),
        ({"body_pose": np.zeros((BODIES, 6))}, r"body_pose has shape .* but must have \(\d+, 7\)"),
        ({"body_pose": (np.zeros((BODIES, 3)), np.zeros((BODIES, 3)))}, r"body_pose\[1\] has shape"),
        ({"body_pose": (np.zeros((BODIES, 3)),)}, "a tuple of 1, but must be one array or a pair"),
        ({"joint_rows": np.zeros(DOFS)}, "joint_rows has shape .* type float64, but must be .* integers"),
        ({"joint_rows": [0]}, "joint_rows has shape"),
        ({"body_rows": np.full(BODIES, -2)}, "body_rows holds -2"),
        ({"quaternion": "zyxw"}, "quaternion 'zyxw' is not possible: xyzw or wxyz"),
    ],
)
def test_a_mistake_is_one_line_when_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackendError, match=message) as caught:
        opened(ArrayBackend(LAYOUT, **options))
    assert "\n" not in str(caught.value)


def test_another_plans_layout_is_refused() -> None:
    with pytest.raises(BackendError, match="layout of another plan"):
        opened(ArrayBackend(LAYOUT), rover().build())


def test_a_getter_that_changes_its_shape_raises_in_the_step() -> None:
    arrays = iter([np.zeros(DOFS), np.zeros(DOFS - 1)])
    backend = ArrayBackend(LAYOUT, joint_position=lambda: next(arrays))
    opened(backend)
    with pytest.raises(BackendError, match="joint_position has shape"):
        backend.step(1, nothing())


# --- Commands and sensors ------------------------------------------------------------------------------------------


def test_commands_reach_the_host_before_its_arrays_are_read() -> None:
    position = LAYOUT.joint_position.copy()

    def actuate(commands: Commands) -> None:
        np.copyto(position, commands.joint_position, where=~np.isnan(commands.joint_position))

    calls: list[int] = []
    backend = ArrayBackend(
        LAYOUT, joint_position=position, on_commands=lambda commands: (calls.append(1), actuate(commands))
    )
    opened(backend)
    commands = nothing()
    backend.step(1, commands)
    assert calls == []
    commands.joint_position[2] = 0.3
    assert backend.step(2, commands).joint_position[2] == 0.3
    assert calls == [1]


def test_the_newest_command_of_each_joint_and_body_holds() -> None:
    backend = ArrayBackend(LAYOUT)
    opened(backend)
    first, second = nothing(), nothing()
    first.joint_position[:2] = 0.1
    first.joint_effort[0] = 5.0
    first.body_twist[0] = 1.0
    first.body_pose[1] = [1, 2, 3, 0, 0, 0, 1]
    second.joint_velocity[0] = 2.0
    backend.step(1, first)
    assert backend.commands.body_pose[1, 0] == 1.0
    backend.step(2, second)
    held = backend.commands
    assert np.isnan(held.joint_position[0])
    assert np.isnan(held.joint_effort[0])
    assert held.joint_velocity[0] == 2.0
    assert held.joint_position[1] == 0.1
    assert_array_equal(held.body_twist[0], 1.0)
    assert np.isnan(held.body_pose).all(), "a jump is made once"
    backend.step(3, first)
    quiet = nothing()
    quiet.silent = True
    backend.step(4, quiet)
    assert np.isnan(held.body_pose).all(), "and not again where the runtime says that nothing is commanded"
    assert held.joint_position[0] == 0.1
    backend.step(5, second)
    backend.reset()
    assert np.isnan(held.joint_velocity).all()


def test_commands_may_be_dropped_and_resets_told() -> None:
    resets: list[int] = []
    backend = ArrayBackend(LAYOUT, commands=False, on_reset=lambda: resets.append(1))
    assert not backend.capabilities.commands
    opened(backend)
    backend.reset()
    assert resets == [1]


def test_sensors_give_arrays_once_and_the_last_ones_after_that() -> None:
    scans = iter([None, {"ranges": ByDlpack(np.ones(3, np.float32)), "angle_min": -1.0}, None])
    own = SensorSample(prim="/own", stamp_ns=5, arrays={"data": np.zeros((2, 2), np.uint8)})
    backend = ArrayBackend(LAYOUT, sensors={"/scan": lambda: next(scans), "/own": lambda: own})
    assert backend.capabilities.sensors == {"/scan", "/own"}
    opened(backend, replace(PLAN, topics=(publisher("/scan"), publisher("/own"))))
    backend.step(10, nothing())
    assert backend.sense("/scan") is None
    assert backend.sense("/own") is own
    backend.step(20, nothing())
    sample = backend.sense("/scan")
    assert sample is not None
    assert (sample.prim, sample.stamp_ns) == ("/scan", 20)
    assert_array_equal(sample.arrays["ranges"], np.ones(3, np.float32))
    assert sample.arrays["angle_min"].shape == ()
    backend.step(30, nothing())
    assert backend.sense("/scan") is sample


# --- Mistakes of hosts ---------------------------------------------------------------------------------------------


def test_a_sensor_at_an_unknown_prim_is_refused() -> None:
    plan = replace(PLAN, topics=(publisher("/rover/lidar"),))
    with pytest.raises(BackendError) as caught:
        opened(ArrayBackend(LAYOUT, sensors={"/rover/lidra": lambda: None}), plan)
    assert str(caught.value).startswith(
        "sensors: '/rover/lidra' is no prim path of a publisher; did you mean /rover/lidar?"
    )


def host_poses(kind: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Return poses of all bodies at rest, and how `ArrayBackend` gets them: in place, copied, or as a pair."""
    poses = np.zeros((BODIES, 7), np.float32 if kind == "single" else np.float64)
    poses[:, 3 if kind == "wxyz" else 6] = 1.0
    if kind == "pair":
        return poses, {"body_pose": (lambda: poses[:, :3], lambda: poses[:, 3:])}
    return poses, {"body_pose": poses, "quaternion": "wxyz" if kind == "wxyz" else "xyzw"}


@each_case("kind", ["in place", "wxyz", "pair", "single"])
@each_case("number", [0.0, np.nan])
def test_a_quaternion_without_a_direction_is_refused(kind: str, number: float) -> None:
    poses, options = host_poses(kind)
    poses[2, 3:] = number
    with pytest.raises(BackendError, match="which is no unit quaternion") as caught:
        opened(ArrayBackend(LAYOUT, **options))
    assert f" of {LAYOUT.bodies[2]} has the quaternion (" in str(caught.value)
    assert "\n" not in str(caught.value)


@each_case("kind", ["in place", "wxyz", "pair"])
def test_a_quaternion_that_loses_its_length_later_is_refused(kind: str) -> None:
    poses, options = host_poses(kind)
    backend = ArrayBackend(LAYOUT, **options)
    opened(backend)
    backend.step(1, nothing())
    poses[1, 3:] *= 1.001
    backend.step(2, nothing())
    poses[1, 3:] *= 1.1
    with pytest.raises(BackendError, match=f" of {LAYOUT.bodies[1]} has the quaternion"):
        backend.step(3, nothing())
    # Unknown poses are not sent, and keep no other body from being shown.
    poses[1, 3:] = np.nan
    backend.step(4, nothing())
