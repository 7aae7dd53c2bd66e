"""Population: which robots of a stage are composed. Robots that nobody serves are not, and take no memory.

They are deactivated on the session layer of stages that the bridge opened itself. Their root prims remain, so that it
is known what there is. A population mask would leave out every new prim, too, and composes the whole stage again when
it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from pxr import Sdf, Usd

from usd_ros_bridge.model.stage import Pause, RobotRoot
from usd_ros_bridge.usd.layer_files import files_of
from usd_ros_bridge.usd.prim_scan import CONTEXT, ISAAC_ROBOT, RobotScan, scan_robots

RobotChooser = Callable[[Sequence[RobotRoot]], frozenset[str]]
"""Given all robots of a stage in traversal order, return the roots of those that are served."""

_LEFT_OUT: Final = "usd_ros_bridge:left_out"
"""Key in the session layer's customLayerData: the list travels with the layer, back to what it was included."""
_NAMESPACES: Final = {CONTEXT: "ros:context:namespace", ISAAC_ROBOT: "isaac:namespace"}

WITH_INACTIVE: Final = Usd.TraverseInstanceProxies(Usd.PrimIsDefined & ~Usd.PrimIsAbstract)
"""Prims that are read, and inactive ones: the robots that are left out among them."""


def left_out(stage: Any) -> frozenset[str]:
    """Return the roots of the robots that are not composed because nobody serves them."""
    session = stage.GetSessionLayer()
    return _listed(session) if session else frozenset()


def leave_out(session: Any, robots: Collection[str]) -> None:
    """Deactivate robots, and activate again all others that were left out.

    Args:
        session: Session layer of a stage that the bridge opened itself.
        robots: Paths of their roots.
    """
    before, now = _listed(session), frozenset(robots)
    if before == now:
        return
    with Sdf.ChangeBlock():
        for path in sorted(now - before):
            Sdf.CreatePrimInLayer(session, path).active = False
        for path in sorted(before - now):
            if (spec := session.GetPrimAtPath(path)) is not None:
                spec.ClearActive()
                session.ScheduleRemoveIfInert(spec)
        data = {name: value for name, value in session.customLayerData.items() if name != _LEFT_OUT}
        session.customLayerData = {**data, _LEFT_OUT: " ".join(sorted(now))} if now else data


def compose_robots(
    stage: Any, choose: RobotChooser | None, *, scan: RobotScan | None = None, pause: Pause | None = None
) -> None:
    """Compose the robots that are served, and no other one that the stage can do without.

    Args:
        stage: A stage that the bridge opened itself. Its session layer is edited, nothing else.
        choose: Which robots are served; None for all.
        scan: What a scan of the stage as it is has found. None: scan it.
        pause: Called often, between prims.

    Raises:
        AssetError: The stage has become too large.
        OptionError: `choose` asks for robots that do not exist.
    """
    session = stage.GetSessionLayer()
    if choose is None:
        leave_out(session, ())
        return
    scan = scan or scan_stage(stage, pause)
    robots = robot_roots(stage, scan.schema)
    served = choose(robots) if robots else frozenset[str]()
    # What is not composed now may be no prim at all any more.
    there = {robot.path for robot in robots}
    hidden = (scan.separable & there) - served
    if hidden - left_out(stage):
        # A layer that nothing uses is freed, and OpenUSD would read its file itself.
        files_of(stage).keep(stage.GetUsedLayers(includeClipLayers=False))
    leave_out(session, hidden)


def scan_stage(stage: Any, pause: Pause | None = None) -> RobotScan:
    """Scan an open stage for its robots, those that are left out included."""
    session = everything(stage.GetSessionLayer())
    return scan_robots(
        stage.GetRootLayer(),
        session,
        stage.GetPathResolverContext(),
        files_of(stage).options,
        stage.GetMutedLayers(),
        pause,
    )


def everything(session: Any) -> Any:
    """Return a copy of a session layer that leaves no robot out."""
    copy = Sdf.Layer.CreateAnonymous("usd_ros_bridge-everything.usda")
    copy.TransferContent(session)
    leave_out(copy, ())
    return copy


def robot_roots(stage: Any, schema: str = CONTEXT) -> tuple[RobotRoot, ...]:
    """Return the outermost prims with a schema in traversal order, those of robots that are left out included.

    Args:
        stage: A Usd.Stage, a host's included.
        schema: RosContextAPI or IsaacRobotAPI.
    """
    hidden = left_out(stage)
    found = []
    prims = iter(Usd.PrimRange(stage.GetPseudoRoot(), WITH_INACTIVE))
    for prim in prims:
        if schema not in prim.GetPrimTypeInfo().GetAppliedAPISchemas():
            continue
        path = prim.GetPath().pathString
        if prim.IsActive() or path in hidden:
            namespace = prim.GetAttribute(_NAMESPACES[schema]).Get()
            found.append(RobotRoot(path, namespace if isinstance(namespace, str) else ""))
        prims.PruneChildren()
    return tuple(found)


def composed_copy(stage: Any, prims: Iterable[str], session: Any = None) -> Any:
    """Return another stage of the same layers, with some prims and no robot left out.

    Args:
        stage: A Usd.Stage.
        prims: Paths of the prims.
        session: Another session layer than that of the stage.
    """
    mask = Usd.StagePopulationMask()
    for each in prims:
        mask.Add(Sdf.Path(each))
    session = everything(session or stage.GetSessionLayer())
    made = Usd.Stage.OpenMasked(
        stage.GetRootLayer(), session, stage.GetPathResolverContext(), Usd.StagePopulationMask()
    )
    made.MuteAndUnmuteLayers(stage.GetMutedLayers(), [])
    made.SetLoadRules(stage.GetLoadRules())
    made.SetPopulationMask(mask)
    return made


def _listed(session: Any) -> frozenset[str]:
    listed = session.customLayerData.get(_LEFT_OUT, "")
    return frozenset(listed.split()) if isinstance(listed, str) else frozenset()
