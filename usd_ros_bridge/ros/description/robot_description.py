"""Latched descriptions: each robot as URDF on robot_description, and the summary of the plan on ~/plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.exceptions import ParameterException
from rclpy.parameter import Parameter
from std_msgs.msg import String

from usd_ros_bridge.errors import BridgeError, OptionError, escaped
from usd_ros_bridge.export.mesh_files import MeshCache
from usd_ros_bridge.export.plan_json import Resolve, plan_summary_text
from usd_ros_bridge.export.urdf import Urdf
from usd_ros_bridge.model.message_types import STRING
from usd_ros_bridge.model.plan import BridgePlan, QosPlan
from usd_ros_bridge.options import BridgeOptions, parse_shard
from usd_ros_bridge.planning.names import join
from usd_ros_bridge.reporting import Report
from usd_ros_bridge.ros.bridge_status import InterfaceStatus
from usd_ros_bridge.ros.description.description_builder import DescriptionBuilder, InTick, WaitForTick
from usd_ros_bridge.ros.description.mesh_sharing import MeshSharing
from usd_ros_bridge.ros.domains import Domain, DomainLimitError, Domains
from usd_ros_bridge.ros.endpoints import qos_profiles
from usd_ros_bridge.ros.publisher_handle import PublisherHandle
from usd_ros_bridge.ros.workers import Workers
from usd_ros_bridge.runtime.plan_binding import PlanBinding, PreparedChange

PLAN_TOPIC = "~/plan"
LATCHED_QOS = QosPlan(reliability="reliable", durability="transient_local", depth=1)

_SHOWN = 5
_MAKING = "it is being made"


class Descriptions:
    """Publish the descriptions of a plan's robots, each as soon as it is built. Nothing waits for it."""

    def __init__(
        self,
        plan: BridgePlan,
        domains: Domains,
        *,
        options: BridgeOptions,
        in_tick: InTick,
        wait_for_tick: WaitForTick,
        report: Report,
        workers: Workers | None = None,
    ) -> None:
        """Store the arguments.

        Args:
            plan: The plan.
            domains: Domains of the robots.
            options: Options of the bridge.
            in_tick: Run a job in the tick thread, to read a host's stage.
            wait_for_tick: Wait until the tick in progress ends.
            report: For what cannot be described.
            workers: Run requests for mesh files; None: serve none.
        """
        self._plan = plan
        self._domains = domains
        self._options = options
        self._report = report
        self._lock = threading.Lock()
        self._topics: dict[str, DescriptionTopic] = {}
        self._parameter = DescriptionParameter(domains.main)
        shard = parse_shard(plan.options.shard)
        self._sharing = MeshSharing(
            plan.asset,
            options,
            workers=workers,
            report=report,
            # The first one serves the files of all: on one machine they are in one directory.
            offers_service=shard is None or shard.number == 1,
        )
        self._closed = False
        self._builder: DescriptionBuilder | None = DescriptionBuilder(
            self,
            meshes=self._mesh_files,
            in_tick=in_tick,
            wait_for_tick=wait_for_tick,
            defer=None if domains.threaded else domains.main.defer,
        )

    def open(self) -> None:
        """Create the publishers, and start to build the descriptions.

        Raises:
            OptionError: Mesh files cannot be served as `mesh_uris` says.
        """
        if self._options.publish_description:
            self._sharing.open()
            self._parameter.open()
            self._describe(self._plan)

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare to describe the robots of another plan, as `PlanComponent.prepare`."""
        del binding
        return PreparedChange(cleanup=partial(self._describe, plan))

    def _describe(self, plan: BridgePlan) -> None:
        """Describe a plan's robots. Publishers and texts of robots that are still there stay."""
        if not self._options.publish_description or self._closed:
            return
        wanted = self._places(plan)
        with self._lock:
            self._plan = plan
            gone = [path for path, topic in self._topics.items() if wanted.get(path) != topic.place]
            left = [self._topics.pop(path) for path in gone]
            for topic in left:
                topic.close()
            self._topics = {
                path: self._topics.get(path) or DescriptionTopic(path, place).open()
                for path, place in wanted.items()
            }
        for place in wanted.values():
            if place.domain is not None:
                self._sharing.serve(place.domain)
        if (builder := self._builder) is not None:
            builder.request(plan)

    def close(self) -> None:
        """Destroy the publishers and end the thread. Idempotent, from any thread."""
        builder, self._builder = self._builder, None
        if builder is not None:
            builder.close()
        self._parameter.close()
        self._sharing.close()
        with self._lock:
            self._closed = True
            topics, self._topics = self._topics, {}
            for topic in topics.values():
                topic.close()

    @property
    def is_complete(self) -> bool:
        """Return whether each robot is described, or why not is known."""
        with self._lock:
            return all(topic.reason != _MAKING for topic in self._topics.values())

    def status(self) -> list[InterfaceStatus]:
        """Return the status of each robot's topic, and of the services for mesh files."""
        with self._lock:
            rows = [topic.status() for topic in self._topics.values()]
        return [*rows, *self._sharing.status()]

    def receive(self, plan: BridgePlan, robot: int, urdf: Urdf) -> None:
        """Publish a description, unless the same was sent last."""
        path, text = plan.robots[robot].path, self._sharing.text(urdf.text)
        with self._lock:
            topic = self._topics.get(path)
            if self._closed or plan is not self._plan or topic is None:
                return
            sent = topic.send(text)
        self._show_faults(path, urdf)
        if sent and robot == 0:
            self._parameter.show(text)

    def fail(self, plan: BridgePlan, reason: str) -> None:
        """Report why there is no description."""
        with self._lock:
            if self._closed or plan is not self._plan:
                return
            for topic in self._topics.values():
                topic.reason = topic.reason and reason
        self._report("description", f"robots cannot be described on {ROBOT_DESCRIPTION}: {reason}")

    def _places(self, plan: BridgePlan) -> dict[str, TopicLocation]:
        """Return the topic of each robot, or why there is none, by prim path."""
        main = self._domains.main

        def key(domain: Domain, name: str) -> tuple[int, str]:
            return domain.domain_id, domain.resolve(name)

        taken = {
            (main.domain_id if topic.domain_id is None else topic.domain_id, topic.name): topic.path
            for topic in plan.topics
            if topic.enabled and topic.role == "publisher" and topic.type == STRING
        }
        places = {}
        for robot in plan.robots:
            name = join(robot.namespace, ROBOT_DESCRIPTION)
            try:
                domain = self._domains.get(robot.domain_id)
            except DomainLimitError as error:
                places[robot.path] = TopicLocation(name=name, reason=str(error))
                continue
            other = taken.get((domain.domain_id, name)) or taken.setdefault(key(domain, name), robot.path)
            if other == robot.path:
                places[robot.path] = TopicLocation(name=name, domain=domain)
            else:
                places[robot.path] = TopicLocation(name=name, reason=f"{other} has that topic")
        return places

    def _mesh_files(self) -> MeshCache | None:
        try:
            return MeshCache(self._options.mesh_directory, installed=self._sharing.installed)
        except BridgeError as error:
            self._report("description.meshes", f"{ROBOT_DESCRIPTION} has no meshes: {error}")
            return None

    def _show_faults(self, path: str, urdf: Urdf) -> None:
        faults = [each for each in urdf.diagnostics if each.severity != "info"]
        for each in faults[:_SHOWN]:
            self._report(f"description:{each.path}:{each.code}", str(each))
        if len(faults) > _SHOWN:
            more = f"{len(faults) - _SHOWN} more remarks on the description of {path}: `usd_ros_bridge urdf` has them"
            self._report(f"description:{path}", more)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLocation:
    """Topic of a robot's description.

    Attributes:
        name: Absolute topic name, before remaps.
        domain: Domain; None if the robot is not described.
        reason: Why not.
    """

    name: str
    domain: Domain | None = None
    reason: str = ""


class LatchedText:
    """Text on a latched topic, sent when it changes.

    Attributes:
        handle: The publisher, None while closed.
        count: Number of messages sent.
    """

    def __init__(self, domain: Domain, name: str) -> None:
        """Args: domain: Domain of the topic. name: Topic, before remaps."""
        self.handle: PublisherHandle | None = None
        self.count = 0
        self._domain = domain
        self._name = name
        self._text = ""

    def open(self) -> None:
        """Create the publisher, through the node so that remap rules apply."""
        # Without events: no subscriber can ask for more than this offers, and no executor has to serve it.
        callbacks = PublisherEventCallbacks(use_default_callbacks=False)
        profile = qos_profiles.profile(LATCHED_QOS)
        self.handle = self._domain.open_publisher(String, self._name, profile, event_callbacks=callbacks)

    def send(self, text: str) -> bool:
        """Publish a text, unless it is the one sent last. Return whether it was sent."""
        if self.handle is None or text == self._text:
            return False
        self.handle.publish(String(data=text))
        self._text = text
        self.count += 1
        return True

    def close(self) -> None:
        """Destroy the publisher. Idempotent."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.close(self._domain.destroy)


class DescriptionTopic:
    """Latched topic of one robot.

    Attributes:
        place: Topic and domain.
        reason: Why nothing was sent; "" once something was.
    """

    def __init__(self, path: str, place: TopicLocation) -> None:
        """Store the arguments.

        Args:
            path: Prim path of the robot.
            place: Topic and domain.
        """
        self.place = place
        self.reason = place.reason or _MAKING
        self._path = path
        self._latched = None if place.domain is None else LatchedText(place.domain, place.name)

    def open(self) -> DescriptionTopic:
        """Create the publisher. Return the topic."""
        if self._latched is not None:
            self._latched.open()
        return self

    def send(self, text: str) -> bool:
        """Publish a description, unless it is the one sent last. Return whether it was sent."""
        if self._latched is None or not self._latched.send(text):
            return False
        self.reason = ""
        return True

    def close(self) -> None:
        """Destroy the publisher. Idempotent."""
        if self._latched is not None:
            self._latched.close()

    def status(self) -> InterfaceStatus:
        """Return the status of the topic."""
        domain, latched = self.place.domain, self._latched
        handle, count = (None, 0) if latched is None else (latched.handle, latched.count)
        return InterfaceStatus(
            kind="topic",
            role="publisher",
            path=self._path,
            name=self.place.name if handle is None else handle.topic_name,
            type=STRING,
            domain_id=None if domain is None else domain.domain_id,
            matched=0 if handle is None else handle.matched(),
            count=count,
            state="disabled" if domain is None else "active" if count else "idle",
            reason=self.reason,
            qos=LATCHED_QOS,
        )


ROBOT_DESCRIPTION = "robot_description"


def declare_description(node: Any) -> str:
    """Declare the parameter on a node, and return what it was given: text that the asset's own will replace.

    Raises:
        OptionError: It was given something else than text.
    """
    about = ParameterDescriptor(description="The robot as URDF, once it is made from the asset.")
    try:
        return str(node.declare_parameter(ROBOT_DESCRIPTION, "", about).value)
    except ParameterException as error:
        raise OptionError(f"parameter {ROBOT_DESCRIPTION}: {' '.join(str(error).split())}") from error


class DescriptionParameter:
    """Set the parameter robot_description if the node has it, and refuse all other values."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._text: str | None = None
        self._watched = False

    def open(self) -> None:
        """Refuse requests of others from here on."""
        node = self._domain.node
        if node is not None and node.has_parameter(ROBOT_DESCRIPTION):
            node.add_on_set_parameters_callback(self._check)
            self._watched = True

    def show(self, text: str) -> None:
        """Set the parameter to `text`, from any thread."""
        if self._watched:
            self._text = text
            # Requests are handled there, too.
            self._domain.defer(self._set)

    def close(self) -> None:
        """Stop refusing. Idempotent."""
        watched, self._watched = self._watched, False
        if watched:
            self._domain.node.remove_on_set_parameters_callback(self._check)

    def _set(self) -> None:
        if self._watched:
            self._domain.node.set_parameters(
                [Parameter(ROBOT_DESCRIPTION, Parameter.Type.STRING, self._text)]
            )

    def _check(self, parameters: Sequence[Any]) -> Any:
        for parameter in parameters:
            if parameter.name == ROBOT_DESCRIPTION and parameter.value != self._text:
                reason = f"{ROBOT_DESCRIPTION} is made from the asset: edit that, or start with another one"
                return SetParametersResult(successful=False, reason=escaped(reason))
        return SetParametersResult(successful=True)


class PlanSummary:
    """Publish the summary of the plan once the bridge is ready, and again when it changes; off the tick.

    The message is the ready signal of the bridge: all that it serves exists before it is sent.
    """

    def __init__(
        self,
        plan: BridgePlan,
        main: Domain,
        *,
        refused: Callable[[], Mapping[str, str]],
        resolve: Resolve | None = None,
        enabled: bool = True,
    ) -> None:
        """Store the arguments.

        Args:
            plan: The plan.
            main: Domain of the topic.
            refused: Return by prim path why interfaces could not be opened.
            resolve: Return the name of an interface after remaps; None: there are none.
            enabled: False: there is no topic.
        """
        self._plan = plan
        self._main = main
        self._refused = refused
        self._resolve = resolve
        self._enabled = enabled
        self._text = LatchedText(main, PLAN_TOPIC)

    def open(self) -> None:
        """Create the publisher."""
        if self._enabled:
            self._text.open()

    def publish(self) -> None:
        """Publish the summary soon, as a job of the main domain: everything else is open."""
        self._main.defer(self._publish, urgent=False)

    def prepare(self, plan: BridgePlan, binding: PlanBinding) -> PreparedChange:
        """Prepare to publish another plan, as `PlanComponent.prepare`, once its interfaces are open."""
        del binding

        def finish() -> None:
            self._plan = plan
            self.publish()

        return PreparedChange(finish=finish)

    def close(self) -> None:
        """Destroy the publisher. Idempotent."""
        self._text.close()

    @property
    def is_published(self) -> bool:
        """Return whether nothing is left to publish: a summary was, or there is no topic."""
        return self._text.count > 0 or not self._enabled

    def _publish(self) -> None:
        if self._text.handle is not None:
            self._text.send(plan_summary_text(self._plan, disabled=self._refused(), resolve=self._resolve))
