"""Every request is answered: by a handler, the backend or what is built in, else with the reason why not."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from functools import reduce

import pytest
from ament_index_python.resources import get_resource, get_resources
from nav_msgs.srv import LoadMap
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from sensor_msgs.srv import SetCameraInfo
from std_srvs.srv import Empty, SetBool, Trigger
from type_description_interfaces.srv import GetTypeDescription

from programs import run_python
from ros_plans import plan
from usd_ros_bridge import Bridge, BridgeOptions, Capabilities
from usd_ros_bridge.backends.kinematic import KinematicBackend
from usd_ros_bridge.model.plan import ServicePlan
from usd_ros_bridge.ros.compat import defer_responses
from usd_ros_bridge.ros.endpoints.service import refuse
from usd_ros_bridge.ros.interface_types import AmentCatalog, InterfaceTypeError, import_interface

LED, REBOOT = "/arm/set_led", "/arm/reboot"

CLIENT = """
import sys
import rclpy
from std_srvs.srv import SetBool
from usd_ros_bridge.ros.compat import make_executor

rclpy.init()
node = rclpy.create_node("asker")
executor = make_executor(rclpy.get_default_context())
executor.add_node(node)
client = node.create_client(SetBool, "/arm/set_led")
assert client.wait_for_service(60.0)
asked = []
while not any(future.done() for future in asked):
    # The first one may be lost: the server knows of the client's reader a moment later.
    asked.append(client.call_async(SetBool.Request()))
    executor.spin_once(timeout_sec=1.0)
for _ in range(200):
    future = client.call_async(SetBool.Request(data=True))
    while not future.done():
        executor.spin_once(timeout_sec=1.0)
    print(future.result().success)
node.destroy_node()
"""


def service(name, type_name="std_srvs/srv/SetBool", role="server"):
    return ServicePlan(path=f"/arm{name}", role=role, name=name, type=type_name)


@pytest.fixture
def ask(ros_harness):
    """`ask(class, name, ...)` returns the response, or with `wait=False` its future."""
    clients = {}

    def call(service_class, name, *, wait=True, **fields):
        client = clients.get(name)
        if client is None:
            client = clients[name] = ros_harness.node.create_client(service_class, name)
        ros_harness.wait_for(client.service_is_ready, what=f"service {name}")
        future = client.call_async(service_class.Request(**fields))
        if not wait:
            return future
        ros_harness.wait_for(future.done, what=f"the answer of {name}")
        return future.result()

    return call


# --- Nobody --------------------------------------------------------------------------------------------------------


def test_a_refusal_is_said_in_the_fields_that_the_type_has(start, ask):
    fields = {
        SetCameraInfo: {"success": False, "status_message": True},
        GetTypeDescription: {"successful": False, "failure_reason": True},
        LoadMap: {"result": LoadMap.Response.RESULT_UNDEFINED_FAILURE},
        SetParametersAtomically: {"result.successful": False, "result.reason": True},
    }
    names = {each: f"{each.__module__.partition('.')[0]}/srv/{each.__name__}" for each in fields}
    start(plan(*(service(f"/arm/{each.__name__}", name) for each, name in names.items())))
    for service_class, wanted in fields.items():
        response = ask(service_class, f"/arm/{service_class.__name__}")
        for field, value in wanted.items():
            found = reduce(getattr, field.split("."), response)
            assert "no handler" in found if value is True else found == value


def test_every_installed_service_type_can_say_why_it_refuses():
    """No type that is installed has a text for a reason that a refusal leaves empty."""
    unsaid, asked, catalog = [], 0, AmentCatalog()
    for package in get_resources("rosidl_interfaces"):
        for name in get_resource("rosidl_interfaces", package)[0].split():
            if not (name.startswith("srv/") and name.endswith(".srv")):
                continue
            try:
                found = import_interface(f"{package}/{name.removesuffix('.srv')}", catalog)
            except InterfaceTypeError:
                continue
            asked += 1
            response = refuse(found.Response(), "why")
            for field, field_type in response.get_fields_and_field_types().items():
                value = getattr(response, field)
                if field_type == "string" and re.search("message|error|reason", field) and value != "why":
                    unsaid.append(f"{package}/{name}: {field}")
                if field_type == "boolean" and re.search("succe|accept|^ok$", field):
                    assert value is False
    assert unsaid == []
    assert asked > 10


def test_requests_are_refused_with_a_message_and_never_left_waiting(start, ask):
    running = start(
        plan(
            service("/arm/light"),
            service("/arm/trigger", "std_srvs/srv/Trigger"),
            service("/arm/empty", "std_srvs/srv/Empty"),
        )
    )
    for service_class, name in ((SetBool, "/arm/light"), (Trigger, "/arm/trigger")):
        answer = ask(service_class, name)
        assert answer.success is False
        assert "no handler" in answer.message
        assert "no stage" in answer.message
    assert ask(Empty, "/arm/empty") == Empty.Response()
    ask(SetBool, "/arm/light")
    assert len(running.warnings.containing("/arm/light", "refused")) == 1
    row = running.row("/arm/light", "server")
    assert (row.count, row.errors, row.state, row.served_by) == (2, 0, "silent", "")
    assert "no handler" in row.reason


# --- Handlers ------------------------------------------------------------------------------------------------------


def fill(request, response):
    response.success, response.message = request.data, threading.current_thread().name


def give(request, response):
    return SetBool.Response(success=request.data, message=threading.current_thread().name)


async def fill_later(request, response):
    await asyncio.sleep(0.01)
    fill(request, response)


async def give_later(request, response):
    await asyncio.sleep(0.01)
    return give(request, response)


@pytest.mark.parametrize("when", ["before", "after"])
def test_handlers_answer_off_the_tick_bound_before_or_after_the_opening(start, ask, when):
    warnings = []
    handlers = {f"/arm/{each.__name__}": each for each in (fill, give, fill_later, give_later)}
    bridge = Bridge(plan(*map(service, handlers)), report=lambda *report: warnings.append(report))

    def bind():
        for name, handler in handlers.items():
            bridge.on_service(name, handler)

    if when == "before":
        bind()
    with bridge:
        if when == "after":
            assert not any(ask(SetBool, name, data=True).success for name in handlers)
            warnings.clear()
            bind()
        # Nobody steps the bridge.
        for name, handler in handlers.items():
            answer = ask(SetBool, name, data=True)
            assert answer.success is True
            assert answer.message == (
                "usd_ros_bridge-handlers"
                if asyncio.iscoroutinefunction(handler)
                else "usd_ros_bridge-handler"
            )
            assert ask(SetBool, name, data=False).success is False
            (row,) = [row for row in bridge.status().interfaces if row.name == name]
            assert (row.served_by, row.state, row.reason, row.errors) == ("embedder", "active", "", 0)
        assert warnings == []


def test_a_handler_that_is_removed_serves_no_more(start, ask):
    running = start(plan(service(LED)))
    with running.bridge.on_service(f"/arm{LED}", fill):
        assert ask(SetBool, LED, data=True).success is True
    assert "no handler" in ask(SetBool, LED, data=True).message


@pytest.mark.parametrize("name", ["Jazzy's", "SingleThreadedExecutor", "MultiThreadedExecutor"])
def test_any_executor_of_a_host_lets_handlers_answer_later(domain_id, name):
    """Some executors of rclpy await coroutines and others refuse them; none has to."""
    import rclpy
    from rclpy.context import Context
    from rclpy.node import Node
    from rclpy.signals import SignalHandlerOptions

    from usd_ros_bridge.ros.compat import make_executor

    makers = {
        "SingleThreadedExecutor": SingleThreadedExecutor,
        "MultiThreadedExecutor": MultiThreadedExecutor,
    }
    context = Context()
    rclpy.init(context=context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
    node = Node("host", context=context)
    executor = makers[name](context=context) if name in makers else make_executor(context)
    executor.add_node(node)
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            executor.spin_once(timeout_sec=0.05)

    spinner = threading.Thread(target=spin)
    spinner.start()
    try:
        with Bridge(plan(service(LED)), node=node) as bridge:
            bridge.on_service(LED, give_later)
            client = node.create_client(SetBool, LED)
            assert client.wait_for_service(60.0)
            done = threading.Event()
            future = client.call_async(SetBool.Request(data=True))
            future.add_done_callback(lambda _: done.set())
            assert done.wait(60.0)
            assert future.result().success is True
    finally:
        stop.set()
        spinner.join()
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


def test_a_slow_handler_blocks_neither_other_services_nor_publishers_nor_a_core(start, ask, ros_harness):
    gate = threading.Event()
    running = start(plan(service(LED), service(REBOOT, "std_srvs/srv/Trigger")))
    running.bridge.on_service(LED, lambda request, response: gate.wait(30.0) and fill(request, response))
    running.bridge.on_service(REBOOT, lambda _, response: setattr(response, "message", "free"))
    slow = ask(SetBool, LED, wait=False, data=True)
    behind = ask(SetBool, LED, wait=False, data=False)
    ask(Trigger, REBOOT)
    for _ in range(20):
        assert ask(Trigger, REBOOT).message == "free"
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() - began < 0.5:
        ros_harness.executor.spin_once(timeout_sec=0.5)
    # A share of the time, which other work of the machine makes smaller only.
    assert time.process_time() - used < 0.6 * (time.monotonic() - began)
    assert not slow.done()
    assert not behind.done()
    gate.set()
    ros_harness.wait_for(behind.done, what="the answers")
    # In order: the second came after the first.
    assert slow.done()
    assert (slow.result().success, behind.result().success) == (True, False)


def raise_it(request, response):
    raise ValueError("the led\nis broken")


async def raise_later(request, response):
    raise ValueError("the led\nis broken")


@pytest.mark.parametrize("handler", [raise_it, raise_later], ids=lambda each: each.__name__)
def test_an_exception_is_answered_and_reported(start, ask, handler):
    running = start(plan(service(LED), service("/arm/empty", "std_srvs/srv/Empty")))
    running.bridge.on_service(LED, handler)
    running.bridge.on_service("/arm/empty", handler)
    for _ in range(3):
        answer = ask(SetBool, LED, data=True)
        assert (answer.success, answer.message) == (False, "ValueError: the led is broken")
    assert ask(Empty, "/arm/empty") == Empty.Response()
    assert len(running.warnings.containing(LED, "refused", "embedder", "ValueError: the led is broken")) == 1
    assert running.row(LED, "server").errors == 3
    counts = {each.kind: each.count for each in running.bridge.status().reports}
    assert counts[f"service.error:/arm{LED}"] == 3


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_time_out_is_answered_and_reported(start, ask, kind):
    gate, cancelled = threading.Event(), threading.Event()

    def wait(request, response):
        gate.wait(20.0)
        response.success = True

    async def sleep(request, response):
        try:
            await asyncio.sleep(20.0)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    running = start(plan(service(LED)))
    running.bridge.on_service(LED, sleep if kind == "coroutine" else wait, timeout=0.2)
    try:
        answer = ask(SetBool, LED, data=True)
        assert (answer.success, answer.message) == (False, "no answer within 0.2 s")
        assert running.warnings.containing(LED, "no answer within 0.2 s")
        assert running.row(LED, "server").errors == 1
        if kind == "coroutine":
            assert cancelled.wait(60.0)
    finally:
        gate.set()


def test_a_response_of_another_type_is_answered_and_reported(start, ask):
    wrong = {
        f"/arm/led_{index}": given
        for index, given in enumerate((Trigger.Response(), True, "done", SetBool.Request(), SetBool))
    }
    running = start(plan(*map(service, wrong)))
    for name, given in wrong.items():
        running.bridge.on_service(name, lambda *_, given=given: given)
        answer = ask(SetBool, name, data=True)
        assert answer.success is False
        assert "instead of SetBool.Response or None" in answer.message
        assert len(running.warnings.containing(name, "instead of")) == 1


def test_a_response_that_cannot_be_sent_is_answered_and_reported(start, ask):
    def handler(request, response):
        # The setter takes it; UTF-8 has no such text.
        response.message = "\ud800"

    running = start(plan(service(LED)))
    running.bridge.on_service(LED, handler)
    answer = ask(SetBool, LED, data=True)
    assert answer.success is False
    assert running.row(LED, "server").errors == 1


def test_closing_answers_those_who_wait(ask, ros_harness):
    gate = threading.Event()
    bridge = Bridge(plan(service(LED)), report=lambda *_: None).open()
    try:
        bridge.on_service(LED, lambda *_: gate.wait(600.0), timeout=None)
        future = ask(SetBool, LED, wait=False, data=True)
        ros_harness.wait_for(
            lambda: [row.count for row in bridge.status().interfaces if row.name == LED] == [1],
            what="the request",
        )
        bridge.close()
        ros_harness.wait_for(future.done, what="the answer")
        assert "closed" in future.result().message
    finally:
        gate.set()
        bridge.close()


def test_without_threads_requests_come_by_polling_and_answers_go_at_once(ask, ros_harness):
    with Bridge(plan(service(LED)), options=BridgeOptions(threaded=False)) as bridge:
        bridge.on_service(LED, give_later)
        future = ask(SetBool, LED, wait=False, data=True)
        end = time.monotonic() + 60.0
        while not future.done():
            assert time.monotonic() < end
            bridge.poll()
            ros_harness.executor.spin_once(timeout_sec=0.001)
        assert future.result().success is True


def test_clients_that_are_killed_leave_nothing_behind(start, program):
    running = start(plan(service(LED)))
    gate = threading.Event()
    running.bridge.on_service(LED, lambda *_: gate.wait(20.0) and None, timeout=None)
    asking = (
        CLIENT.split("asked = []", maxsplit=1)[0]
        + "client.call_async(SetBool.Request())\nprint('asked', flush=True)\n"
    )
    asking += "while True:\n    executor.spin_once(timeout_sec=1.0)\n"
    for number in range(2):
        client = program([sys.executable, "-c", asking])
        client.wait_for_line("asked")
        end = time.monotonic() + 60.0
        while running.row(LED, "server").count <= number:
            assert time.monotonic() < end
        client.kill()
    gate.set()
    answered = threading.Event()
    running.bridge.on_service(LED, lambda *_: answered.set())
    result = run_python(CLIENT.replace("range(600)", "range(3)").replace(".success", " is not None"))
    assert result.returncode == 0, result.stderr
    assert answered.is_set()
    # Jobs of one service run one after another: those for the killed clients have ended.
    assert running.row(LED, "server").errors == 0


def test_threads_end_with_the_bridge(ask):
    def own():
        return [each.name for each in threading.enumerate() if each.name.startswith("usd_ros_bridge-")]

    before = own()
    with Bridge(plan(service(LED))) as bridge:
        assert not any("handler" in name or "deadline" in name for name in own())
        bridge.on_service(LED, fill)
        ask(SetBool, LED, data=True)
        bridge.on_service(LED, fill_later)
        ask(SetBool, LED, data=True)
    assert own() == before


def test_a_response_that_the_middleware_dropped_is_sent_again():
    """rmw_fastrtps gives up after 0.1 s where it has not discovered the client's reader, and says so to nobody."""
    sent = []

    class Service:
        def send_response(self, response, header):
            sent.append((response, header))
            if len(sent) < 2:
                time.sleep(0.1)

    made = Service()
    send = defer_responses(made, lambda *_: None)
    send("response", "header")
    assert sent == [("response", "header")] * 2
    send("another", "header")
    assert len(sent) == 3


# --- The backend ---------------------------------------------------------------------------------------------------


class ServingBackend(KinematicBackend):
    """Serves one service."""

    def __init__(self) -> None:
        super().__init__()
        self.served: list[tuple[str, bool, str]] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(kinematic=True, services=frozenset({f"/arm{LED}"}))

    def serve(self, prim, request, response):
        self.served.append((prim, request.data, threading.current_thread().name))
        if not request.data:
            raise RuntimeError("not off")
        response.success = True


def test_the_backend_serves_in_the_thread_that_steps_after_the_embedder(start, ask):
    backend = ServingBackend()
    running = start(plan(service(LED), service(REBOOT, "std_srvs/srv/Trigger")), backend)
    assert running.row(LED, "server").served_by == "backend"
    assert running.row(REBOOT, "server").served_by == ""
    assert ask(SetBool, LED, data=True).success is True
    assert ask(SetBool, LED, data=False).message == "RuntimeError: not off"
    assert backend.served == [(f"/arm{LED}", True, "test-spin"), (f"/arm{LED}", False, "test-spin")]
    with running.bridge.on_service(LED, fill):
        assert ask(SetBool, LED, data=True).message == "usd_ros_bridge-handler"
        assert running.row(LED, "server").served_by == "embedder"
    assert len(backend.served) == 2


def test_a_name_that_is_taken_is_reported_and_requests_are_answered_all_the_same(start, ask, ros_harness):
    other = ros_harness.node.create_service(SetBool, LED, lambda _, response: response)
    running = start(plan(service(LED)))
    running.bridge.on_service(LED, fill)

    def told():
        ask(SetBool, LED, data=True)
        return running.warnings.containing("another node serves", LED)

    try:
        ros_harness.wait_for(told, what="the report")
    finally:
        ros_harness.node.destroy_service(other)
    assert running.row(LED, "server").count > 0


# --- From elsewhere -------------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("handler", [fill, None], ids=["function", "coroutine"])
def test_another_process_hears_every_answer(start, handler):
    async def fill_at_once(request, response):
        fill(request, response)

    running = start(plan(service(LED)))
    running.bridge.on_service(LED, handler or fill_at_once)
    result = run_python(CLIENT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["True"] * 200
    assert running.row(LED, "server").errors == 0
