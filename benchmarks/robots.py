"""The robots that benchmarks run on: chains of revolute joints, as a plan, a USD layer and a URDF."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from builders.plans import Axis, PlanBuilder, RobotBuilder
from usd_ros_bridge.backends.base import BackendContext, BackendInput, Capabilities
from usd_ros_bridge.model.plan import BridgePlan, TfOutput
from usd_ros_bridge.model.state import Commands, State
from usd_ros_bridge.spatial.pose import Pose

AXES: tuple[Axis, ...] = ("X", "Y", "Z")
LIMB = 100
_PHASES = 64


def add_limbs(robot: RobotBuilder, joints: int) -> None:
    """Adds a base that is fixed to the world and limbs of at most LIMB links: as many moving frames as joints."""
    robot.body("base_link")
    robot.joint("anchor", "", "base_link", kind="fixed")
    for number in range(joints):
        parent = "base_link" if number % LIMB == 0 else f"link_{number - 1}"
        robot.body(f"link_{number}")
        robot.joint(
            f"joint_{number}",
            parent,
            f"link_{number}",
            axis=AXES[number % 3],
            body0_from_joint=Pose((0.1, 0.0, 0.05)),
        )


def new_robot(builder: PlanBuilder, namespace: str) -> RobotBuilder:
    """Adds a robot whose names all lie in a namespace of its own, /tf as well, so that two of them never meet."""
    output = TfOutput(tf=f"{namespace}/tf", tf_static=f"{namespace}/tf_static")
    return builder.robot("/robot", namespace=namespace, tf_outputs=(output,))


def limbs_plan(joints: int, namespace: str) -> BridgePlan:
    """Returns the plan of one robot with `joints` moving frames."""
    builder = PlanBuilder()
    add_limbs(new_robot(builder, namespace), joints)
    return builder.build()


class SwayingBackend:
    """Moves every joint at every step, and a floating base where there is one, for next to nothing: a copy.

    Bridge time alone decides the state, so that the cost measured is the bridge's.
    """

    capabilities = Capabilities(commands=False, every_step=False)

    def __init__(self, *, floating: Sequence[int] = ()) -> None:
        """Stores which bodies move.

        Args:
            floating: Layout rows of bodies that no joint holds.
        """
        self._floating = list(floating)
        self._state: State | None = None
        self._positions = np.zeros((_PHASES, 0))
        self._calls = 0

    def open(self, context: BackendContext) -> None:
        """Works out the positions that it goes through."""
        self._state = State.initial(context.plan.layout)
        rows = np.arange(len(self._state.joint_position))
        phases = np.arange(_PHASES)[:, None] * (math.tau / _PHASES)
        self._positions = 0.5 * np.sin(phases + 0.1 * rows)
        if self._floating:
            self._state.body_twist = np.zeros((len(self._state.body_pose), 6))

    def inputs(self) -> tuple[BackendInput, ...]:
        """Needs nothing."""
        return ()

    def receive(self, key: str, sample: object) -> None:
        """Never called: there are no inputs."""

    def step(self, time_ns: int, commands: Commands) -> State:  # noqa: ARG002 - Backend
        """Returns the next positions."""
        state = self._state
        assert state is not None
        state.time_ns = time_ns
        self._calls += 1
        state.joint_position[:] = self._positions[self._calls % _PHASES]
        for row in self._floating:
            state.body_pose[row, 0] = 0.001 * (self._calls % 1000)
        return state

    def reset(self) -> None:
        """Starts over."""
        self._calls = 0

    def close(self) -> None:
        """Lets the state go."""
        self._state = None


def write_chain(path: Path, joints: int) -> None:
    """Writes a serial chain of `joints` revolute joints on a fixed base as a USD layer."""
    parts = [_USD_HEAD, _body("base_link", 0.0)]
    parts += [_body(f"link_{number}", 0.1 * (number + 1)) for number in range(joints)]
    parts.append('    def Scope "joints"\n    {\n')
    parts.append('        def PhysicsFixedJoint "anchor"\n        {\n')
    parts.append("            rel physics:body1 = </robot/base_link>\n        }\n")
    for number in range(joints):
        parent = "base_link" if number == 0 else f"link_{number - 1}"
        parts.append(
            f'        def PhysicsRevoluteJoint "joint_{number}"\n        {{\n'
            f'            uniform token physics:axis = "Z"\n'
            f"            rel physics:body0 = </robot/{parent}>\n"
            f"            rel physics:body1 = </robot/link_{number}>\n"
            f"            point3f physics:localPos0 = (0, 0, 0.1)\n        }}\n"
        )
    path.write_text("".join([*parts, "    }\n}\n"]), encoding="utf-8")


def write_urdf(path: Path, joints: int) -> None:
    """Writes the same chain as a URDF, for robot_state_publisher."""
    parts = ['<robot name="robot">', '<link name="base_link"/>']
    for number in range(joints):
        parent = "base_link" if number == 0 else f"link_{number - 1}"
        parts.append(
            f'<link name="link_{number}"/><joint name="joint_{number}" type="revolute"><parent link="{parent}"/>'
            f'<child link="link_{number}"/><origin xyz="0 0 0.1"/><axis xyz="0 0 1"/>'
            f'<limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
        )
    path.write_text("".join([*parts, "</robot>"]), encoding="utf-8")


_USD_HEAD = """#usda 1.0
(
    defaultPrim = "robot"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    timeCodesPerSecond = 1
    upAxis = "Z"
)

def Xform "robot" (
    prepend apiSchemas = ["PhysicsArticulationRootAPI"]
)
{
"""


def _body(name: str, height: float) -> str:
    return (
        f'    def Xform "{name}" (\n        prepend apiSchemas = ["PhysicsRigidBodyAPI"]\n    )\n    {{\n'
        f"        double3 xformOp:translate = (0, 0, {height:.6g})\n"
        f'        uniform token[] xformOpOrder = ["xformOp:translate"]\n    }}\n'
    )
