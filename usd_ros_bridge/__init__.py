"""usd_ros_bridge: OpenUSD robots as live ROS 2 interfaces (REP 0158).

The names below are the public surface. They are loaded when first used, so that importing the package costs nothing
and needs neither OpenUSD nor ROS.
"""

from __future__ import annotations

TYPE_CHECKING = False  # That of typing, whose import takes longer than all of this.
if TYPE_CHECKING:
    from typing import Any

    from usd_ros_bridge.api import add_physics as add_physics
    from usd_ros_bridge.api import load_plan as load_plan
    from usd_ros_bridge.backends.array import ArrayBackend as ArrayBackend
    from usd_ros_bridge.backends.array import rows_of as rows_of
    from usd_ros_bridge.backends.base import ActionBackend as ActionBackend
    from usd_ros_bridge.backends.base import Backend as Backend
    from usd_ros_bridge.backends.base import BackendContext as BackendContext
    from usd_ros_bridge.backends.base import BackendInput as BackendInput
    from usd_ros_bridge.backends.base import BodyContacts as BodyContacts
    from usd_ros_bridge.backends.base import Capabilities as Capabilities
    from usd_ros_bridge.backends.base import ContactBackend as ContactBackend
    from usd_ros_bridge.backends.base import EntityBackend as EntityBackend
    from usd_ros_bridge.backends.base import EntityState as EntityState
    from usd_ros_bridge.backends.base import Goal as Goal
    from usd_ros_bridge.backends.base import RayBackend as RayBackend
    from usd_ros_bridge.backends.base import RayCaster as RayCaster
    from usd_ros_bridge.backends.base import RayHits as RayHits
    from usd_ros_bridge.backends.base import RenderBackend as RenderBackend
    from usd_ros_bridge.backends.base import SensorBackend as SensorBackend
    from usd_ros_bridge.backends.base import ServiceBackend as ServiceBackend
    from usd_ros_bridge.backends.base import StateTransferBackend as StateTransferBackend
    from usd_ros_bridge.backends.mujoco import MujocoBackend as MujocoBackend
    from usd_ros_bridge.backends.mujoco import build_spec as build_spec
    from usd_ros_bridge.backends.mujoco import compile_model as compile_model
    from usd_ros_bridge.controllers.controller_group import ControllerContext as ControllerContext
    from usd_ros_bridge.controllers.controller_group import ControllerGroup as ControllerGroup
    from usd_ros_bridge.controllers.controller_group import GoalGroup as GoalGroup
    from usd_ros_bridge.controllers.controller_group import GoalPort as GoalPort
    from usd_ros_bridge.controllers.controller_group import OdometryGroup as OdometryGroup
    from usd_ros_bridge.controllers.controller_group import PassiveGroup as PassiveGroup
    from usd_ros_bridge.controllers.controller_group import References as References
    from usd_ros_bridge.controllers.controller_group import StatefulGroup as StatefulGroup
    from usd_ros_bridge.controllers.diff_drive import base_rows as base_rows
    from usd_ros_bridge.controllers.diff_drive import wheel_signs as wheel_signs
    from usd_ros_bridge.controllers.twist_commands import TwistAxis as TwistAxis
    from usd_ros_bridge.controllers.twist_commands import TwistCommands as TwistCommands
    from usd_ros_bridge.controllers.twist_commands import WheelCommands as WheelCommands
    from usd_ros_bridge.controllers.wheel_odometry import arc as arc
    from usd_ros_bridge.errors import AssetError as AssetError
    from usd_ros_bridge.errors import BackendError as BackendError
    from usd_ros_bridge.errors import BridgeError as BridgeError
    from usd_ros_bridge.errors import CallTimeoutError as CallTimeoutError
    from usd_ros_bridge.errors import ChangeRefusedError as ChangeRefusedError
    from usd_ros_bridge.errors import GoalAbortedError as GoalAbortedError
    from usd_ros_bridge.errors import HandlerTimeoutError as HandlerTimeoutError
    from usd_ros_bridge.errors import OptionError as OptionError
    from usd_ros_bridge.errors import StrictError as StrictError
    from usd_ros_bridge.errors import VariantError as VariantError
    from usd_ros_bridge.export.mesh_files import MeshCache as MeshCache
    from usd_ros_bridge.export.urdf import robot_urdf as robot_urdf
    from usd_ros_bridge.model.actuation import Unmoved as Unmoved
    from usd_ros_bridge.model.change import ChangeReport as ChangeReport
    from usd_ros_bridge.model.controller_schemas import ControllerPort as ControllerPort
    from usd_ros_bridge.model.controller_schemas import ControllerSchema as ControllerSchema
    from usd_ros_bridge.model.diagnostics import Diagnostic as Diagnostic
    from usd_ros_bridge.model.exporters import ExportContext as ExportContext
    from usd_ros_bridge.model.exporters import Exporter as Exporter
    from usd_ros_bridge.model.exporters import ExportOption as ExportOption
    from usd_ros_bridge.model.goals import FollowTrajectoryFeedback as FollowTrajectoryFeedback
    from usd_ros_bridge.model.goals import FollowTrajectoryGoal as FollowTrajectoryGoal
    from usd_ros_bridge.model.goals import FollowTrajectoryResult as FollowTrajectoryResult
    from usd_ros_bridge.model.goals import GripperGoal as GripperGoal
    from usd_ros_bridge.model.goals import GripperState as GripperState
    from usd_ros_bridge.model.message_types import CodecPlugin as CodecPlugin
    from usd_ros_bridge.model.message_types import MessageType as MessageType
    from usd_ros_bridge.model.physics import PhysicsScene as PhysicsScene
    from usd_ros_bridge.model.plan import BridgePlan as BridgePlan
    from usd_ros_bridge.model.plan import ControllerPlan as ControllerPlan
    from usd_ros_bridge.model.records import ControllerRecord as ControllerRecord
    from usd_ros_bridge.model.records import attribute as attribute
    from usd_ros_bridge.model.sensor_schemas import SensorAttribute as SensorAttribute
    from usd_ros_bridge.model.sensor_schemas import SensorModel as SensorModel
    from usd_ros_bridge.model.state import ArraySample as ArraySample
    from usd_ros_bridge.model.state import Commands as Commands
    from usd_ros_bridge.model.state import JointStateSample as JointStateSample
    from usd_ros_bridge.model.state import Layout as Layout
    from usd_ros_bridge.model.state import PoseSample as PoseSample
    from usd_ros_bridge.model.state import SensorSample as SensorSample
    from usd_ros_bridge.model.state import State as State
    from usd_ros_bridge.model.state import StepCommands as StepCommands
    from usd_ros_bridge.model.state import TwistSample as TwistSample
    from usd_ros_bridge.options import BridgeOptions as BridgeOptions
    from usd_ros_bridge.options import PlanOptions as PlanOptions
    from usd_ros_bridge.options import ReadOptions as ReadOptions
    from usd_ros_bridge.options import VariantSelection as VariantSelection
    from usd_ros_bridge.planning.controller_planner import ControllerFault as ControllerFault
    from usd_ros_bridge.planning.controller_planner import ControllerPlanner as ControllerPlanner
    from usd_ros_bridge.planning.diff import difference as difference
    from usd_ros_bridge.process_settings import tune_process as tune_process
    from usd_ros_bridge.ranges import NumberRange as NumberRange
    from usd_ros_bridge.ros.bridge import Bridge as Bridge
    from usd_ros_bridge.ros.bridge_status import BridgeStatus as BridgeStatus
    from usd_ros_bridge.ros.bridge_status import InterfaceStatus as InterfaceStatus
    from usd_ros_bridge.ros.bridge_status import TimeStatus as TimeStatus
    from usd_ros_bridge.ros.codecs.control_msgs import ActionCodec as ActionCodec
    from usd_ros_bridge.ros.codecs.encoding import Encoding as Encoding
    from usd_ros_bridge.ros.codecs.encoding import MessageCodec as MessageCodec
    from usd_ros_bridge.ros.codecs.encoding import NoSourceError as NoSourceError
    from usd_ros_bridge.ros.codecs.encoding import array_of as array_of
    from usd_ros_bridge.ros.codecs.encoding import sensed as sensed
    from usd_ros_bridge.ros.codecs.std_msgs import AttributeValue as AttributeValue
    from usd_ros_bridge.ros.endpoints.action_client import ActionResult as ActionResult
    from usd_ros_bridge.ros.endpoints.calls import Call as Call
    from usd_ros_bridge.ros.endpoints.handlers import Binding as Binding
    from usd_ros_bridge.ros.endpoints.handlers import BridgeClock as BridgeClock
    from usd_ros_bridge.ros.endpoints.handlers import HandlerRegistry as HandlerRegistry
    from usd_ros_bridge.ros.recording.offline_bridge import OfflineBridge as OfflineBridge
    from usd_ros_bridge.ros.transport import use_large_message_transport as use_large_message_transport
    from usd_ros_bridge.runtime.command_sinks import SinkContext as SinkContext
    from usd_ros_bridge.runtime.command_sinks import SinkRefusal as SinkRefusal
    from usd_ros_bridge.runtime.controller_manager import ControllerStatus as ControllerStatus
    from usd_ros_bridge.runtime.sensor_context import SensorContext as SensorContext
    from usd_ros_bridge.runtime.sensor_context import SensorSetup as SensorSetup
    from usd_ros_bridge.runtime.sim_time import TimeControl as TimeControl
    from usd_ros_bridge.runtime.step_callbacks import StepState as StepState
    from usd_ros_bridge.runtime.tick_access import JointCommandWriter as JointCommandWriter
    from usd_ros_bridge.runtime.tick_access import TickState as TickState
    from usd_ros_bridge.sweep.distributions import Discrete as Discrete
    from usd_ros_bridge.sweep.distributions import LogUniform as LogUniform
    from usd_ros_bridge.sweep.distributions import Normal as Normal
    from usd_ros_bridge.sweep.distributions import Uniform as Uniform
    from usd_ros_bridge.sweep.run_context import RunContext as RunContext
    from usd_ros_bridge.sweep.run_specs import RunSpec as RunSpec
    from usd_ros_bridge.sweep.run_specs import plan_runs as plan_runs
    from usd_ros_bridge.sweep.sweep_description import FunctionDriver as FunctionDriver
    from usd_ros_bridge.sweep.sweep_description import LaunchDriver as LaunchDriver
    from usd_ros_bridge.sweep.sweep_description import Randomization as Randomization
    from usd_ros_bridge.sweep.sweep_description import RunMetric as RunMetric
    from usd_ros_bridge.sweep.sweep_description import Sampling as Sampling
    from usd_ros_bridge.sweep.sweep_description import Signal as Signal
    from usd_ros_bridge.sweep.sweep_description import StartPose as StartPose
    from usd_ros_bridge.sweep.sweep_description import StopCondition as StopCondition
    from usd_ros_bridge.sweep.sweep_description import Sweep as Sweep
    from usd_ros_bridge.sweep.sweep_description import TopicCommand as TopicCommand
    from usd_ros_bridge.sweep.sweep_engine import SweepResult as SweepResult
    from usd_ros_bridge.sweep.sweep_engine import run_sweep as run_sweep
    from usd_ros_bridge.sweep.sweep_file import load_sweep as load_sweep
    from usd_ros_bridge.sweep.sweep_file import parse_sweep as parse_sweep
    from usd_ros_bridge.sweep.sweep_file import sweep_schema as sweep_schema
    from usd_ros_bridge.sweep.sweep_progress import SweepProgress as SweepProgress
    from usd_ros_bridge.sweep.sweep_run import RunOutcome as RunOutcome
    from usd_ros_bridge.sweep.sweep_run import RunWorker as RunWorker

__version__ = "0.1.0"

_NAMES = {
    "api": "add_physics load_plan",
    "backends.array": "ArrayBackend rows_of",
    "backends.base": "ActionBackend Backend BackendContext BackendInput BodyContacts Capabilities ContactBackend "
    "EntityBackend EntityState Goal RayBackend RayCaster RayHits RenderBackend "
    "SensorBackend ServiceBackend StateTransferBackend",
    "backends.mujoco": "MujocoBackend build_spec compile_model",
    "controllers.controller_group": "ControllerContext ControllerGroup GoalGroup GoalPort OdometryGroup PassiveGroup "
    "References StatefulGroup",
    "controllers.diff_drive": "base_rows wheel_signs",
    "controllers.twist_commands": "TwistAxis TwistCommands WheelCommands",
    "controllers.wheel_odometry": "arc",
    "errors": "AssetError BackendError BridgeError CallTimeoutError ChangeRefusedError GoalAbortedError "
    "HandlerTimeoutError OptionError StrictError VariantError",
    "export.mesh_files": "MeshCache",
    "export.urdf": "robot_urdf",
    "model.actuation": "Unmoved",
    "model.change": "ChangeReport",
    "model.controller_schemas": "ControllerPort ControllerSchema",
    "model.diagnostics": "Diagnostic",
    "model.exporters": "ExportContext ExportOption Exporter",
    "model.goals": "FollowTrajectoryFeedback FollowTrajectoryGoal FollowTrajectoryResult GripperGoal "
    "GripperState",
    "model.message_types": "CodecPlugin MessageType",
    "model.physics": "PhysicsScene",
    "model.plan": "BridgePlan ControllerPlan",
    "model.records": "ControllerRecord attribute",
    "model.sensor_schemas": "SensorAttribute SensorModel",
    "model.state": "ArraySample Commands JointStateSample Layout PoseSample SensorSample State StepCommands "
    "TwistSample",
    "options": "BridgeOptions PlanOptions ReadOptions VariantSelection",
    "planning.controller_planner": "ControllerFault ControllerPlanner",
    "planning.diff": "difference",
    "process_settings": "tune_process",
    "ranges": "NumberRange",
    "ros.bridge": "Bridge",
    "ros.bridge_status": "BridgeStatus InterfaceStatus TimeStatus",
    "ros.codecs.control_msgs": "ActionCodec",
    "ros.codecs.encoding": "Encoding MessageCodec NoSourceError array_of sensed",
    "ros.codecs.std_msgs": "AttributeValue",
    "ros.endpoints.action_client": "ActionResult",
    "ros.endpoints.calls": "Call",
    "ros.endpoints.handlers": "Binding BridgeClock HandlerRegistry",
    "ros.recording.offline_bridge": "OfflineBridge",
    "ros.transport": "use_large_message_transport",
    "runtime.command_sinks": "SinkContext SinkRefusal",
    "runtime.controller_manager": "ControllerStatus",
    "runtime.sensor_context": "SensorContext SensorSetup",
    "runtime.sim_time": "TimeControl",
    "runtime.step_callbacks": "StepState",
    "runtime.tick_access": "JointCommandWriter TickState",
    "sweep.distributions": "Discrete LogUniform Normal Uniform",
    "sweep.run_context": "RunContext",
    "sweep.run_specs": "RunSpec plan_runs",
    "sweep.sweep_description": "FunctionDriver LaunchDriver Randomization RunMetric Sampling Signal StartPose "
    "StopCondition Sweep TopicCommand",
    "sweep.sweep_engine": "SweepResult run_sweep",
    "sweep.sweep_file": "load_sweep parse_sweep sweep_schema",
    "sweep.sweep_progress": "SweepProgress",
    "sweep.sweep_run": "RunOutcome RunWorker",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
