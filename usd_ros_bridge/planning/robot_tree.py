"""One robot as trees of joints: what is connected to what, and what stands for the world at its root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from usd_ros_bridge.planning.contexts import Context, Contexts
from usd_ros_bridge.planning.findings import Findings
from usd_ros_bridge.planning.joints import Joint
from usd_ros_bridge.planning.stage_index import StageIndex
from usd_ros_bridge.planning.tree import Edge, Tree, span


@dataclass(frozen=True, slots=True, eq=False)
class RobotTree:
    """The joints and bodies of one robot.

    Attributes:
        context: The outermost context.
        trees: The anchored tree first, then floating ones.
        edges: Edges of all trees, parents first.
        joints: Joints of all edges, in traversal order.
        bodies: Bodies of all trees.
        anchor: Prim that stands for the world at the end of a joint: the context, or "" (the world itself) where the
            context prim is a body or moves.
    """

    context: Context
    trees: tuple[Tree, ...]
    edges: tuple[Edge, ...]
    joints: tuple[Joint, ...]
    bodies: tuple[str, ...]
    anchor: str


def plan_robot_tree(
    root: str,
    joints: Sequence[Joint],
    index: StageIndex,
    contexts: Contexts,
    findings: Findings,
) -> RobotTree:
    """Spans the trees of one robot.

    Args:
        root: Path of its outermost context.
        joints: Its joints.
        index: The stage.
        contexts: All contexts.
        findings: Takes joints that no tree can hold.
    """
    moves = root in index.bodies or bool(index.carrier_at(root)) or not index.poses.is_usable(root)
    trees = span(
        joints,
        order=index.order,
        preferred_root=root,
        articulation_roots=index.articulation_roots,
        findings=findings,
    )
    edges = tuple(edge for tree in trees for edge in tree.edges)
    kept = [joint for edge in edges for joint in edge.joints]
    return RobotTree(
        context=contexts.by_path[root],
        trees=tuple(trees),
        edges=edges,
        joints=tuple(sorted(kept, key=lambda joint: index.order(joint.path))),
        bodies=tuple(body for tree in trees for body in tree.bodies),
        anchor="" if moves else root,
    )
