"""Clients of the plan call servers elsewhere: awaited, waited for, given up, and told when nobody is there."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from types import ModuleType

import pytest
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.client import Client
from sensor_msgs.msg import JointState, MultiDOFJointState
from std_srvs.srv import SetBool, Trigger

from ros_plans import plan
from usd_ros_bridge import Bridge, BridgeError, BridgeOptions
from usd_ros_bridge.errors import CallTimeoutError
from usd_ros_bridge.model.plan import ActionPlan, ServicePlan
from usd_ros_bridge.ros.change.coordinator import SafePoints
from usd_ros_bridge.ros.compat import defer_responses
from usd_ros_bridge.ros.domains import Domains
from usd_ros_bridge.ros.endpoints.calls import Call
from usd_ros_bridge.ros.interface_types import (
    AmentCatalog,
    InterfaceTypeError,
    import_interface,
    make_message,
)
from usd_ros_bridge.runtime.inbox import TickQueue

DOOR = "/there/door"


def client(name=DOOR, type_name="std_srvs/srv/SetBool", **more):
    return ServicePlan(path=f"/arm{name}", role="client", name=name, type=type_name, **more)


@pytest.fixture
def door(ros_harness):
    """A server elsewhere, spun in a thread of its own; `hold` keeps its answers back."""

    class Door:
        def __init__(self) -> None:
            self.asked = []
            self.hold = threading.Event()
            self.hold.set()
            self.service = None

        def open(self) -> None:
            self.service = ros_harness.node.create_service(SetBool, DOOR, self.answer)
            # Sent again where the middleware has yet to discover who asked, and drops the answer.
            self.send = defer_responses(self.service, self.again)

        def again(self, response, header):
            self.send(response, header)

        def answer(self, request, response):
            self.asked.append(request.data)
            self.hold.wait(20.0)
            response.success, response.message = request.data, "door"
            return response

    door = Door()
    door.open()
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            ros_harness.executor.spin_once(timeout_sec=0.05)

    spinner = threading.Thread(target=spin)
    spinner.start()
    yield door
    door.hold.set()
    stop.set()
    spinner.join()


def test_a_call_is_waited_for_in_a_thread(start, door):
    running = start(plan(client()))
    for target in (DOOR, f"/arm{DOOR}"):
        call = running.bridge.call(target, SetBool.Request(data=True))
        assert call.result(60.0).message == "door"
        assert call.done()
        assert call.result().success is True
    assert running.bridge.call(DOOR, {"data": False}).result().success is False
    assert door.asked == [True, True, False]
    row = running.row(DOOR, "client")
    assert (row.count, row.errors, row.matched, row.state, row.reason) == (3, 0, 1, "active", "")


def test_clients_are_created_and_see_their_servers(start, ros_harness):
    follow = "control_msgs/action/FollowJointTrajectory"
    action = ActionPlan(path="/arm/follow", role="client", name="/there/follow", type=follow)
    running = start(plan(client(), action))
    assert running.row(DOOR, "client").state == "idle"
    ros_harness.node.create_service(SetBool, DOOR, lambda _, response: response)
    ros_harness.wait_for(lambda: running.row(DOOR, "client").matched == 1, what="the server in the row")
    assert running.row("/there/follow", "client").matched == 0


def test_a_call_is_awaited_in_any_event_loop(start, door):
    bridge = start(plan(client())).bridge

    async def both():
        answers = await asyncio.gather(*(bridge.call(DOOR, {"data": data}) for data in (True, False)))
        return [answer.success for answer in answers]

    assert asyncio.run(both()) == [True, False]


def test_handlers_call_too(start, door, ros_harness):
    led = ServicePlan(path="/arm/led", role="server", name="/arm/set_led", type="std_srvs/srv/SetBool")
    bridge = start(plan(client(), led, client("/arm/set_led"))).bridge

    @bridge.on_service("/arm/led")
    async def set_led(request, response):
        response.message = "async " + (await bridge.call(DOOR, request)).message

    answer = bridge.call("/arm/arm/set_led", {"data": True}).result()
    assert answer.message == "async door"

    @bridge.on_service("/arm/led")
    def set_led_in_a_thread(request, response):
        response.message = "sync " + bridge.call(DOOR, request).result().message

    assert bridge.call("/arm/arm/set_led", {"data": True}).result().message == "sync door"


def test_without_a_server_the_time_out_says_so(start, ros_harness):
    running = start(plan(client()))
    with pytest.raises(CallTimeoutError) as error:
        running.bridge.call(DOOR, {}, timeout=0.3).result()
    assert str(error.value) == (
        "no server of /there/door (std_srvs/srv/SetBool) answered within 0.3 s: there is none"
    )
    assert isinstance(error.value, BridgeError)
    # Who waits for the call hears before it is counted.
    ros_harness.wait_for(lambda: running.row(DOOR, "client").errors == 1, what="the count")


def test_a_server_that_does_not_answer_is_distinguished_from_none(start, door):
    bridge = start(plan(client())).bridge
    assert bridge.call(DOOR, {}).result(10.0).message == "door"
    door.hold.clear()
    patient = bridge.call(DOOR, {}, timeout=60.0)
    with pytest.raises(CallTimeoutError, match="no answer yet"):
        patient.result(0.05)
    patient.cancel()
    call = bridge.call(DOOR, {}, timeout=0.3)
    with pytest.raises(CallTimeoutError, match=r"the server of /there/door .* gave no answer within 0\.3 s"):
        call.result()


def test_a_server_may_come_later(start, ros_harness):
    bridge = start(plan(client())).bridge
    call = bridge.call(DOOR, {"data": True}, timeout=20.0)
    assert not call.done()
    # A server that does not know its client when it answers drops the answer: rmw waits 100 ms for that, no longer.
    ros_harness.wait_for(lambda: ros_harness.node.count_clients(DOOR) == 1, what="the client")
    ros_harness.node.create_service(
        SetBool, DOOR, lambda request, _: SetBool.Response(success=request.data, message="late")
    )
    ros_harness.wait_for(call.done, what="the answer")
    assert call.result().message == "late"


def test_a_call_that_is_given_up_leaves_nothing_behind(start, door, monkeypatch):
    pending = set()
    call_async, remove = Client.call_async, Client.remove_pending_request

    def asked(self, request):
        future = call_async(self, request)
        pending.add(future)
        return future

    def removed(self, future):
        pending.discard(future)
        remove(self, future)

    monkeypatch.setattr(Client, "call_async", asked)
    monkeypatch.setattr(Client, "remove_pending_request", removed)
    bridge = start(plan(client())).bridge
    assert bridge.call(DOOR, {}).result(10.0)
    door.hold.clear()
    call = bridge.call(DOOR, {}, timeout=60.0)
    assert len(pending) == 1
    call.cancel()
    assert call.done()
    assert not pending

    async def impatient():
        call = bridge.call(DOOR, {}, timeout=60.0)
        assert len(pending) == 1
        await asyncio.wait_for(call, 0.1)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(impatient())
    assert not pending


def test_closing_ends_calls(door):
    with Bridge(plan(client(), client("/there/nothing"))) as bridge:
        assert bridge.call(DOOR, {}).result(10.0)
        door.hold.clear()
        calls = [bridge.call(DOOR, {}, timeout=60.0), bridge.call("/there/nothing", {}, timeout=60.0)]
    for call in calls:
        with pytest.raises(BridgeError, match="closed"):
            call.result(0.0)
    with pytest.raises(BridgeError, match="not open"):
        bridge.call(DOOR, {})


def test_what_is_no_client_is_an_error_that_lists_them(start):
    server = ServicePlan(path="/arm/led", role="server", name="/arm/led", type="std_srvs/srv/SetBool")
    disabled = client("/there/other", enabled=False, reason="it was switched off")
    bridge = start(plan(client(), server, disabled)).bridge
    with pytest.raises(
        BridgeError, match=r"'/arm/led' names no client of arm.usda; .*there are: /arm/there/door"
    ):
        bridge.call("/arm/led", {})
    with pytest.raises(BridgeError, match="disabled: it was switched off"):
        bridge.call("/there/other", {})
    with pytest.raises(BridgeError, match=r"no field 'dat'; did you mean data\? there are: data"):
        bridge.call(DOOR, {"dat": True})
    with pytest.raises(BridgeError, match="it gives no feedback"):
        bridge.call(DOOR, {}, feedback=print)
    with pytest.raises(BridgeError, match="timeout 0"):
        bridge.call(DOOR, {}, timeout=0)


# --- Where nobody may wait ------------------------------------------------------------------------------------------


def test_waiting_in_the_thread_that_polls_is_an_error_and_polling_until_done_is_not(door):
    with Bridge(plan(client()), options=BridgeOptions(threaded=False)) as bridge:
        bridge.poll()
        call = bridge.call(DOOR, {"data": True})
        with pytest.raises(BridgeError, match=r"poll\(\) until done\(\)"):
            call.result()
        end = time.monotonic() + 60.0
        while not call.done():
            assert time.monotonic() < end
            bridge.poll()
        assert call.result().success is True


def test_waiting_within_a_step_is_an_error(start, door):
    running = start(plan(client()))
    told, done = [], threading.Event()

    def job():
        try:
            running.bridge.call(DOOR, {}).result()
        except BridgeError as error:
            told.append(str(error))
        done.set()

    running.bridge.parts.runtime.post(job)
    assert done.wait(60.0)
    assert "in the midst of a step" in told[0]


def test_waiting_in_a_coroutine_of_the_bridge_is_an_error(start, door):
    led = ServicePlan(path="/arm/led", role="server", name="/arm/set_led", type="std_srvs/srv/SetBool")
    bridge = start(plan(client(), led, client("/arm/set_led"))).bridge

    @bridge.on_service("/arm/led")
    async def set_led(request, response):
        bridge.call(DOOR, request).result()

    assert "await the call" in bridge.call("/arm/arm/set_led", {}).result().message


# --- Messages of mappings ------------------------------------------------------------------------------------------


def test_messages_are_made_of_mappings():
    message = make_message(
        JointState,
        {"header": {"frame_id": "base", "stamp": {"sec": 3}}, "name": ["a", "b"], "position": [1.0, 2.0]},
    )
    assert (message.header.frame_id, message.header.stamp.sec, message.name) == ("base", 3, ["a", "b"])
    assert list(message.position) == [1.0, 2.0]
    nested = make_message(MultiDOFJointState, {"transforms": [{"translation": {"x": 1}}, {}]})
    assert nested.transforms[0].translation.x == 1.0
    assert nested.transforms[1].rotation.w == 1.0
    request = make_message(
        SetParameters.Request, {"parameters": [{"name": "rate", "value": {"type": 3, "double_value": 2}}]}
    )
    assert request.parameters == [Parameter(name="rate", value=ParameterValue(type=3, double_value=2.0))]
    assert make_message(JointState, message) is message
    assert make_message(Trigger.Request, {}) == Trigger.Request()


def test_what_does_not_fit_is_an_error_of_one_line():
    for message_class, fields, text in (
        (
            JointState,
            {"names": []},
            "no field 'names'; did you mean name? there are: effort, header, name",
        ),
        (JointState, {"header": {"stamp": {"sec": "3"}}}, "it is int, not str"),
        (JointState, {"header": {"stamp": {"sec": True}}}, "it is int, not bool"),
        (JointState, {"header": {"stamp": {"sec": 2**40}}}, "sec"),
        (JointState, {"header": 3}, "header"),
        (JointState, {"name": "joint"}, "name"),
        (JointState, {"position": [{}]}, "its elements are double, no messages"),
        (JointState, {"name": {"a": 1}}, "name"),
        (SetBool.Request, {"data": 1}, "it is bool, not int"),
        (SetBool.Request, Trigger.Request(), "a SetBool_Request or a mapping"),
        (SetBool.Request, None, "a mapping of its fields is needed, not NoneType"),
        (SetBool.Request, {3: 4}, "no field '3'"),
    ):
        with pytest.raises(BridgeError) as error:
            make_message(message_class, fields)
        assert text in str(error.value)
        assert "\n" not in str(error.value)


def test_messages_within_lists_are_taken_as_they_are():
    given = Parameter(name="rate", value=ParameterValue(type=3, double_value=2.0))
    request = make_message(SetParameters.Request, {"parameters": [given, {"name": "other"}]})
    assert request.parameters == [given, Parameter(name="other")]


def test_rosidl_runtime_py_sets_the_fields_and_finds_the_types_where_it_is_installed(monkeypatch):
    asked = []
    package, utilities = ModuleType("rosidl_runtime_py"), ModuleType("rosidl_runtime_py.utilities")
    package.set_message_fields = lambda message, values: asked.append((type(message), values))
    utilities.get_interface = lambda name: asked.append(name) or Trigger
    monkeypatch.setitem(sys.modules, "rosidl_runtime_py", package)
    monkeypatch.setitem(sys.modules, "rosidl_runtime_py.utilities", utilities)
    make_message(JointState, {"header": {"stamp": {"sec": 3}}, "position": [1, 2.0]})
    assert import_interface("std_srvs/srv/Trigger", AmentCatalog()) is Trigger
    with pytest.raises(InterfaceTypeError, match="not installed"):
        import_interface("os/srv/Trigger", AmentCatalog())
    assert asked == [
        (JointState, {"header": {"stamp": {"sec": 3}}, "position": [1, 2.0]}),
        "std_srvs/srv/Trigger",
    ]
    with pytest.raises(BridgeError, match="it is bool, not int"):
        make_message(SetBool.Request, {"data": 1})


class LastMomentFuture(Future):
    """Is done in the moment after a wait for it ended in vain."""

    def result(self, timeout=None):
        try:
            return super().result(timeout)
        except FutureTimeoutError:
            self.finish()
            raise

    def finish(self) -> None:
        with suppress(InvalidStateError):
            self.set_result("done")


def test_an_answer_at_the_last_moment_counts() -> None:
    assert Call(LastMomentFuture(), forbidden=lambda: "").result(0.01) == "done"


def test_a_call_that_failed_with_a_time_out_of_its_own_raises_that() -> None:
    future: Future = Future()
    future.set_exception(TimeoutError("its own"))
    with pytest.raises(TimeoutError, match="its own"):
        Call(future, forbidden=lambda: "").result(0.01)


def test_a_change_that_is_done_at_the_last_moment_is_no_time_out() -> None:
    """One in 600 cycles of open, change and close was refused with a TimeoutError, on a busy machine."""

    class LastMoment(TickQueue):
        def submit(self, job):
            job()
            future = LastMomentFuture()
            timer = threading.Timer(0.5, future.finish)
            timer.daemon = True
            timer.start()
            return future

    points = SafePoints(LastMoment(lambda: None), Domains(report=lambda *_: None), closed="closed")
    assert points.run_between_ticks(lambda: 3) == 3


def test_a_job_that_nobody_comes_to_ends_with_the_bridge() -> None:
    queue = TickQueue(lambda: None)
    points = SafePoints(queue, Domains(report=lambda *_: None), closed="the bridge is closed")
    threading.Timer(0.2, points.close).start()
    with pytest.raises(BridgeError, match="the bridge is closed"):
        points.run_between_ticks(lambda: 3)
