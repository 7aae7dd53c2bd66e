"""A declared joint state broadcaster decides what its publisher reports."""

from __future__ import annotations

from usd_ros_bridge.model.plan import ControllerPlan, TopicPlan
from usd_ros_bridge.planning.placement import narrow_to_broadcasters

PUBLISHER = TopicPlan(
    path="/r/joint_states",
    role="publisher",
    name="/joint_states",
    type="sensor_msgs/msg/JointState",
    frame_id="base",
    dofs=(0, 1, 2),
)


def broadcaster(
    *, enabled: bool = True, switchable: bool = True, implied: bool = False, frame_id: str = ""
) -> ControllerPlan:
    return ControllerPlan(
        path="/r/broadcaster",
        schema="RosControlJointStateBroadcasterAPI",
        interfaces=(PUBLISHER.path,),
        dofs=(2, 0),
        parameters={"frame_id": frame_id},
        enabled=enabled,
        switchable=switchable,
        implied=implied,
    )


def test_joints_and_their_order_are_the_broadcasters() -> None:
    (topic,) = narrow_to_broadcasters([PUBLISHER], [broadcaster()])
    assert topic.dofs == (2, 0)
    assert topic.frame_id == "base"


def test_an_authored_frame_id_counts() -> None:
    (topic,) = narrow_to_broadcasters([PUBLISHER], [broadcaster(frame_id="torso")])
    assert topic.frame_id == "torso"


def test_a_broadcaster_that_is_off_at_first_decides_what_will_be_reported() -> None:
    (topic,) = narrow_to_broadcasters([PUBLISHER], [broadcaster(enabled=False)])
    assert topic.dofs == (2, 0)


def test_a_broadcaster_that_cannot_work_or_is_implied_changes_nothing() -> None:
    for controller in (broadcaster(enabled=False, switchable=False), broadcaster(implied=True)):
        assert narrow_to_broadcasters([PUBLISHER], [controller]) == (PUBLISHER,)


def test_other_topics_are_left_alone() -> None:
    other = TopicPlan(
        path="/r/other", role="publisher", name="/o", type="sensor_msgs/msg/JointState", dofs=(0, 1, 2)
    )
    assert narrow_to_broadcasters([other], [broadcaster()]) == (other,)
