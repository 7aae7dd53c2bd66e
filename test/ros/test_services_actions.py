"""Service and action servers answer honestly while nothing handles them."""

from __future__ import annotations

from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from ros_plans import plan
from std_srvs.srv import Empty, SetBool, Trigger

from usd_ros_bridge.model.plan import ActionPlan, ServicePlan


def service(name, type_name, role="server"):
    return ServicePlan(path=f"/arm{name}", role=role, name=name, type=type_name)


def call(ros_harness, service_class, name, request):
    client = ros_harness.node.create_client(service_class, name)
    ros_harness.wait_for(client.service_is_ready, what=f"service {name}")
    future = client.call_async(request)
    ros_harness.wait_for(future.done, what=f"the answer of {name}")
    return future.result()


def test_requests_are_refused_with_a_message_and_never_left_waiting(start, ros_harness):
    running = start(
        plan(
            service("/arm/light", "std_srvs/srv/SetBool"),
            service("/arm/trigger", "std_srvs/srv/Trigger"),
            service("/arm/empty", "std_srvs/srv/Empty"),
        )
    )
    for service_class, name in ((SetBool, "/arm/light"), (Trigger, "/arm/trigger")):
        answer = call(ros_harness, service_class, name, service_class.Request())
        assert answer.success is False
        assert "no handler" in answer.message
    assert call(ros_harness, Empty, "/arm/empty", Empty.Request()) == Empty.Response()
    call(ros_harness, SetBool, "/arm/light", SetBool.Request())
    assert len(running.warnings.containing("/arm/light", "refused")) == 1
    assert running.row("/arm/light", "server").count == 2


def test_goals_are_rejected_with_the_reason(start, ros_harness):
    action = ActionPlan(
        path="/arm/follow",
        role="server",
        name="/arm/follow",
        type="control_msgs/action/FollowJointTrajectory",
    )
    running = start(plan(action))
    client = ActionClient(ros_harness.node, FollowJointTrajectory, "/arm/follow")
    try:
        ros_harness.wait_for(client.server_is_ready, what="the action server")
        future = client.send_goal_async(FollowJointTrajectory.Goal())
        ros_harness.wait_for(future.done, what="the answer")
        assert future.result().accepted is False
        assert running.warnings.containing("/arm/follow", "rejected", "no handler")
        ros_harness.wait_for(
            lambda: running.row("/arm/follow", "server").matched == 1, what="the client in the row"
        )
    finally:
        client.destroy()


def test_clients_are_created_and_see_their_servers(start, ros_harness):
    action = ActionPlan(
        path="/arm/follow",
        role="client",
        name="/there/follow",
        type="control_msgs/action/FollowJointTrajectory",
    )
    running = start(plan(service("/there/trigger", "std_srvs/srv/Trigger", role="client"), action))
    server = ros_harness.node.create_service(Trigger, "/there/trigger", lambda _, response: response)
    ros_harness.wait_for(
        lambda: running.row("/there/trigger", "client").matched == 1, what="the server in the row"
    )
    assert running.row("/there/follow", "client").matched == 0
    assert server is not None
