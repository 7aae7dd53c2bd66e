"""A storm of entities: publishers of all QoS mixes come, go and replace each other while variants switch.

The bridge runs in a process of its own, whose exit status tells whether rclpy survived it.
`python test/ros/entity_storm.py --rounds 200 --executor events` prints what came of it as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2])]

EXECUTORS = ("own", "poll", "single", "multi", "events")
"""Who runs the bridge's callbacks: its own thread, its own `poll`, or a host's executor."""
TOPICS = tuple(f"topic_{number}" for number in range(10))
TYPE = "geometry_msgs/msg/Twist"
_QOS = (
    "",
    'token ros:topic:qos:reliability = "reliable"',
    'token ros:topic:qos:reliability = "best_effort"',
    "bool ros:topic:qos:match_publisher = true",
    'token ros:topic:qos:durability = "transient_local"',
)
VARIANTS = ("plain", "turned", "fewer")
TIMEOUT_S = 60.0


@dataclass(kw_only=True)
class EntityStorm:
    """What came of a storm.

    Attributes:
        rounds: How many rounds of publishers.
        switches: How many changes of the variant.
        status: Exit status of the bridge's process.
        unmatched: Interfaces without exactly one match at the end, and what they have instead.
        lost: Topics of which the last message did not arrive at the end.
        errors: What the bridge's process printed on stderr, cut short.
        seconds: How long it took.
    """

    rounds: int
    switches: int = 0
    status: int | None = None
    unmatched: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    errors: str = ""
    seconds: float = 0.0


# --- The bridge's process --------------------------------------------------------------------------------------------


def stage_text() -> str:
    """A robot with a subscription on each topic; the variants change their QoS, or leave half of them out."""
    variants = ""
    for turn, variant in enumerate(VARIANTS):
        topics = ""
        for index, name in enumerate(TOPICS):
            if variant == "fewer" and index % 2:
                continue
            topics += _topic(name, "subscription", _QOS[(index + turn) % len(_QOS)])
        topics += _topic(f"echo_{variant}", "publisher", "double ros:topic:publish_rate = 20")
        topics += _interface(f"switch_{variant}", "Service", "server", "std_srvs/srv/SetBool")
        topics += _interface(f"move_{variant}", "Action", "server", "test_msgs/action/Fibonacci")
        variants += f'"{variant}" {{\n{topics}}}\n'
    return f"""#usda 1.0
(
    defaultPrim = "robot"
    metersPerUnit = 1
    upAxis = "Z"
)

def Xform "robot" (
    prepend apiSchemas = ["RosContextAPI"]
    variants = {{
        string layout = "{VARIANTS[0]}"
    }}
    prepend variantSets = "layout"
)
{{
    string ros:context:namespace = "robot"
    variantSet "layout" = {{
{variants}    }}
}}
"""


def _topic(name: str, role: str, extra: str) -> str:
    return _interface(name, "Topic", role, TYPE, extra)


def _interface(name: str, kind: str, role: str, type_name: str, extra: str = "") -> str:
    lower = kind.lower()
    return f"""
def Scope "{name}" (
    prepend apiSchemas = ["Ros{kind}API"]
)
{{
    token ros:{lower}:role = "{role}"
    string ros:{lower}:name = "{name}"
    string ros:{lower}:type = "{type_name}"
    {extra}
}}
"""


def serve(executor: str) -> None:
    """Runs a bridge; carries out each line of stdin, a JSON list, and answers it."""
    import rclpy
    from pxr import Sdf, Usd

    from usd_ros_bridge import Bridge, BridgeOptions, VariantSelection, load_plan

    layer = Sdf.Layer.CreateAnonymous("storm.usda")
    assert layer.ImportFromString(stage_text())
    stage = Usd.Stage.Open(layer)
    with _host(executor) as (node, tick):
        bridge = Bridge(
            load_plan(stage),
            options=BridgeOptions(threaded=executor != "poll", scene_edits=True, publish_unmatched=True),
            node=node,
            report=lambda *told: print(*told, file=sys.stderr),
            inform=lambda *_: None,
        ).open()
        lock, done = threading.Lock(), threading.Event()

        def run() -> None:
            while not done.is_set():
                tick()
                with lock:
                    bridge.poll()
                    bridge.step()
                done.wait(0.005)

        stepper = threading.Thread(target=run)
        stepper.start()
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            command, *arguments = json.loads(line)
            if command == "quit":
                break
            if command == "variant":
                bridge.change(variants=[VariantSelection("/robot", "layout", arguments[0])]).result(TIMEOUT_S)
                print(json.dumps({"variant": arguments[0]}), flush=True)
            elif command == "rows":
                rows = [
                    (each.role, each.name, each.matched, each.count)
                    for each in bridge.status().interfaces
                    if each.kind == "topic"
                    and each.name.startswith("/robot/topic_")
                    and each.state != "disabled"
                ]
                print(json.dumps({"rows": rows}), flush=True)
        done.set()
        stepper.join()
        bridge.close()
    with suppress(Exception):
        rclpy.try_shutdown()
    print(json.dumps({"closed": True}), flush=True)


@contextmanager
def _host(kind: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Yields a host's node that its executor spins in a thread, or None; and what a host does in its loop."""
    if kind in {"own", "poll"}:
        yield None, lambda: None
        return
    import rclpy
    from rclpy.context import Context
    from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor, SingleThreadedExecutor
    from rclpy.experimental import EventsExecutor
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions

    kinds: dict[str, Any] = {
        "single": SingleThreadedExecutor,
        "multi": MultiThreadedExecutor,
        "events": EventsExecutor,
    }
    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("host", context=context)
    executor = kinds[kind](context=context)
    executor.add_node(node)
    failures: list[BaseException] = []
    done = threading.Event()

    def spin() -> None:
        try:
            while not done.is_set():
                executor.spin_once(timeout_sec=0.1)
        except ExternalShutdownException:
            pass
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield node, lambda: None
    finally:
        done.set()
        thread.join()
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
    if failures:
        raise RuntimeError("the host's executor was ended by an exception") from failures[0]


def cycle(count: int, seed: int) -> None:
    """Open, change and close bridges in this process, while peers are matched with what comes and goes."""
    import tempfile

    from geometry_msgs.msg import Twist
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    from usd_ros_bridge import Bridge, BridgeOptions, VariantSelection, load_plan

    rng = random.Random(seed)
    kept = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    profiles = (kept, QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    with tempfile.TemporaryDirectory() as folder, _peer() as node:
        asset = Path(folder) / "storm.usda"
        asset.write_text(stage_text(), encoding="utf-8")
        publishers = [
            node.create_publisher(Twist, f"/robot/{name}", profiles[index % 2])
            for index, name in enumerate(TOPICS)
        ]
        for _ in range(count):
            threaded = rng.random() < 0.8
            bridge = Bridge(
                load_plan(asset),
                options=BridgeOptions(threaded=threaded, publish_unmatched=True),
                report=print,
                inform=lambda *_: None,
            ).open()
            done = threading.Event()
            spin = threading.Thread(
                target=partial(_spin, bridge) if threaded else partial(_poll, bridge, done)
            )
            spin.start()
            try:
                for _ in range(rng.randrange(3)):
                    for publisher in publishers:
                        publisher.publish(Twist())
                    if rng.random() < 0.5:
                        bridge.reload().result(TIMEOUT_S)
                    else:
                        wanted = VariantSelection("/robot", "layout", rng.choice(VARIANTS))
                        bridge.change(variants=[wanted]).result(TIMEOUT_S)
                if rng.random() < 0.3:
                    bridge.reload()
            finally:
                done.set()
                bridge.close()
                spin.join()


def _spin(bridge: Any) -> None:
    from usd_ros_bridge import BridgeError

    # It may have been closed before this thread began.
    with suppress(BridgeError):
        bridge.spin()


def _poll(bridge: Any, done: threading.Event) -> None:
    from usd_ros_bridge import BridgeError

    with suppress(BridgeError):
        while not done.wait(0.001):
            bridge.poll()
            bridge.step()


def run_cycles(count: int, *, seed: int = 0, timeout: float | None = None) -> tuple[int, str]:
    """Run `cycle` in a process of its own; return its exit status and what it printed."""
    command = [sys.executable, str(HERE), "--cycles", str(count), "--seed", str(seed)]
    done = subprocess.run(
        command, env=_environment(), capture_output=True, text=True, timeout=timeout, check=False
    )
    return done.returncode, done.stdout + done.stderr


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    # The ROS wheels' start-up marks the environment of processes that have been through it.
    environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    return environment


# --- The storm -------------------------------------------------------------------------------------------------------


class BridgeProcess:
    """The process that runs the bridge, spoken to line by line."""

    def __init__(self, executor: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve", executor],
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def read(self, timeout: float = TIMEOUT_S) -> dict[str, Any]:
        """Read one answer."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise TimeoutError(f"the bridge's process says nothing: {self.errors}")
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("the bridge's process has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, *command: str) -> dict[str, Any]:
        """Write one command and read the answer."""
        self.tell(*command)
        return self.read()

    def tell(self, *command: str) -> None:
        """Write one command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")

    @property
    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        return "".join(self._errors[-60:])

    def finish(self) -> int:
        """End it, and return its exit status."""
        with suppress(OSError):
            self.tell("quit")
        try:
            return self.process.wait(TIMEOUT_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._reader.join(5.0)

    def _collect(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)


def storm(rounds: int, *, executor: str = "own", seed: int = 0) -> EntityStorm:
    """Let publishers come, go and replace each other.

    Args:
        rounds: How many times.
        executor: One of EXECUTORS.
        seed: What comes and goes when.
    """
    made = EntityStorm(rounds=rounds)
    begun = time.monotonic()
    bridge = BridgeProcess(executor)
    try:
        bridge.read()
        with _peer() as node:
            _rounds(node, bridge, random.Random(seed), made)
            _settle(node, bridge, made)
    except (EOFError, BrokenPipeError):
        pass
    finally:
        made.status = bridge.finish()
        made.errors = bridge.errors
    made.seconds = time.monotonic() - begun
    return made


def _rounds(node: Any, bridge: BridgeProcess, rng: random.Random, made: EntityStorm) -> None:
    from geometry_msgs.msg import Twist
    from rclpy.event_handler import PublisherEventCallbacks
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

    silent = PublisherEventCallbacks(use_default_callbacks=False)
    profiles = [
        QoSProfile(depth=5, reliability=reliability, durability=durability)
        for reliability, durability in product(
            (ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT),
            (DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL),
        )
    ]
    living: list[tuple[str, Any]] = []

    def add(name: str) -> None:
        publisher = node.create_publisher(
            Twist, f"/robot/{name}", rng.choice(profiles), event_callbacks=silent
        )
        publisher.publish(Twist())
        living.append((name, publisher))

    for number in range(made.rounds):
        kind = rng.choice(("come", "replace", "together", "go"))
        names = rng.sample(TOPICS, rng.randrange(1, 6))
        if kind == "go":
            for _, publisher in living:
                node.destroy_publisher(publisher)
            living.clear()
        for name in names:
            for _ in range(rng.randrange(1, 4) if kind == "together" else 1):
                add(name)
            if kind == "replace":
                for old in [each for each in living[:-1] if each[0] == name]:
                    living.remove(old)
                    node.destroy_publisher(old[1])
                    add(name)
        while len(living) > 30:
            node.destroy_publisher(living.pop(0)[1])
        if bridge.process.poll() is not None:
            raise EOFError
        if number % 4 == 3:
            bridge.ask("variant", rng.choice(VARIANTS))
            made.switches += 1
        else:
            # Sometimes at once, sometimes when discovery has come to rest: the storm's own pace, no wait for anything.
            time.sleep(rng.choice((0.0, 0.01, 0.05, 0.1)))
    for _, publisher in living:
        node.destroy_publisher(publisher)


def _settle(node: Any, bridge: BridgeProcess, made: EntityStorm) -> None:
    """Check that each topic finds a publisher that offers everything, and that its messages arrive."""
    from geometry_msgs.msg import Twist
    from rclpy.qos import DurabilityPolicy, QoSProfile

    profile = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    bridge.ask("variant", VARIANTS[1])
    bridge.ask("variant", VARIANTS[0])
    publishers = [node.create_publisher(Twist, f"/robot/{name}", profile) for name in TOPICS]
    counts = {name: count for _, name, _, count in bridge.ask("rows")["rows"]}
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        for publisher in publishers:
            publisher.publish(Twist())
        rows = bridge.ask("rows")["rows"]
        made.unmatched = tuple(f"{name} ({matched} matched)" for _, name, matched, _ in rows if matched != 1)
        made.lost = tuple(name for _, name, _, count in rows if count <= counts.get(name, 0))
        missing = {f"/robot/{name}" for name in TOPICS} - {name for _, name, _, _ in rows}
        made.unmatched += tuple(f"{name} (closed)" for name in sorted(missing))
        if not (made.unmatched or made.lost) or time.monotonic() > deadline:
            return
        time.sleep(0.1)


@contextmanager
def _peer() -> Iterator[Any]:
    import rclpy
    from rclpy.context import Context
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions

    context = Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("peer", context=context, enable_rosout=False, start_parameter_services=False)
    try:
        yield node
    finally:
        node.destroy_node()
        context.try_shutdown()


def main() -> None:
    """Run a storm, or the bridge of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=EXECUTORS)
    parser.add_argument("--cycles", type=int)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executor", choices=EXECUTORS, default="own")
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve)
        return
    if arguments.cycles is not None:
        cycle(arguments.cycles, arguments.seed)
        return
    from usd_ros_bridge.ros_domains import reserve_domain

    os.environ["ROS_DOMAIN_ID"] = str(reserve_domain().domain_id)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    made = storm(arguments.rounds, executor=arguments.executor, seed=arguments.seed)
    print(json.dumps(asdict(made), indent=2))
    sys.exit(made.status != 0 or bool(made.unmatched or made.lost))


if __name__ == "__main__":
    main()
