"""Driver of the sweep `braking.yaml`: drive, brake, and measure how far the rover slides."""

from collections.abc import Iterator

import numpy as np

from usd_ros_bridge import RunContext

ROVER = "/World/rover"


def brake(run: RunContext, speed: float) -> Iterator[float]:
    """Drive at a speed, brake as hard as possible, and end the run when the rover stands.

    Args:
        run: The run.
        speed: m/s.
    """
    while forward_speed(run) < 0.98 * speed:
        run.send("cmd_vel", {"linear": {"x": speed}})
        yield 0.05
    start, begun = run.body_pose(ROVER)[:2], forward_speed(run)
    run.send("cmd_vel", {"linear": {"x": 0.0}})
    while forward_speed(run) > 0.01:
        yield 0.01
    distance = float(np.linalg.norm(run.body_pose(ROVER)[:2] - start))
    run.set_metric("stopping_distance", distance)
    run.set_metric("deceleration", begun**2 / (2.0 * distance))
    run.stop("the rover stands")


def forward_speed(run: RunContext) -> float:
    """Return the speed of the rover along the x axis of the world, m/s."""
    return float(run.body_twist(ROVER)[0])
