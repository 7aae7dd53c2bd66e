"""Bags played back by the playback backend, against the functions that they were recorded of."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rosbags", reason="rosbags is not installed: make setup-tests")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from rosbags.rosbag2 import CompressionMode, StoragePlugin

from bags import (
    SECOND,
    START,
    Message,
    joint_state,
    text,
    transforms,
    write_mcap,
    write_rosbag2,
)
from builders.plans import PlanBuilder, gripper, rover
from hidden_modules import start_without
from open_backends import OpenBackend
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.playback import PlaybackBackend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.message_types import JOINT_STATE
from usd_ros_bridge.model.plan import BridgePlan, TfOutput
from usd_ros_bridge.model.state import State
from usd_ros_bridge.options import BridgeOptions
from usd_ros_bridge.runtime.kinematics import Kinematics
from usd_ros_bridge.runtime.runtime import Runtime
from usd_ros_bridge.spatial.pose import Pose
from usd_ros_bridge.spatial.transforms import FloatArray, compose, exponential, pose, relative, to_matrix

pytestmark = pytest.mark.app

NAMES = ("left_wheel_joint", "right_wheel_joint", "mast_joint")
TOPIC = "/rover/joint_states"
MS = 1_000_000
same_folder = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Bench(OpenBackend):
    """An open backend; times are nanoseconds since its first step, which is at an odd time."""

    def __init__(self, plan: BridgePlan, bag: Path, **options: str) -> None:
        super().__init__(plan, PlaybackBackend(), first=1_234_567_891_000_000_007, bag=str(bag), **options)
        self.after(0)

    def positions(self, *elapsed_ns: int) -> FloatArray:
        return np.array([self.after(each).joint_position.copy() for each in elapsed_ns])

    @property
    def families(self) -> set[str]:
        return {kind.partition(":")[0] for kind in self.kinds}


def wheels(k: int) -> list[float]:
    return [0.3 * k, math.sin(0.2 * k), -0.05 * k]


def drive(count: int = 40, period: int = 20 * MS, **fields: Any) -> list[Message]:
    """Joint states of the rover, `count` of them."""
    return [
        joint_state(
            TOPIC,
            START + k * period,
            NAMES,
            wheels(k),
            [math.cos(k), k, 1.0],
            [k * 0.1, -k, math.nan],
            **fields,
        )
        for k in range(count)
    ]


def as_sqlite(path: Path, messages: Sequence[Message]) -> Path:
    return write_rosbag2(path, messages)


def as_mcap_directory(path: Path, messages: Sequence[Message]) -> Path:
    return write_rosbag2(path, messages, storage=StoragePlugin.MCAP)


def as_compressed_messages(path: Path, messages: Sequence[Message]) -> Path:
    return write_rosbag2(path, messages, compression=CompressionMode.MESSAGE)


def as_compressed_file(path: Path, messages: Sequence[Message]) -> Path:
    return write_rosbag2(path, messages, compression=CompressionMode.FILE)


def as_compressed_storage(path: Path, messages: Sequence[Message]) -> Path:
    return write_rosbag2(path, messages, storage=StoragePlugin.MCAP, compression=CompressionMode.STORAGE)


def as_compressed_mcap_file(path: Path, messages: Sequence[Message]) -> Path:
    return write_rosbag2(path, messages, storage=StoragePlugin.MCAP, compression=CompressionMode.FILE)


def as_database(path: Path, messages: Sequence[Message]) -> Path:
    return next(write_rosbag2(path, messages).glob("*.db3"))


def as_mcap(path: Path, messages: Sequence[Message]) -> Path:
    pytest.importorskip("mcap", reason="mcap is not installed: make setup-tests")
    return write_mcap(path.with_suffix(".mcap"), messages, chunk_size=2000)


WRITERS = [
    as_sqlite,
    as_mcap_directory,
    as_compressed_messages,
    as_compressed_file,
    as_compressed_storage,
    as_compressed_mcap_file,
    as_database,
    as_mcap,
]


@pytest.mark.parametrize("write", WRITERS)
def test_recorded_values_come_back_at_recorded_stamps(
    tmp_path: Path, write: Callable[[Path, Sequence[Message]], Path]
) -> None:
    messages = [each for pair in zip(drive(), [text("/chatter", START)] * 40, strict=True) for each in pair]
    bench = Bench(rover().build(), write(tmp_path / "bag", messages))
    for k in (0, 1, 7, 20, 38):
        state = bench.after(k * 20 * MS)
        assert_array_equal(state.joint_position, wheels(k))
        assert_array_equal(state.joint_velocity, [math.cos(k), k, 1.0])
        assert_array_equal(state.joint_effort, [k * 0.1, -k, math.nan])
    assert not bench.reports


def test_values_between_stamps_are_interpolated(tmp_path: Path) -> None:
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", drive()))
    state = bench.after(7 * 20 * MS + 5 * MS)
    assert_allclose(state.joint_position, 0.75 * np.array(wheels(7)) + 0.25 * np.array(wheels(8)))
    assert_allclose(state.joint_velocity, [0.75 * math.cos(7) + 0.25 * math.cos(8), 7.25, 1.0])
    assert_allclose(state.joint_effort, [0.725, -7.25, math.nan])


def test_without_velocities_these_are_the_slope(tmp_path: Path) -> None:
    messages = [joint_state(TOPIC, START + k * 20 * MS, NAMES, wheels(k)) for k in range(10)]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages), rate="2")
    state = bench.after(25 * MS)
    slope = (np.array(wheels(3)) - wheels(2)) / 0.02
    assert_allclose(state.joint_velocity, 2.0 * slope)
    assert_allclose(state.joint_position, 0.5 * (np.array(wheels(2)) + wheels(3)))
    assert np.isnan(state.joint_effort).all()


def test_start_end_rate_and_loop_count_from_the_first_message(tmp_path: Path) -> None:
    path = as_sqlite(tmp_path / "bag", drive())
    looped = Bench(rover().build(), path, start="0.2", end="0.6")
    assert_allclose(looped.positions(0, 100 * MS, 400 * MS, 500 * MS)[:, 0], [3.0, 4.5, 3.0, 4.5])
    once = Bench(rover().build(), path, loop="false", rate="0.5")
    assert_allclose(once.positions(0, 400 * MS, 1560 * MS, 9 * SECOND)[:, 0], [0.0, 3.0, 11.7, 11.7])
    assert_array_equal(once.after(1560 * MS).joint_velocity, 0.5 * np.array([math.cos(39), 39, 1.0]))
    assert_array_equal(once.after(1600 * MS).joint_velocity, [0.0, 0.0, 0.0])
    with pytest.raises(BackendError, match=r"the bag has 0 s to 0\.78 s"):
        Bench(rover().build(), path, start="1")


def test_a_loop_of_the_whole_bag_goes_back_after_its_last_message(tmp_path: Path) -> None:
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", drive()))
    length = 39 * 20 * MS
    for turn in (1, 2, 50):
        assert_array_equal(bench.after(turn * length).joint_position, wheels(0))
        assert_array_equal(bench.after(turn * length + 20 * MS).joint_position, wheels(1))


def test_a_reset_starts_over_and_another_plan_goes_on(tmp_path: Path) -> None:
    path = as_sqlite(tmp_path / "bag", drive())
    bench = Bench(rover().build(), path)
    assert_array_equal(bench.positions(100 * MS)[0], wheels(5))
    successor = bench.backend.new_instance()
    successor.open(
        BackendContext(plan=gripper(rover()).build(), report=lambda *_: None, options={"bag": str(path)})
    )
    successor.transfer_state(bench.backend)
    assert_array_equal(successor.step(bench.first + 120 * MS, bench.commands).joint_position[:3], wheels(6))
    bench.backend.reset()
    bench.first = 3
    assert_array_equal(bench.positions(0, 20 * MS), [wheels(0), wheels(1)])


# --- Which topics -------------------------------------------------------------------------------------------


def two_rovers() -> BridgePlan:
    return rover(rover(path="/one", namespace="/one"), path="/two", namespace="/two").build()


def test_each_robot_has_the_topic_of_its_namespace(tmp_path: Path) -> None:
    messages = [
        joint_state(topic, START, NAMES, [value] * 3)
        for topic, value in (("/one/joint_states", 1.0), ("/two/joint_states", 2.0))
    ]
    bench = Bench(two_rovers(), as_sqlite(tmp_path / "bag", messages))
    assert_array_equal(bench.after(0).joint_position, [1, 1, 1, 2, 2, 2])
    assert not bench.reports


def test_the_only_topic_is_that_of_the_only_robot(tmp_path: Path) -> None:
    messages = [joint_state("/joint_states", START, NAMES, [1.0, 2.0, 3.0])]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_array_equal(bench.after(0).joint_position, [1.0, 2.0, 3.0])
    assert not bench.reports


def test_one_of_several_topics_is_chosen_by_remap(tmp_path: Path) -> None:
    messages = [
        joint_state(topic, START, NAMES, [value] * 3) for topic, value in (("/a", 1.0), ("/commands", 2.0))
    ]
    path = as_sqlite(tmp_path / "bag", messages)
    with pytest.raises(
        BackendError, match=r"nothing that moves .*: /a, /commands; the option remap=RECORDED:=PLAYED"
    ):
        Bench(rover().build(), path)
    bench = Bench(rover().build(), path, remap="a:=rover/joint_states")
    assert_array_equal(bench.after(0).joint_position, [1.0, 1.0, 1.0])
    with pytest.raises(BackendError, match=r"has no topic '/commandss'; did you mean /commands\?"):
        Bench(rover().build(), path, remap="/commandss:=/rover/joint_states")
    two = Bench(rover().build(), path, remap="/a:=/rover/joint_states,/commands:=/rover/joint_state")
    assert "did you mean /rover/joint_states or " in two.messages["playback.bag_topics:/commands"]
    with pytest.raises(BackendError, match="RECORDED:=PLAYED, separated by commas"):
        Bench(rover().build(), path, remap="/a=/b")


def test_a_topic_of_the_plan_has_the_names_of_its_context(tmp_path: Path) -> None:
    builder = rover()
    builder.robots[0].topic("mast/joint_states", JOINT_STATE, "publisher", dofs=(2,), joints=("turn",))
    messages = [
        joint_state(TOPIC, START, NAMES[:2], [1.0, 2.0]),
        joint_state("/rover/mast/joint_states", START, ["turn"], [0.5]),
    ]
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", messages))
    assert_array_equal(bench.after(0).joint_position, [1.0, 2.0, 0.5])
    assert not bench.reports


def test_robots_and_joints_without_data_are_reported(tmp_path: Path) -> None:
    messages = [joint_state("/one/joint_states", START, [*NAMES[:2], "mast_jiont"], [1.0, 2.0, 3.0])]
    bench = Bench(two_rovers(), as_sqlite(tmp_path / "bag", messages))
    assert_array_equal(bench.after(0).joint_position, [1.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    assert bench.messages == {
        "playback.bag_joints:/one/joint_states": "/one/joint_states in the bag names joints that /one does not have: "
        "'mast_jiont' did you mean mast_joint?",
        "playback.bag_rest:/one": "joints of /one are not in the bag: mast_joint: they stay at rest",
        "playback.bag_rest:/two": "the bag has no joint states of /two (/two/joint_states); its topics of joint states "
        "and transforms: /one/joint_states; the option remap=RECORDED:=PLAYED plays a topic under another name: they "
        "stay at rest",
    }


def test_a_bag_without_any_motion_is_refused(tmp_path: Path) -> None:
    path = as_sqlite(tmp_path / "bag", [text("/chatter", START)])
    with pytest.raises(BackendError, match="has no topic of joint states or transforms"):
        Bench(rover().build(), path)
    empty = as_mcap_directory(tmp_path / "empty", [])
    with pytest.raises(BackendError, match="nothing that moves"):
        Bench(rover().build(), empty)


# --- What messages say --------------------------------------------------------------------------------------


def test_several_publishers_of_a_topic_are_merged(tmp_path: Path) -> None:
    messages = [
        each
        for k in range(10)
        for each in (
            joint_state(TOPIC, START + k * 20 * MS, NAMES[:2], wheels(k)[:2], [1.0, 2.0]),
            joint_state(TOPIC, START + k * 20 * MS + 5 * MS, NAMES[2:], [k * 0.1]),
        )
    ]
    # A third one names a joint of the first in a message of its own.
    messages.append(joint_state(TOPIC, START + 70 * MS, NAMES[:1], [50.0]))
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_allclose(
        bench.after(65 * MS).joint_position,
        [50.0 - 49.1 / 2, np.interp(3.25, [3, 4], [wheels(3)[1], wheels(4)[1]]), 0.3],
        atol=1e-12,
    )
    assert_allclose(bench.after(70 * MS).joint_position[0], 50.0)
    assert_allclose(bench.after(60 * MS).joint_velocity[:2], [1.0, 2.0])


def test_messages_of_unequal_lengths_are_ignored_with_a_report(tmp_path: Path) -> None:
    messages = [
        joint_state(TOPIC, START, NAMES, wheels(1)),
        joint_state(TOPIC, START + MS, NAMES, [], [1.0, 2.0, 3.0]),
        joint_state(TOPIC, START + 2 * MS, NAMES, [1.0], [1.0]),
        joint_state(TOPIC, START + 3 * MS, [], []),
        joint_state(TOPIC, START + 4 * MS, NAMES, wheels(2)),
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages), loop="false")
    assert_allclose(bench.after(2 * MS).joint_position, (np.array(wheels(1)) + wheels(2)) / 2.0)
    assert (
        "3 names and 0/3/0 positions/velocities/efforts" in bench.messages[f"playback.bag_messages:{TOPIC}"]
    )


def test_the_last_of_equal_stamps_counts_and_order_does_not(tmp_path: Path) -> None:
    keys = [(0, 0.0), (20, 2.0), (10, 1.0), (20, 3.0), (30, 4.0)]
    messages = [
        joint_state(TOPIC, START + t * MS, NAMES[:1], [value], log_ns=START + n)
        for n, (t, value) in enumerate(keys)
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_allclose(bench.positions(0, 10 * MS, 15 * MS, 20 * MS, 25 * MS)[:, 0], [0.0, 1.0, 2.0, 3.0, 3.5])


def test_positions_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    values = [[0.0, 0.0, 0.1], [math.nan, 1.0, math.inf], [2.0, 2.0, 0.3]]
    messages = [
        joint_state(TOPIC, START + k * 10 * MS, NAMES, value, [1.0, math.nan, math.inf])
        for k, value in enumerate(values)
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages), loop="false")
    state = bench.after(10 * MS)
    assert_allclose(state.joint_position, [1.0, 1.0, 0.2])
    # Velocities that are none are the slope.
    assert_allclose(state.joint_velocity, [1.0, 100.0, 10.0])


def test_a_mimic_joint_follows_its_leader_unless_it_is_recorded(tmp_path: Path) -> None:
    names = ["left_finger_joint", "right_finger_joint"]
    leader = [
        joint_state("/gripper/joint_states", START + k * 10 * MS, names[:1], [0.01 * k], [2.0])
        for k in range(3)
    ]
    both = [joint_state("/gripper/joint_states", START, names, [0.01, 0.03])]
    state = Bench(gripper().build(), as_sqlite(tmp_path / "leader", leader)).after(10 * MS)
    assert_allclose(state.joint_position, [0.3, 0.01, 0.011])
    assert_allclose(state.joint_velocity, [0.0, 2.0, 2.0])
    assert_allclose(
        Bench(gripper().build(), as_sqlite(tmp_path / "both", both)).after(0).joint_position,
        [0.3, 0.01, 0.03],
    )


def test_a_wrapped_angle_takes_the_short_way_and_a_counted_one_goes_on(tmp_path: Path) -> None:
    wrapped, counted, limited = [3.1, -3.1, 3.0], [3.1, 3.2, 30.0], [1.0, -1.0, 1.0]
    messages = [
        joint_state(TOPIC, START + k * 10 * MS, NAMES, [wrapped[k], counted[k], limited[k]]) for k in range(3)
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages), loop="false")
    turn = 2.0 * math.pi
    state = bench.after(5 * MS)
    assert_allclose(state.joint_position, [3.1 + (turn - 6.2) / 2.0, 3.15, 0.0])
    assert_allclose(state.joint_velocity, [(turn - 6.2) / 0.01, 10.0, -200.0])
    assert_allclose(bench.after(15 * MS).joint_position[1], 16.6)
    assert_array_equal(bench.after(10 * MS).joint_position, [-3.1, 3.2, -1.0])


def test_before_its_first_and_after_its_last_message_a_joint_holds(tmp_path: Path) -> None:
    messages = [
        *(joint_state(TOPIC, START + k * 10 * MS, NAMES[:1], [1.0 * k], [9.0]) for k in range(10)),
        *(joint_state(TOPIC, START + k * 10 * MS, NAMES[1:2], [1.0 * k], [9.0]) for k in range(3, 6)),
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_allclose(
        [bench.after(t * MS).joint_position[1] for t in (0, 29, 35, 50, 80)], [3.0, 3.0, 3.5, 5.0, 5.0]
    )
    assert_allclose(
        [bench.after(t * MS).joint_velocity[1] for t in (0, 29, 35, 50, 80)], [0.0, 0.0, 9.0, 9.0, 0.0]
    )


keys = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.one_of(st.floats(-1e3, 1e3), st.sampled_from([math.nan, math.inf])),
        st.one_of(st.none(), st.floats(-1e3, 1e3)),
    ),
    min_size=1,
    max_size=12,
)


@same_folder
@given(keys, st.integers(-5, 60), st.sampled_from(["true", "false"]))
def test_sampling_is_that_of_numpy(
    tmp_path: Path, given_keys: list[tuple[int, float, float | None]], millis: int, loop: str
) -> None:
    path = tmp_path / "bag"
    shutil.rmtree(path, ignore_errors=True)
    anchors = [joint_state(TOPIC, START + t * MS, NAMES[1:2], [0.0]) for t in (0, 40)]
    messages = [
        joint_state(
            TOPIC, START + t * MS, NAMES[2:], [value], [] if speed is None else [speed], log_ns=START + n
        )
        for n, (t, value, speed) in enumerate(given_keys)
    ]
    bench = Bench(rover().build(), as_mcap_directory(path, [*anchors, *messages]), loop=loop)
    last = {t: (value, speed) for t, value, speed in given_keys if math.isfinite(value)}
    times = sorted(last)
    if not times:
        assert bench.after(0).joint_position[2] == 0.0
        return
    elapsed = max(millis, 0)
    at = elapsed % 40 if loop == "true" else min(elapsed, 40)
    state = bench.after(elapsed * MS)
    assert_allclose(state.joint_position[2], np.interp(at, times, [last[t][0] for t in times]), atol=1e-9)
    if at in last and at != 40 and last[at][1] is not None and len(times) > 1:
        assert state.joint_velocity[2] == last[at][1]
    assert np.isfinite(state.joint_velocity).all()


# --- Time ---------------------------------------------------------------------------------------------------


def test_without_stamps_the_times_of_recording_count(tmp_path: Path) -> None:
    messages = [joint_state(TOPIC, 0, NAMES[:1], [1.0 * k], log_ns=START + k * 10 * MS) for k in range(5)]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_allclose(bench.positions(0, 10 * MS, 25 * MS)[:, 0], [0.0, 1.0, 2.5])
    assert bench.messages["playback.bag_stamps"].startswith(
        "messages of /rover/joint_states have no stamp: the times"
    )


def test_a_simulation_begins_at_zero(tmp_path: Path) -> None:
    messages = [
        joint_state(TOPIC, k * SECOND, NAMES[:1], [1.0 * k], log_ns=START + k * 300 * MS) for k in range(4)
    ]
    messages.append(transforms("/tf", (0, "world", "base_link", arc(3)), log_ns=START))
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_allclose(bench.positions(0, SECOND, 2500 * MS)[:, 0], [0.0, 1.0, 2.5])
    assert "playback.bag_stamps" not in bench.messages


def test_where_time_started_over_the_times_of_recording_count(tmp_path: Path) -> None:
    stamps = [100 * SECOND, 101 * SECOND, SECOND, 2 * SECOND]
    messages = [
        joint_state(TOPIC, stamp, NAMES[:1], [1.0 * k], log_ns=START + k * SECOND)
        for k, stamp in enumerate(stamps)
    ]
    bench = Bench(rover().build(), as_mcap_directory(tmp_path / "bag", messages))
    assert_allclose(bench.positions(0, SECOND, 2 * SECOND + SECOND // 2)[:, 0], [0.0, 1.0, 2.5])
    assert "go back by 100.000 s" in bench.messages["playback.bag_stamps"]


def test_topics_on_different_clocks_are_played_by_the_times_of_recording(tmp_path: Path) -> None:
    messages = [
        each
        for k in range(5)
        for each in (
            joint_state(TOPIC, START + k * SECOND, NAMES[:1], [1.0 * k], log_ns=START + k * SECOND),
            transforms(
                "/tf",
                (k * SECOND + 5, "world", "base_link", (k, 0, 0, 0, 0, 0, 1)),
                log_ns=START + k * SECOND,
            ),
        )
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    state = bench.after(2 * SECOND)
    assert_allclose([state.joint_position[0], state.body_pose[0, 0]], [2.0, 2.0])
    assert "of different clocks" in bench.messages["playback.bag_stamps"]


def test_a_small_step_back_is_a_message_that_was_overtaken(tmp_path: Path) -> None:
    order = [0, 2, 1, 3, 5, 4, 6]
    messages = [
        joint_state(TOPIC, START + k * 100 * MS, NAMES[:1], [1.0 * k], log_ns=START + n)
        for n, k in enumerate(order)
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_allclose(bench.positions(100 * MS, 450 * MS)[:, 0], [1.0, 4.5])
    assert not bench.families & {"playback.bag_stamps"}


# --- Transforms ---------------------------------------------------------------------------------------------


def arc(k: int) -> FloatArray:
    return pose((0.1 * k, math.sin(0.1 * k), 0.2), exponential(np.array([0.1, 0.2, 0.3]) * k))


def same(found: FloatArray, expected: FloatArray, tolerance: float = 1e-12) -> None:
    assert_allclose(to_matrix(found), to_matrix(expected), atol=tolerance)


def test_a_base_is_posed_by_its_transform(tmp_path: Path) -> None:
    messages = [transforms("/tf", (START + k * 10 * MS, "world", "base_link", arc(k))) for k in range(20)]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert bench.backend.capabilities.joint_driven
    for k in (0, 3, 18):
        same(bench.after(k * 10 * MS).body_pose[0], arc(k))
    between = bench.after(35 * MS)
    same(
        between.body_pose[0],
        pose((arc(3)[:3] + arc(4)[:3]) / 2.0, exponential(np.array([0.1, 0.2, 0.3]) * 3.5)),
    )
    assert between.body_twist is not None
    assert_allclose(between.body_twist[0], [*(arc(4) - arc(3))[:3] / 0.01, 10.0, 20.0, 30.0], atol=1e-9)
    assert bench.families == {"playback.bag_rest"}


@pytest.mark.parametrize(
    ("topic", "prefix", "outputs"),
    [
        ("/tf", "", None),
        ("/rover/tf", "", None),
        ("/tf", "rover/", None),
        ("/tf", "rover/", (TfOutput(tf="/tf", tf_static="/tf_static", prefix="rover/"),)),
        ("/rover/tf", "", (TfOutput(tf="/rover/tf", tf_static="/rover/tf_static"),)),
        ("/rover/tf", "", ()),
    ],
)
def test_transforms_are_found_with_their_namespace_or_prefix(
    tmp_path: Path, topic: str, prefix: str, outputs: tuple[TfOutput, ...] | None
) -> None:
    builder = rover()
    if outputs is not None:
        builder.robots[0].options["tf_outputs"] = outputs
    message = transforms(topic, (START, "world", f"{prefix}base_link", arc(3)))
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", [message]))
    same(bench.after(0).body_pose[0], arc(3))


def test_robots_of_one_topic_are_told_apart_by_their_prefix(tmp_path: Path) -> None:
    builder = rover(rover(path="/one", namespace="/one"), path="/two", namespace="/two")
    for robot in builder.robots:
        prefix = f"{robot.namespace[1:]}/"
        robot.options["tf_outputs"] = (TfOutput(tf="/tf", tf_static="/tf_static", prefix=prefix),)
    message = transforms(
        "/tf", (START, "world", "one/base_link", arc(1)), (START, "world", "two/base_link", arc(2))
    )
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", [message]))
    same(bench.after(0).body_pose[0], arc(1))
    same(bench.after(0).body_pose[4], arc(2))


def test_a_chain_of_transforms_at_different_rates_is_composed(tmp_path: Path) -> None:
    fixed = pose((0.0, 0.0, 0.3), exponential(np.array([0.0, 0.0, 1.0])))
    messages = [
        transforms("/tf_static", (1, "base_footprint", "base_link", fixed), log_ns=START),
        *(transforms("/tf", (START + k * 30 * MS, "world", "odom", arc(k))) for k in range(7)),
        *(transforms("/tf", (START + k * 10 * MS, "odom", "base_footprint", arc(2 * k))) for k in range(19)),
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    for k in (0, 3, 9, 15):
        same(bench.after(k * 10 * MS).body_pose[0], compose(compose(arc(k // 3), arc(2 * k)), fixed))
    one_third = pose(arc(0)[:3] * 2 / 3 + arc(1)[:3] / 3, exponential(np.array([0.1, 0.2, 0.3]) / 3))
    same(bench.after(10 * MS).body_pose[0], compose(compose(one_third, arc(2)), fixed))
    assert "playback.bag_stamps" not in bench.messages


def test_a_tree_with_another_root_is_taken_for_the_world_with_a_report(tmp_path: Path) -> None:
    messages = [transforms("/tf", (START, "map", "base_link", arc(4)))]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    same(bench.after(0).body_pose[0], arc(4))
    assert bench.messages["playback.bag_frames:/rover"].endswith(
        "from world to base_link: map is taken for world"
    )


def test_the_base_of_a_robot_with_odometry_is_posed_in_its_odometry_frame(tmp_path: Path) -> None:
    builder = rover()
    builder.robots[0].options["base_transform"] = "odometry"
    messages = [transforms("/tf", (START, "map", "odom", arc(9)), (START, "odom", "base_link", arc(4)))]
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", messages))
    same(bench.after(0).body_pose[0], arc(4))
    assert bench.backend.capabilities.odometry == {"/rover"}


def test_recorded_odometry_is_shown_from_where_it_was_recorded(tmp_path: Path) -> None:
    """The recording begins in the middle of a drive; without it, odometry begins at zero."""
    builder = rover()
    builder.robots[0].options.update(base_transform="odometry", odom_frame="odom")
    plan = builder.build()
    messages = [
        transforms("/rover/tf", (START + k * 10 * MS, "odom", "base_link", arc(k + 5))) for k in range(9)
    ]
    backend = PlaybackBackend()
    options = BridgeOptions(backend_options={"bag": str(as_sqlite(tmp_path / "bag", messages))})
    with Runtime(plan, backend, options=options) as runtime:
        for k in (0, 3, 7):
            runtime.tick(SECOND + k * 10 * MS)
            same(runtime.snapshot.frame_poses(0)[0], arc(k + 5))
            same(relative(np.array(runtime.snapshot.start_pose(0)), runtime.snapshot.pose(0)), arc(k + 5))


def chain() -> PlanBuilder:
    """A robot of a revolute, an inverted, a prismatic and a continuous joint, with turned joint frames."""
    builder = PlanBuilder()
    robot = builder.robot()
    frames = [Pose((0.1, 0.2, 0.3), tuple(exponential(np.array([0.3, -0.2, 0.1 * k])))) for k in range(4)]
    robot.body("base")
    for number, (axis, kind, inverted) in enumerate(
        (
            ("X", "revolute", False),
            ("Y", "revolute", True),
            ("Z", "prismatic", False),
            ("Z", "continuous", False),
        )
    ):
        robot.body(f"link_{number}")
        robot.joint(
            f"joint_{number}",
            f"link_{number - 1}" if number else "base",
            f"link_{number}",
            axis=axis,  # type: ignore[arg-type]
            kind=kind,  # type: ignore[arg-type]
            inverted=inverted,
            body0_from_joint=frames[number],
            body1_from_joint=frames[3 - number],
        )
    return builder


def test_joints_without_joint_states_are_projected_from_transforms(tmp_path: Path) -> None:
    plan = chain().build()
    kinematics, state = Kinematics(plan), State.initial(plan.layout)
    positions = np.array([[0.1 * k, -0.05 * k, 0.01 * k, 0.4 * k] for k in range(20)])
    bodies = [*plan.layout.bodies]
    parents = {edge.child_path: edge.parent_path for edge in plan.robots[0].edges}
    messages = []
    for k, position in enumerate(positions):
        state.joint_position[:] = position
        world = kinematics.body_poses(state)
        given = [
            (
                START + k * 10 * MS,
                parents[path].rpartition("/")[2],
                path.rpartition("/")[2],
                relative(world[bodies.index(parents[path])], world[row]),
            )
            for row, path in enumerate(bodies)
            if path in parents
        ]
        messages.append(transforms("/tf", *given))
    bench = Bench(plan, as_sqlite(tmp_path / "bag", messages))
    assert_allclose(bench.positions(*(k * 10 * MS for k in range(19))), positions[:19], atol=1e-9)
    assert_allclose(bench.after(5 * MS).joint_velocity, [10.0, -5.0, 1.0, 40.0], atol=1e-6)
    # Joint states are better than transforms.
    recorded = joint_state("/joint_states", START + 50 * MS, ["joint_1"], [9.0])
    both = Bench(plan, as_sqlite(tmp_path / "both", [*messages, recorded]))
    assert_allclose(both.positions(30 * MS)[0], [0.3, 9.0, 0.03, 1.2], atol=1e-9)


def test_a_joint_between_frames_of_two_branches_is_projected(tmp_path: Path) -> None:
    """Some trackers measure every body in the world."""
    builder = PlanBuilder()
    robot = builder.robot()
    robot.body("a")
    robot.body("b")
    robot.joint("turn", "a", "b", axis="Z")
    turned = pose((0, 0, 0), exponential(np.array([0.0, 0.0, 0.7])))
    message = transforms("/tf", (START, "world", "a", arc(3)), (START, "world", "b", compose(arc(3), turned)))
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", [message]))
    assert_allclose(bench.after(0).joint_position, [0.7])
    same(bench.after(0).body_pose[0], arc(3))


def test_a_joint_of_several_degrees_of_freedom_is_reported(tmp_path: Path) -> None:
    builder = PlanBuilder()
    robot = builder.robot()
    robot.body("a")
    robot.body("b")
    robot.joint("ball", "a", "b", kind="spherical")
    message = transforms("/tf", (START, "world", "a", arc(1)), (START, "a", "b", arc(2)))
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", [message]))
    assert "several degrees of freedom" in bench.messages["playback.project:/robot/b"]


def test_transforms_that_are_none_are_left_out(tmp_path: Path) -> None:
    nothing = [(1, 0, 0, 0, 0, 0, 0), (math.nan, 0, 0, 0, 0, 0, 1), (0, 0, 0, math.inf, 0, 0, 1)]
    messages = [
        transforms("/tf", (START + k * 10 * MS, "world", "base_link", arc(k))) for k in range(0, 10, 3)
    ]
    messages += [
        transforms("/tf", (START + k * 10 * MS, "world", "base_link", bad))
        for k, bad in enumerate(nothing, 4)
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    same(bench.after(60 * MS).body_pose[0], arc(6))
    assert np.isfinite(bench.after(45 * MS).body_pose).all()


def test_two_parents_of_a_frame_are_reported_and_the_frequent_one_is_used(tmp_path: Path) -> None:
    messages = [transforms("/tf", (START + k * 10 * MS, "world", "base_link", arc(k))) for k in range(3)]
    messages.append(transforms("/tf", (START + 5 * MS, "odom", "base_link", arc(9))))
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    same(bench.after(10 * MS).body_pose[0], arc(1))
    assert (
        "base_link in odom and in world, which is more frequent"
        in bench.messages["playback.bag_parents:/rover"]
    )


def test_a_cycle_of_frames_leads_nowhere(tmp_path: Path) -> None:
    messages = [
        joint_state(TOPIC, START, NAMES, wheels(3)),
        transforms("/tf", (START, "odom", "base_link", arc(1)), (START, "base_link", "odom", arc(2))),
    ]
    bench = Bench(rover().build(), as_sqlite(tmp_path / "bag", messages))
    assert_array_equal(bench.after(0).body_pose[0], bench.plan.layout.body_pose[0])


def test_a_slash_in_front_of_a_frame_is_ignored(tmp_path: Path) -> None:
    bench = Bench(
        rover().build(),
        as_sqlite(tmp_path / "bag", [transforms("/tf", (START, "/world", "/base_link", arc(2)))]),
    )
    same(bench.after(0).body_pose[0], arc(2))


def test_kinematic_bodies_are_posed_by_their_frames(tmp_path: Path) -> None:
    builder = rover()
    builder.robots[0].body("door", kinematic=True)
    message = transforms("/tf", (START, "world", "base_link", arc(1)), (START, "base_link", "door", arc(2)))
    bench = Bench(builder.build(), as_sqlite(tmp_path / "bag", [message]))
    same(bench.after(0).body_pose[-1], compose(arc(1), arc(2)))


# --- Files --------------------------------------------------------------------------------------------------


def test_a_killed_recording_is_played_up_to_its_last_chunk(tmp_path: Path) -> None:
    path = as_mcap(tmp_path / "bag", drive(400))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 6 // 10])
    bench = Bench(rover().build(), path, loop="false")
    assert_array_equal(bench.positions(100 * 20 * MS)[0], wheels(100))
    last = bench.positions(9000 * SECOND)[0, 0] / 0.3
    assert 150 < last < 350
    assert last == pytest.approx(round(last))
    assert (
        "was not closed and ends in the middle of the record at byte"
        in bench.messages["playback.bag_damaged:bag.mcap"]
    )


@pytest.mark.parametrize("write", [as_sqlite, as_mcap_directory])
def test_a_directory_without_metadata_is_played_with_a_report(
    tmp_path: Path, write: Callable[[Path, Sequence[Message]], Path]
) -> None:
    path = write(tmp_path / "bag", drive())
    (path / "metadata.yaml").unlink()
    bench = Bench(rover().build(), path)
    assert_array_equal(bench.positions(100 * MS)[0], wheels(5))
    assert "has no metadata.yaml" in bench.messages["playback.bag_files"]


def test_files_of_a_split_bag_are_played_in_order(tmp_path: Path) -> None:
    messages = drive(30)
    path = as_mcap_directory(tmp_path / "bag", messages[:10])
    for number, part in enumerate((messages[10:20], messages[20:]), 1):
        other = as_mcap_directory(tmp_path / f"part_{number}", part)
        shutil.copy(next(other.glob("*.mcap")), path / f"bag_{number}.mcap")
    metadata = path / "metadata.yaml"
    listed = metadata.read_text(encoding="utf-8").replace(
        "- bag.mcap", "- bag.mcap\n  - bag_1.mcap\n  - bag_2.mcap\n  - bag_3.mcap"
    )
    assert listed != metadata.read_text(encoding="utf-8")
    metadata.write_text(listed, encoding="utf-8")
    bench = Bench(rover().build(), path)
    assert_array_equal(
        bench.positions(5 * 20 * MS, 15 * 20 * MS, 25 * 20 * MS), [wheels(5), wheels(15), wheels(25)]
    )
    assert bench.messages["playback.bag_files"].endswith("bag_3.mcap is missing")


@pytest.mark.parametrize("content", ["", "a: [", "rosbag2_bagfile_information: 3", "- 1"])
def test_metadata_that_cannot_be_read_is_ignored_with_a_report(tmp_path: Path, content: str) -> None:
    path = as_sqlite(tmp_path / "bag", drive())
    (path / "metadata.yaml").write_text(content, encoding="utf-8")
    assert_array_equal(Bench(rover().build(), path).positions(100 * MS)[0], wheels(5))


def test_files_that_are_no_bags_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "robot.usda").write_text("#usda 1.0\n", encoding="utf-8")
    (tmp_path / "old.bag").write_text("#ROSBAG V2.0\n", encoding="utf-8")
    (tmp_path / "broken.db3").write_text("no database" * 100, encoding="utf-8")
    (tmp_path / "broken.mcap.zstd").write_bytes(b"\x28\xb5\x2f\xfdgarbage")
    (tmp_path / "folder").mkdir()
    for name, what in {
        "robot.usda": "is no bag: give a .mcap or .db3 file, or a rosbag2 directory",
        "old.bag": "is a bag of ROS 1: convert it with rosbags-convert",
        "broken.db3": "cannot be read",
        "broken.mcap.zstd": "is empty",
        "folder": "is a directory without .mcap and .db3 files",
        "foldr": r"does not exist; did you mean folder\?",
        "none/of/these": "does not exist$",
    }.items():
        with pytest.raises(BackendError, match=what) as refused:
            Bench(rover().build(), tmp_path / name)
        assert "\n" not in str(refused.value)


def test_a_compressed_file_that_was_cut_off_is_played_up_to_there(tmp_path: Path) -> None:
    # More than one chunk of rosbags' writer, which has a megabyte.
    positions = np.random.default_rng(2).normal(size=(10_000, 3))
    messages = [joint_state(TOPIC, START + k * MS, NAMES, position) for k, position in enumerate(positions)]
    path = next(as_compressed_mcap_file(tmp_path / "bag", messages).glob("*.zstd"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 9 // 10])
    bench = Bench(rover().build(), path, loop="false")
    assert "cannot be unpacked to its end" in bench.messages[f"playback.bag_damaged:{path.name}"]
    assert_array_equal(bench.after(MS).joint_position, positions[1])


def test_another_encoding_and_unreadable_messages_are_reported(tmp_path: Path) -> None:
    pytest.importorskip("mcap", reason="mcap is not installed: make setup-tests")
    good = drive(5)
    path = write_mcap(tmp_path / "json.mcap", good, encoding="json")
    with pytest.raises(BackendError, match="nothing that moves"):
        Bench(rover().build(), path)
    cut = [replace(each, data=each.data[:-9]) if n == 2 else each for n, each in enumerate(good)]
    bench = Bench(rover().build(), write_mcap(tmp_path / "cut.mcap", cut))
    assert bench.messages[f"playback.bag_unreadable:{TOPIC}"].startswith(f"{TOPIC}: 1 messages are no")
    assert_array_equal(bench.positions(20 * MS)[0], wheels(1))


def test_options_of_bags_need_a_bag() -> None:
    with pytest.raises(BackendError, match="option remap of backend playback needs the option bag"):
        PlaybackBackend().open(
            BackendContext(plan=rover().build(), report=lambda *_: None, options={"remap": "/a:=/b"})
        )


def test_without_rosbags_one_line_says_what_installs_it(tmp_path: Path) -> None:
    code = """
from usd_ros_bridge.backends.backend_options import BUILT_IN_BACKENDS
from usd_ros_bridge.backends.base import BackendContext
from usd_ros_bridge.backends.playback import PlaybackBackend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.plan import BridgePlan
try:
    PlaybackBackend().open(BackendContext(plan=BridgePlan(asset=""), report=print, options={"bag": "a.mcap"}))
except BackendError as error:
    print(error)
"""
    ended = start_without("rosbags", code, directory=tmp_path)
    assert ended.stderr == ""
    assert ended.stdout == (
        "rosbags is not installed (no module rosbags), which is needed for playing bags: "
        'pip install "usd_ros_bridge[bags]"\n'
    )


@same_folder
@given(st.sampled_from([as_database, as_mcap, as_compressed_mcap_file]), st.data())
def test_a_damaged_bag_is_played_or_refused_in_one_line(
    tmp_path: Path, write: Callable[[Path, Sequence[Message]], Path], data: st.DataObject
) -> None:
    folder = tmp_path / write.__name__
    if not folder.exists():
        folder.mkdir()
        messages = [
            *drive(30),
            transforms("/tf", (START, "world", "base_link", arc(3))),
            text("/chatter", START),
        ]
        written = write(folder / "bag", messages)
        (folder / "whole").write_bytes(
            (next(written.glob("*.zstd")) if written.is_dir() else written).read_bytes()
        )
    content = bytearray((folder / "whole").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    suffix = {as_database: "db3", as_mcap: "mcap", as_compressed_mcap_file: "mcap.zstd"}[write]
    changed = folder / f"changed.{suffix}"
    changed.write_bytes(content)
    try:
        bench = Bench(rover().build(), changed)
    except BackendError as refused:
        if "\n" in str(refused):
            raise
        return
    assert np.isfinite(bench.after(55 * MS).joint_position).all()
    assert np.isfinite(bench.after(55 * MS).body_pose).all()
