"""What a node of the bridge's is: the bridge itself, or a stand-in for another package's node. Light to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A node with the bridge's parameters.

    Attributes:
        node_name: Its name.
        defaults: Parameters whose default is another than the bridge's.
        description_parameter: Whether it has the text of the description as a parameter, too.
    """

    node_name: str
    defaults: Mapping[str, object] = field(default_factory=dict)
    description_parameter: bool = False


BRIDGE = Role(node_name="usd_ros_bridge")

ROBOT_STATE_PUBLISHER = Role(
    node_name="robot_state_publisher",
    defaults={
        "backend": "joint_states",
        "publish_frequency": 20.0,
        "tf_output": "shared",
        "base_transform": "none",
        "interfaces": "none",
    },
    description_parameter=True,
)
"""As the C++ node: joint states in, /tf, /tf_static and the description out, nothing else. The robot's place in the
world is for others to say."""
