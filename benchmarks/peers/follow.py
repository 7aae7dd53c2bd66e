"""An action client: has an arm follow a trajectory, again for each line of the input, and tells what came of it.

`python -m benchmarks.peers.follow POINTS SECONDS INTERPOLATION`
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import rclpy
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from trajectory_msgs.msg import JointTrajectoryPoint

from benchmarks.motions import JOINTS, sample_motion, trajectory_times
from benchmarks.peers import tell

ACTION = "/arm/follow_joint_trajectory"
_TIMEOUT = 30.0


def main() -> None:
    """Runs until the end of the input."""
    points, seconds, interpolation = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    goal = _goal(points, seconds, accelerations=interpolation == "quintic")
    rclpy.init()
    node = rclpy.create_node("benchmark_client")
    client = ActionClient(node, FollowJointTrajectory, ACTION)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    spinning = threading.Thread(target=executor.spin, name="spins", daemon=True)
    spinning.start()
    if not client.wait_for_server(_TIMEOUT):
        raise SystemExit(f"nobody serves {ACTION}")
    tell("ready")
    for _ in sys.stdin:
        _follow(client, goal)
    executor.shutdown()
    spinning.join()
    client.destroy()
    node.destroy_node()
    rclpy.shutdown()


def _follow(client: Any, goal: Any) -> None:
    feedback: list[Any] = []
    handle = _result(client.send_goal_async(goal, feedback_callback=feedback.append))
    if not handle.accepted:
        raise SystemExit("the goal was rejected")
    tell("accepted")
    answer = _result(handle.get_result_async())
    tell(
        "done",
        status=answer.status,
        code=answer.result.error_code,
        words=answer.result.error_string,
        feedback=len(feedback),
    )


def _result(future: Any) -> Any:
    """Waits for a future that the executor's thread completes."""
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(_TIMEOUT):
        raise SystemExit("the server does not answer")
    return future.result()


def _goal(points: int, seconds: float, *, accelerations: bool) -> Any:
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = [f"joint_{number}" for number in range(1, JOINTS + 1)]
    times = trajectory_times(points, seconds)
    for time_ns, position, velocity, acceleration in zip(
        times.tolist(), *sample_motion(times * 1e-9, seconds), strict=True
    ):
        whole, rest = divmod(time_ns, 1_000_000_000)
        goal.trajectory.points.append(
            JointTrajectoryPoint(
                positions=position.tolist(),
                velocities=velocity.tolist(),
                accelerations=acceleration.tolist() if accelerations else [],
                time_from_start=Duration(sec=whole, nanosec=rest),
            )
        )
    return goal


if __name__ == "__main__":
    main()
