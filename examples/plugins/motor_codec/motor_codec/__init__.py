"""The messages of motor_msgs. Planning imports this module, without rclpy: the codecs are in another one."""

from usd_ros_bridge import CodecPlugin, MessageType

USD_ROS_BRIDGE_PROTOCOL = 1

STATES = CodecPlugin(meaning=MessageType(of_joints=True), codec="motor_codec.motor_codecs:STATES")
TEMPERATURES = CodecPlugin(
    meaning=MessageType(of_joints=True, best_effort=True), codec="motor_codec.motor_codecs:TEMPERATURES"
)
COMMAND = CodecPlugin(
    meaning=MessageType(of_joints=True),
    codec="motor_codec.motor_codecs:COMMAND",
    sink="motor_codec.motor_codecs:MotorSink",
)
