"""The joint_states backend, rule by rule as robot_state_publisher has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from builders.plans import PlanBuilder, gripper, rover
from builders.samples import joint_sample
from case_tables import each_case
from open_backends import OpenBackend
from usd_ros_bridge.backends.joint_states import JointStatesBackend
from usd_ros_bridge.errors import BackendError
from usd_ros_bridge.model.state import State

SECOND = 1_000_000_000


class Bench(OpenBackend):
    """An open backend and what it reported."""

    def __init__(self, builder: PlanBuilder, **options: str) -> None:
        super().__init__(builder.build(), JointStatesBackend(), **options)
        self.keys = [needed.key for needed in self.backend.inputs()]

    def receive(
        self,
        names: list[str],
        position: Any,
        *,
        stamp: int = 1,
        robot: int = 0,
        velocity: Any = (),
        effort: Any = (),
    ) -> None:
        sample = joint_sample(names, position, velocity, effort, stamp_ns=stamp)
        self.backend.receive(self.keys[robot], sample)

    def step(self, time_ns: int = 5 * SECOND) -> State:
        return self.backend.step(time_ns, self.commands)

    def stamps(self, time_ns: int = 5 * SECOND) -> list[int]:
        times = self.step(time_ns).robot_time_ns
        assert times is not None
        return [int(time) for time in times]

    def positions(self) -> dict[str, float]:
        return dict(zip(self.plan.layout.dofs, self.step().joint_position.tolist(), strict=True))


def test_every_robot_with_joints_needs_a_topic_with_sensor_data_qos() -> None:
    builder = gripper(rover())
    builder.robot("/rock").body("rock")
    bench = Bench(builder)
    needed = bench.backend.inputs()
    assert [(n.robot, n.topic, n.type) for n in needed] == [
        (0, "joint_states", "sensor_msgs/msg/JointState"),
        (1, "joint_states", "sensor_msgs/msg/JointState"),
    ]
    assert {(n.reliability, n.depth) for n in needed} == {("best_effort", 5)}
    assert len(set(bench.keys)) == 2
    assert bench.backend.capabilities.topic_driven
    assert not bench.backend.capabilities.commands


def test_the_topic_is_an_option() -> None:
    assert Bench(rover(), topic="/measured").backend.inputs()[0].topic == "/measured"
    with pytest.raises(BackendError, match="its options: ignore_timestamp, topic"):
        Bench(rover(), queue="3")


def test_nothing_is_known_before_the_first_message() -> None:
    builder = gripper(rover())
    builder.robot("/rock").body("rock")
    bench = Bench(builder)
    assert bench.stamps(7) == [-1, -1, 7]
    bench.receive(["palm_joint"], [0.1], stamp=5, robot=1)
    assert bench.stamps(8) == [-1, 5, 8]


def test_positions_velocities_and_efforts_by_name() -> None:
    bench = Bench(rover())
    bench.receive(["mast_joint", "left_wheel_joint"], [0.5, 30.0], velocity=[0.1, 0.2], effort=[1.0, 2.0])
    state = bench.step()
    assert_allclose(state.joint_position, [30.0, 0.0, 0.5])
    assert_allclose(state.joint_velocity, [0.2, np.nan, 0.1])
    assert_allclose(state.joint_effort, [2.0, np.nan, 1.0])
    bench.receive(["mast_joint"], [0.6], stamp=2)
    state = bench.step()
    assert_allclose(state.joint_position, [30.0, 0.0, 0.6])
    assert_allclose(state.joint_velocity, [0.2, np.nan, np.nan])


def test_joints_that_no_message_named_are_at_rest() -> None:
    bench = Bench(gripper())
    bench.receive(["left_finger_joint"], [0.01])
    assert bench.positions()["palm_joint"] == 0.3


def test_limits_do_not_clamp() -> None:
    bench = Bench(rover())
    bench.receive(["mast_joint"], [7.0])
    assert bench.positions()["mast_joint"] == 7.0


def test_a_mimic_joint_follows_its_leader_unless_it_is_named_itself() -> None:
    bench = Bench(gripper())
    bench.receive(["left_finger_joint"], [0.02], velocity=[0.3])
    assert bench.positions()["right_finger_joint"] == pytest.approx(0.021)
    assert bench.step().joint_velocity[2] == pytest.approx(0.3)
    bench.receive(["left_finger_joint", "right_finger_joint"], [0.02, 0.005], stamp=2)
    assert bench.positions()["right_finger_joint"] == 0.005
    bench.receive(["left_finger_joint"], [0.03], stamp=3)
    assert bench.positions()["right_finger_joint"] == pytest.approx(0.031), (
        "explicit in an earlier message only"
    )
    bench.receive(["palm_joint"], [0.0], stamp=4)
    assert bench.positions()["right_finger_joint"] == pytest.approx(0.031), "its leader is not in the message"


def test_a_chain_of_mimic_joints_starts_at_the_nearest_that_is_named() -> None:
    robot = PlanBuilder().robot()
    robot.body("base")
    for index, mimic in enumerate([None, ("a0", 2.0, 0.1), ("a1", -3.0, 0.5)]):
        robot.body(f"link{index}")
        robot.joint(f"a{index}", "base", f"link{index}", mimic=mimic)
    bench = Bench(robot.plan)
    bench.receive(["a0"], [1.0])
    assert_allclose(bench.step().joint_position, [1.0, 2.1, -5.8])
    bench.receive(["a0", "a1"], [1.0, 1.0], stamp=2)
    assert_allclose(bench.step().joint_position, [1.0, 1.0, -2.5])


@each_case(
    "arrays",
    [
        {"position": []},
        {"position": [0.1]},
        {"position": [0.1, 0.2, 0.3]},
        {"position": [0.1, 0.2], "velocity": [0.1]},
        {"position": [0.1, 0.2], "effort": [0.1, 0.2, 0.3]},
    ],
)
def test_a_message_of_unequal_lengths_is_ignored_with_a_warning(arrays: dict[str, list[float]]) -> None:
    bench = Bench(rover())
    bench.receive(["mast_joint", "left_wheel_joint"], **arrays)
    assert bench.stamps() == [-1]
    assert bench.kinds == ["joint_states.length:/rover"]


def test_unknown_names_are_ignored_and_named() -> None:
    bench = Bench(rover())
    bench.receive(["elbow", "mast_joint", "wrist"], [9.0, 0.5, 9.0])
    assert bench.positions()["mast_joint"] == 0.5
    assert bench.reports[0][0] == "joint_states.unknown:/rover"
    assert "2 name(s)" in bench.reports[0][1]
    assert "'elbow', 'wrist'" in bench.reports[0][1]


def test_a_message_for_another_robot_makes_nothing_known() -> None:
    bench = Bench(rover())
    bench.receive(["elbow"], [9.0])
    assert bench.stamps() == [-1]


def test_the_time_of_a_robot_is_the_newest_stamp() -> None:
    bench = Bench(rover())
    for stamp, expected in [
        (3 * SECOND, 3 * SECOND),
        (3 * SECOND, 3 * SECOND),
        (4 * SECOND, 4 * SECOND),
        (4 * SECOND - 1, 4 * SECOND),
    ]:
        bench.receive(["mast_joint"], [0.1], stamp=stamp)
        assert bench.stamps(9 * SECOND) == [expected]
    assert bench.reports == []


def test_a_message_that_was_overtaken_on_the_way_is_ignored() -> None:
    bench = Bench(rover())
    row = bench.plan.layout.dofs.index("mast_joint")
    bench.receive(["mast_joint"], [0.2], stamp=5 * SECOND)
    bench.receive(["mast_joint"], [0.1], stamp=5 * SECOND - 1)
    assert bench.step().joint_position[row] == 0.2
    # Another publisher's joints may be a little behind.
    other = next(name for name in bench.plan.layout.dofs if name != "mast_joint")
    bench.receive([other], [0.3], stamp=5 * SECOND - 1)
    assert bench.step().joint_position[bench.plan.layout.dofs.index(other)] == 0.3


def test_the_first_of_two_equal_names_counts() -> None:
    """As in robot_state_publisher, which inserts into a map."""
    bench = Bench(rover())
    bench.receive(["mast_joint", "mast_joint"], [0.2, 0.3])
    assert bench.step().joint_position[bench.plan.layout.dofs.index("mast_joint")] == 0.2


def test_stamps_that_go_back_by_more_than_a_second_start_over() -> None:
    bench = Bench(rover())
    bench.receive(["mast_joint"], [0.1], stamp=100 * SECOND)
    bench.receive(["mast_joint"], [0.2], stamp=5 * SECOND)
    assert bench.stamps() == [5 * SECOND]
    assert bench.kinds == ["joint_states.backwards:/rover"]


def test_a_message_without_a_stamp_has_the_time_of_its_arrival() -> None:
    bench = Bench(rover())
    bench.receive(["mast_joint"], [0.1], stamp=0)
    assert bench.stamps(7) == [7]
    assert bench.stamps(8) == [7], "nothing new has arrived"
    bench.receive(["mast_joint"], [0.1], stamp=0)
    assert bench.stamps(9) == [9]


def test_a_reset_forgets_everything() -> None:
    bench = Bench(rover())
    bench.receive(["mast_joint"], [0.5])
    bench.step()
    bench.backend.reset()
    assert bench.stamps() == [-1]
    assert bench.positions()["mast_joint"] == 0.0


def test_two_robots_with_equal_joint_names_are_kept_apart() -> None:
    bench = Bench(rover(rover(path="/a"), path="/b"))
    bench.receive(["mast_joint"], [0.5], robot=1)
    state = bench.step()
    assert_allclose(state.joint_position, [0.0, 0.0, 0.0, 0.0, 0.0, 0.5])


PUBLISHERS = (
    ("pan", "tilt"),
    ("tilt", "roll"),
    ("roll", "pan", "tilt"),
    ("zoom",),
    ("pan", "tilt", "roll", "zoom"),
)


@st.composite
def messages(draw: st.DrawFn) -> tuple[tuple[str, ...], int, bool, bool]:
    """Names, stamp (a second apart at most), and whether velocities and efforts are given."""
    return (
        draw(st.sampled_from(PUBLISHERS)),
        draw(st.integers(0, 40)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


@given(st.lists(messages(), min_size=1, max_size=25))
def test_several_publishers_add_up_to_one_state(sent: list[tuple[tuple[str, ...], int, bool, bool]]) -> None:
    """Against one joint at a time: the newest stamp of each joint wins, and what a message leaves out is unknown."""
    builder = PlanBuilder()
    robot = builder.robot("/robot")
    robot.body("base")
    for name in PUBLISHERS[-1]:
        robot.body(name + "_link")
        robot.joint(name, "base", name + "_link")
    bench = Bench(builder)
    known = dict.fromkeys(PUBLISHERS[-1], (0.0, np.nan, np.nan))
    stamps = dict.fromkeys(known, 0)
    newest = 0
    for number, (names, stamp, has_velocity, has_effort) in enumerate(sent, start=1):
        values = [number + 0.1 * place for place in range(len(names))]
        rates, forces = ([10 * v for v in values] if has else [] for has in (has_velocity, has_effort))
        bench.receive(list(names), values, stamp=stamp, velocity=rates, effort=forces)
        if 0 < stamp < newest and any(stamps[name] > stamp for name in names):
            continue
        newest = stamp if stamp == 0 else max(newest, stamp)
        for name, value in zip(names, values, strict=True):
            stamps[name] = stamp
            known[name] = (
                value,
                10 * value if has_velocity else np.nan,
                10 * value if has_effort else np.nan,
            )
    state = bench.step()
    rows = [bench.plan.layout.dofs.index(name) for name in known]
    found = np.stack(
        (state.joint_position[rows], state.joint_velocity[rows], state.joint_effort[rows]), axis=-1
    )
    assert_allclose(found, np.array(list(known.values())))


def test_where_stamps_are_ignored_every_message_counts_with_its_own() -> None:
    bench = Bench(rover(), ignore_timestamp="true")
    joint = bench.plan.layout.dofs[0]
    for stamp, position in ((5, 0.1), (3, 0.2), (3, 0.3), (9, 0.4), (1, 0.5)):
        bench.receive([joint], [position], stamp=stamp * SECOND)
        assert (bench.stamps(), bench.positions()[joint]) == ([stamp * SECOND], position)
    bench.receive([joint], [0.6], stamp=0)
    assert (bench.stamps(7 * SECOND), bench.positions()[joint]) == ([7 * SECOND], 0.6)
    assert bench.reports == [], "time starts over for nobody"
