"""Message types that differ in what they are made of: for the first tier, where all installed types take too long."""

from __future__ import annotations

SOME_TYPES = (
    "builtin_interfaces/msg/Time",
    "control_msgs/action/FollowJointTrajectory_FeedbackMessage",
    "nav_msgs/msg/Odometry",
    "sensor_msgs/msg/BatteryState",
    "sensor_msgs/msg/JointState",
    "sensor_msgs/msg/PointCloud2",
    "simulation_interfaces/srv/GetEntityState_Response",
    "std_msgs/msg/ByteMultiArray",
    "test_msgs/msg/Arrays",
    "test_msgs/msg/BasicTypes",
    "test_msgs/msg/BoundedSequences",
    "test_msgs/msg/Empty",
    "test_msgs/msg/Nested",
    "test_msgs/msg/UnboundedSequences",
    "test_msgs/msg/WStrings",
    "tf2_msgs/msg/TFMessage",
)
