"""Other senders of the bridge's frames, in another process, in the same one and in the host: found, told, forgotten."""

from __future__ import annotations

from collections import Counter

import pytest
from rclpy.context import Context
from tf_sender import sending, sending_process

from ros_plans import arm, layout, plan
from usd_ros_bridge.model.plan import TfOutput
from usd_ros_bridge.ros.tf.monitor import TopicMonitor

GLOBAL = TfOutput(tf="/tf", tf_static="/tf_static")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Looks come soon after each other. A monitor listens until the test ends: a sender may get no time to run."""
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.SUBSCRIBED_S", 60.0)
    monkeypatch.setattr("usd_ros_bridge.ros.tf.broadcaster.CHECK_RATE", 100.0)


def findings(running):
    return running.bridge.parts.transforms.monitor.findings()


def wait_for(harness, running, kind, *texts):
    harness.wait_for(
        lambda: [f for f in findings(running) if f.kind == kind and all(t in f.message for t in texts)],
        timeout=60.0,
        what=f"{kind} of {texts}",
    )

    def reports():
        return [kind for kind, message in running.warnings.entries if all(text in message for text in texts)]

    # The finding comes first: the report is made after it, in the bridge's thread.
    harness.wait_for(lambda: bool(reports()), what=f"the report of {texts}")
    told = reports()
    assert len(told) == len(set(told)), "once per topic and set of nodes"


@pytest.mark.parametrize(
    ("sends", "topic"),
    [
        (sending, "/arm/tf"),
        (sending, "/arm/tf_static"),
        pytest.param(sending_process, "/arm/tf", marks=pytest.mark.process),
    ],
)
def test_a_second_parent_from_elsewhere_is_found_and_forgotten_when_it_goes(start, ros_harness, sends, topic):
    """Also of a static frame on the moving topic, and of a moving one on the latched topic, by its latched message."""
    running = start(plan())
    with sends(topic, ("elsewhere", "link"), ("elsewhere", "tool"), node="driver", namespace="/other"):
        wait_for(ros_harness, running, "parents", "/other/driver", "link (base and elsewhere)")
        wait_for(ros_harness, running, "parents", "tool (link and elsewhere)")
    ros_harness.wait_for(lambda: not findings(running), what="the finding to go")


def test_latched_senders_that_were_there_before_are_all_heard(start, ros_harness):
    """Each has a message of its own waiting: a reader with a depth of 1 would keep one."""
    with (
        sending("/arm/tf_static", ("left", "cup"), node="first"),
        sending("/arm/tf_static", ("right", "cup"), node="second"),
        sending("/arm/tf_static", ("left", "tool"), node="third"),
    ):
        counted = ros_harness.node.count_publishers
        ros_harness.wait_for(lambda: counted("/arm/tf_static") == 3, timeout=60.0, what="three senders")
        running = start(plan())
        wait_for(ros_harness, running, "parents", "/first", "/second", "/third")
        ros_harness.wait_for(
            lambda: any(
                "cup (left and right)" in f.message and "tool (link and left)" in f.message
                for f in findings(running)
            ),
            what="both frames in one finding",
        )


def test_two_others_that_disagree_are_found_and_a_third_one_is_not_told_of(start, ros_harness):
    running = start(plan())
    with (
        sending("/arm/tf", ("left", "cup"), node="first"),
        sending("/arm/tf", ("right", "cup"), node="second"),
    ):
        wait_for(ros_harness, running, "parents", "cup (left and right)")
    assert not running.warnings.containing("own frames")


def test_one_parent_on_tf_and_another_on_tf_static_is_found(start, ros_harness):
    running = start(plan())
    with (
        sending("/arm/tf_static", ("left", "cup"), node="first"),
        sending("/arm/tf", ("right", "cup"), node="second"),
    ):
        wait_for(ros_harness, running, "parents", "cup (left and right)", "/first or /second")


def test_a_loop_is_found(start, ros_harness):
    running = start(plan())
    with sending("/arm/tf", ("tool", "world")):
        wait_for(ros_harness, running, "loop", "world (below tool)")


def test_two_bridges_of_one_name_in_one_process_find_each_other(start, ros_harness):
    first = start(plan())
    second = start(plan())
    for each in (first, second):
        wait_for(ros_harness, each, "guard", "another /usd_ros_bridge", "/arm/tf: ")
    second.close()
    ros_harness.wait_for(lambda: not findings(first), what="the finding to go")


def test_bridges_of_one_name_with_trees_of_their_own_leave_each_other_alone(
    start, ros_harness, monkeypatch, looks
):
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.SUBSCRIBED_S", 0.2)
    cart = TfOutput(tf="/cart/tf", tf_static="/cart/tf_static")
    first = start(plan())
    second = start(
        plan(robots=(arm("/cart", path="/cart", outputs=(cart,)),), layout=layout("/cart")),
    )
    ros_harness.wait_for(lambda: all(looks(each) > 10 for each in (first, second)), what="ten looks of each")
    assert not findings(first)
    assert not findings(second)


@pytest.fixture
def looks(monkeypatch):
    """`looks(running)`: how often a bridge has looked at its topics, all of them together."""
    counts = Counter()
    check = TopicMonitor.check

    def counted(monitor, **options):
        counts[monitor] += 1
        check(monitor, **options)

    monkeypatch.setattr(TopicMonitor, "check", counted)

    def of(running):
        monitor = running.bridge.parts.transforms.monitor
        domain_id = running.bridge.node.context.get_domain_id()
        return min((counts[each] for each in monitor.in_domain(domain_id)), default=0)

    return of


@pytest.mark.parametrize(("namespace", "told"), [("/", True), ("/arm", True), ("/cart", False)])
def test_a_tree_on_its_own_topics_and_a_node_on_the_global_ones(start, ros_harness, looks, namespace, told):
    running = start(plan())
    with sending("/tf", ("odom", "base"), node="driver", namespace=namespace):
        if told:
            wait_for(ros_harness, running, "split", f"{namespace.rstrip('/')}/driver", "/tf", "base")
        else:
            ros_harness.wait_for(
                lambda: ros_harness.node.count_publishers("/tf") == 1 and looks(running) > 15,
                timeout=60.0,
                what="looks",
            )
            assert not findings(running)
    ros_harness.wait_for(lambda: not findings(running), what="the finding to go")


def test_a_bridge_on_the_global_topics_finds_those_who_send_there(start, ros_harness):
    running = start(plan(robots=(arm(outputs=(GLOBAL,)),)))
    with sending("/tf", ("odom", "base"), node="driver", namespace="/far"):
        wait_for(ros_harness, running, "parents", "/far/driver", "base (world and odom)")
    assert not running.warnings.containing("topics of their own")


def test_a_host_that_sends_the_same_frames_from_its_own_node_is_found(ros_harness, domain_id):
    """The node is the bridge's, too: it is one publisher too many."""
    import rclpy
    from geometry_msgs.msg import TransformStamped
    from rclpy.executors import SingleThreadedExecutor
    from tf2_msgs.msg import TFMessage

    from usd_ros_bridge.ros.bridge import Bridge

    context = Context()
    rclpy.init(context=context, domain_id=domain_id)
    node = rclpy.create_node("host", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    publisher = node.create_publisher(TFMessage, "/arm/tf", 10)
    transform = TransformStamped()
    transform.header.frame_id, transform.child_frame_id = "elsewhere", "link"
    warnings = []
    try:
        with Bridge(plan(), node=node, report=lambda *each: warnings.append(each)) as bridge:

            def found():
                publisher.publish(TFMessage(transforms=[transform]))
                bridge.step()
                bridge.poll()
                executor.spin_once(timeout_sec=0.01)
                return bridge.parts.transforms.monitor.findings()

            ros_harness.wait_for(lambda: bool(found()), timeout=60.0, what="the host's transforms")
            (finding,) = found()
            assert finding.kind == "parents"
            assert finding.nodes == ("another /host",)
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
    assert any("link (base and elsewhere)" in message for _, message in warnings)


def test_what_ceased_is_forgotten_when_it_is_heard_again(start, ros_harness, monkeypatch):
    """A node that stays but sends something else; and one that begins late is found."""
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.SUBSCRIBED_S", 0.2)
    monkeypatch.setattr("usd_ros_bridge.ros.tf.monitor.AGAIN_S", 0.2)
    from geometry_msgs.msg import TransformStamped
    from tf2_msgs.msg import TFMessage

    running = start(plan())
    publisher = ros_harness.node.create_publisher(TFMessage, "/arm/tf", 10)
    transform = TransformStamped()
    transform.header.frame_id = "elsewhere"

    def sends(child):
        transform.child_frame_id = child
        publisher.publish(TFMessage(transforms=[transform]))
        return bool(findings(running))

    sessions = [False]

    def subscribed_twice():
        assert not sends("hat")
        (monitor,) = (
            g for g in running.bridge.parts.transforms.monitor.in_domain(ros_domain) if g.name == "/arm/tf"
        )
        if monitor.subscribed != sessions[-1]:
            sessions.append(monitor.subscribed)
        return sessions.count(True) > 2

    ros_domain = running.bridge.node.context.get_domain_id()
    ros_harness.wait_for(subscribed_twice, timeout=60.0, what="two times of listening without a finding")
    ros_harness.wait_for(lambda: sends("link"), timeout=60.0, what="the finding")
    ros_harness.wait_for(lambda: not sends("hat"), timeout=60.0, what="the finding to go")
