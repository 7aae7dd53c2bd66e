"""Real robots, converted from URDF: each frame of the running bridge is where pinocchio puts the link."""

from __future__ import annotations

from pathlib import Path

import pytest
from robot_oracle import IDENTITY, Errors, RobotOracle, distance, poses_from_tf

pytest.importorskip("rclpy", reason="rclpy is not installed: run `make setup`")

from live_bridge import BridgeProcess, TfListener

CONFIGURATIONS = 50


def test_tf_matches_pinocchio(
    robot: RobotOracle, errors: Errors, tmp_path: Path, other_domain_id: int
) -> None:
    with (
        BridgeProcess(robot.asset, domain_id=other_domain_id, log=tmp_path / "bridge.log") as bridge,
        TfListener(bridge, domain_id=other_domain_id) as listener,
    ):
        listener.connect(robot.configurations[0].published)
        # A link called like the parent frame is that frame, and no frame's child.
        links = set(robot.links) - {"world"}
        listener.wait_for_static({robot.default_prim, *links} - set(robot.moving_links))
        for configuration in robot.configurations:
            stamp = listener.publish(configuration.published)
            moving = listener.wait_for_transforms(stamp, robot.moving_solid_links)
            twice = moving.keys() & listener.static.keys()
            assert not twice, f"on /tf and on /tf_static: {sorted(twice)}"
            poses = poses_from_tf({**listener.static, **moving}, robot.default_prim)
            del poses[robot.default_prim]
            unknown = poses.keys() - set(robot.links)
            assert not unknown, f"frames that are no links of the URDF: {sorted(unknown)}"
            loose = links - poses.keys()
            assert not loose, f"not joined to the robot on TF: {sorted(loose)}"
            errors.compare(configuration, poses)
        assert listener.count_publishers("/joint_states") == 1, "the bridge publishes what it listens to"
        parent, pose = listener.static[robot.default_prim]
        assert parent == "world"
        assert max(distance(pose, IDENTITY)) < 1e-12, pose
        assert bridge.interrupt() == 0, bridge.output

    assert errors.configurations == CONFIGURATIONS
    assert errors.poses >= CONFIGURATIONS * len(links), f"only {errors.poses} poses were compared"
    assert errors.small, errors
