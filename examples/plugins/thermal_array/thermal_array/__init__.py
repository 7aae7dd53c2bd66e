"""A thermal array: a few pixels, each with the temperature of what it sees."""

from usd_ros_bridge import SensorAttribute, SensorModel

USD_ROS_BRIDGE_PROTOCOL = 1

CELSIUS = {"unit": "degrees Celsius", "low": -273.15, "high": 5000.0}

THERMAL_ARRAY = SensorModel(
    types=frozenset({"sensor_msgs/msg/Image"}),
    measure="thermal_array.array_sensor:ThermalArray",
    attributes={
        "field_of_view": SensorAttribute(
            name="thermal:fieldOfView", default=60.0, unit="degree", low=1.0, high=170.0
        ),
        "columns": SensorAttribute(name="thermal:columns", default=8, low=1, high=64),
        "rows": SensorAttribute(name="thermal:rows", default=8, low=1, high=64),
        "samples": SensorAttribute(name="thermal:samples", default=1, low=1, high=16),
        "range": SensorAttribute(name="thermal:range", default=7.0, unit="m", low=0.01),
        "ambient": SensorAttribute(name="thermal:ambientTemperature", default=20.0, **CELSIUS),
        "noise": SensorAttribute(name="thermal:noise", default=0.0, unit="K", low=0.0),
    },
    scene_attributes={
        "temperature": SensorAttribute(name="thermal:temperature", default=20.0, **CELSIUS),
    },
    needs=frozenset({"rays"}),
    max_rate=32.0,
    beside_loop=True,
)
