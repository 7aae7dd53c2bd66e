"""An arm with actions: plans of them, goals for them, and a client that remembers all that it is told."""

from __future__ import annotations

import uuid
from typing import Any

from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from trajectory_msgs.msg import JointTrajectoryPoint

from ros_plans import plan
from usd_ros_bridge.model.plan import ActionPlan, BridgePlan, ControllerPlan
from usd_ros_bridge.testing.ros_observer import answers

FOLLOW = "control_msgs/action/FollowJointTrajectory"
NAME = "/arm/follow"
PATH = "/arm/follow_server"
SUCCEEDED, CANCELED, ABORTED = (
    GoalStatus.STATUS_SUCCEEDED,
    GoalStatus.STATUS_CANCELED,
    GoalStatus.STATUS_ABORTED,
)


def server(name: str = NAME, type_name: str = FOLLOW, **more: Any) -> ActionPlan:
    """An action server of the arm."""
    return ActionPlan(path=f"{name}_server", role="server", name=name, type=type_name, **more)


def follower(**parameters: Any) -> ControllerPlan:
    """The controller of the arm's hinge."""
    return ControllerPlan(
        path="/arm/controller",
        schema="RosControlJointTrajectoryAPI",
        interfaces=(PATH,),
        joints=("hinge",),
        dofs=(0,),
        parameters=parameters,
        robot=0,
        claims=(0,),
    )


def arm_with_follower(*interfaces: Any, controller: ControllerPlan | None = None) -> BridgePlan:
    """The arm, whose hinge follows trajectories."""
    return plan(server(), *interfaces, controllers=(controller or follower(),))


def goal(seconds: float, position: float = 0.5, joint: str = "hinge") -> FollowJointTrajectory.Goal:
    """A goal that takes so long."""
    made = FollowJointTrajectory.Goal()
    made.trajectory.joint_names = [joint]
    point = JointTrajectoryPoint(positions=[position])
    point.time_from_start.sec, fraction = divmod(int(seconds * 1e9), 1_000_000_000)
    point.time_from_start.nanosec = fraction
    made.trajectory.points = [point]
    return made


class Sent:
    """A goal that was sent, and what came of it."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.answer: Any = None
        self.feedback: list[Any] = []
        self.cancels: list[Any] = []

    @property
    def answered(self) -> bool:
        return self.handle is not None

    @property
    def done(self) -> bool:
        return self.answer is not None

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def result(self) -> Any:
        return self.answer.result


class Client:
    """An action client of the test's own node."""

    def __init__(self, ros_harness: Any, action_class: Any = FollowJointTrajectory, name: str = NAME) -> None:
        self._harness = ros_harness
        self._client = ActionClient(ros_harness.node, action_class, name)
        self._cancel_all = ros_harness.node.create_client(CancelGoal, f"{name}/_action/cancel_goal")
        ros_harness.wait_for(self._client.server_is_ready, what=f"the server of {name}")
        self._be_discovered()

    def _be_discovered(self) -> None:
        """Waits until the server has discovered this client, without which it cannot answer."""
        request = CancelGoal.Request()
        request.goal_info.goal_id.uuid = list(uuid.uuid4().bytes)
        self._harness.wait_for(answers(self._cancel_all, request), what="an answer of the server")

    def begin(self, message: Any) -> Sent:
        """Sends a goal, and asks for the result once it is accepted."""
        sent = Sent()

        def on_answer(future: Any) -> None:
            sent.handle = future.result()
            if sent.handle.accepted:
                sent.handle.get_result_async().add_done_callback(
                    lambda done: setattr(sent, "answer", done.result())
                )

        self._client.send_goal_async(
            message, feedback_callback=lambda each: sent.feedback.append(each.feedback)
        ).add_done_callback(on_answer)
        return sent

    def send(self, message: Any) -> Sent:
        """Sends a goal and waits for the answer."""
        sent = self.begin(message)
        self._harness.wait_for(lambda: sent.answered, what="the answer to a goal")
        return sent

    def run(self, message: Any) -> Sent:
        """Sends a goal and waits for its end."""
        return self.wait(self.send(message))

    def wait(self, sent: Sent) -> Sent:
        self._harness.wait_for(lambda: sent.done, what="the result of a goal")
        return sent

    def wait_for_one(self, goals: list[Sent]) -> None:
        """Waits until one more of some goals is done."""
        before = sum(each.done for each in goals)
        self._harness.wait_for(lambda: sum(each.done for each in goals) > before, what="the result of a goal")

    def cancel(self, sent: Sent) -> Any:
        """Asks for cancellation and returns the answer."""
        return self._ask(sent.handle.cancel_goal_async())

    def cancel_all(self) -> Any:
        """Asks for cancellation of every goal of the server: a request with nothing set."""
        return self._ask(self._cancel_all.call_async(CancelGoal.Request()))

    def _ask(self, future: Any) -> Any:
        self._harness.wait_for(future.done, what="the answer to a cancellation")
        return future.result()

    def close(self) -> None:
        self._client.destroy()
        self._harness.node.destroy_client(self._cancel_all)
