"""What every controller does."""

from pathlib import Path

import numpy as np

from usd_ros_bridge import TwistSample
from usd_ros_bridge.testing.controller_conformance import ControllerConformance


def twist(*values: float) -> TwistSample:
    x, y, yaw = values
    return TwistSample(stamp_ns=0, twist=np.array([x, y, 0.0, 0.0, 0.0, yaw]))


class TestMecanumDrive(ControllerConformance):
    asset = Path(__file__).parent / "youbot.usda"
    schema = "MecanumDriveAPI"
    samples = (twist(0.5, 0.0, 0.0), twist(0.2, -0.4, 0.7), twist(-0.1, 0.3, -1.0))
    stops_after = 2.0
