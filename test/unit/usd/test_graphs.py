"""Interfaces in other forms than the REP's, which are not read: one remark for the stage."""

from __future__ import annotations

from builders.stage_text import findings, plan_text, prim, world

GRAPH = prim("OmniGraph", "Graph", "", prim("OmniGraphNode", "tick"))


def test_graphs_of_a_stage_are_one_remark_with_the_first_three() -> None:
    robots = (prim("Xform", f"r{number}", "", GRAPH) for number in range(5))
    (found,) = findings(plan_text(world(*robots)), "2.graph")
    assert (found.severity, found.path) == ("info", "/World/r0/Graph")
    assert found.message == (
        "5 OmniGraph graphs are not read: /World/r0/Graph, /World/r1/Graph, /World/r2/Graph, ..."
    )


def test_graphs_of_robots_that_are_composed_alike_are_all_counted() -> None:
    robot = prim("Xform", "_robot", "RosContextAPI", GRAPH).replace("def Xform", "class Xform", 1)
    names = (
        "".join(
            f'def "r{number}" (references = </_robot>) {{ string ros:context:namespace = "r{number}" }}\n'
            for number in range(4)
        )
        .replace("{ string", "{\n string")
        .replace(" }", "\n}")
    )
    (found,) = findings(plan_text(robot + world(names)), "2.graph")
    assert found.message.startswith("4 OmniGraph graphs are not read: /World/r0/Graph, /World/r1/Graph")


def test_elements_of_a_urdf_that_the_converter_kept() -> None:
    kept = prim("Scope", "custom", "", prim("Scope", "gazebo"), prim("Scope", "ros2_control"))
    (found,) = findings(plan_text(world(prim("Scope", "Geometry", "", kept))), "2.graph")
    assert found.message == (
        "2 elements of a robot file are not read: /World/Geometry/custom/gazebo, /World/Geometry/custom/ros2_control"
    )


def test_a_stage_without_graphs_says_nothing() -> None:
    assert findings(plan_text(world(prim("Scope", "custom"))), "2.graph") == []
