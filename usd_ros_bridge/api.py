"""The way in: an asset, or a stage that a host has open, to a plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from usd_ros_bridge.model.collector import collector_paused
from usd_ros_bridge.model.options import PlanOptions, ReadOptions, TypeCatalog, VariantSelection
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.planning import make_plan, plan_physics

if TYPE_CHECKING:
    from pxr import Usd

    from usd_ros_bridge.usd import PrimReader


# Paused until the records are gone, after the return: they are most of what the collector would search, in vain.
@collector_paused()
def load_plan(
    asset: str | os.PathLike[str] | Usd.Stage,
    *,
    read_options: ReadOptions | None = None,
    plan_options: PlanOptions | None = None,
    catalog: TypeCatalog | None = None,
    physics: bool = False,
) -> BridgePlan:
    """Reads an asset and plans its ROS interfaces.

    Args:
        asset: Path of a USD file, or a stage that the caller has open. A caller's stage is only read: no payload is
            loaded, no variant selected, no session edit made, whatever `read_options` says.
        read_options: How a file is opened. None: everything loaded, variants as authored.
        plan_options: How the plan is made. None: the defaults.
        catalog: Which interface types exist. None: type names are checked for their form only, and a type that is
            missing is found when a bridge opens.
        physics: Whether `plan.physics` is wanted, too: what engines simulate. It takes all geometry to be read.

    Returns:
        The plan. Faults of the asset are in `plan.diagnostics`.

    Raises:
        AssetError: The file is missing or cannot be opened.
        VariantError: A variant was asked for that the asset does not have.
        OptionError: A package directory does not exist, or an entry of `plan_options.contexts` is no context and
            above none.
    """
    # Imported here because a host may bring its own pxr late, and planning alone needs none.
    from usd_ros_bridge.usd import PrimReader, open_stage, read_stage

    owned = isinstance(asset, (str, os.PathLike))
    if isinstance(asset, (str, os.PathLike)):
        name = os.fspath(asset)
        stage = open_stage(name, read_options or ReadOptions())
    else:
        stage, name = asset, asset.GetRootLayer().identifier
    prims = PrimReader(stage)
    records = read_stage(stage, asset=name, prims=prims)
    plan = make_plan(records, plan_options or PlanOptions(), catalog=catalog)
    plan = replace(
        plan, stage=stage, stage_owned=owned, options=plan_options or PlanOptions(), catalog=catalog,
        variants=read_options.variants if read_options is not None and owned else (),
        default_prim=_default_prim(stage), max_prims=(read_options or ReadOptions()).max_prims,
    )  # fmt: skip
    return _with_physics(plan, prims, records, plan_options or PlanOptions()) if physics else plan


def reread(
    plan: BridgePlan, *, variants: tuple[VariantSelection, ...] = (), pause: Callable[[], None] | None = None
) -> Callable[[PlanOptions], BridgePlan]:
    """Reads the stage of a plan anew, and returns what makes the plan of it, which any thread may call later.

    Args:
        plan: A plan that holds its stage; physics is read, too, where it has any.
        variants: The selections that are made on the stage's session layer.
        pause: Called often, between prims: whoever reads beside others may let them pass there.
    """
    from usd_ros_bridge.usd import PrimReader, read_physics, read_stage

    stage = cast("Usd.Stage", plan.stage)
    prims = PrimReader(stage, pause)
    with collector_paused():
        records = read_stage(stage, asset=plan.asset, prims=prims)
        physics = None
        if plan.physics is not None:
            physics = read_physics(stage, prims=prims, most_prims=plan.max_prims)
        default_prim = _default_prim(stage)

    def finish(options: PlanOptions) -> BridgePlan:
        with collector_paused():
            made = make_plan(records, options, catalog=plan.catalog)
            made = replace(
                made, stage=stage, stage_owned=plan.stage_owned, options=options, catalog=plan.catalog,
                variants=variants, default_prim=default_prim,
                max_prims=plan.max_prims,
            )  # fmt: skip
            if physics is None:
                return made
            scene, found = plan_physics(records, physics, made, options)
            return replace(made, physics=scene, diagnostics=made.diagnostics + found)

    return finish


def _default_prim(stage: Usd.Stage) -> str:
    prim = stage.GetDefaultPrim()
    return str(prim.GetPath()) if prim else ""


def add_physics(plan: BridgePlan, *, plan_options: PlanOptions | None = None) -> BridgePlan:
    """Adds to a plan what engines simulate and measure: bodies, joints, drives, colliders, sensors, in SI units.

    Args:
        plan: A plan that holds its stage; the stage is read again, and must still be what was planned.
        plan_options: How the plan was made. None: the defaults.

    Returns:
        The plan with `plan.physics`, and in its diagnostics what is wrong with that. A plan that has physics already,
        or no stage, as it is.
    """
    return read_physics_for(plan, plan_options=plan_options)()


def read_physics_for(
    plan: BridgePlan, *, plan_options: PlanOptions | None = None, pause: Callable[[], None] | None = None
) -> Callable[[], BridgePlan]:
    """Does the part of `add_physics` that reads the stage, and returns the other, which any thread may do later.

    Args:
        plan: As for `add_physics`.
        plan_options: As for `add_physics`.
        pause: As for `reread`.
    """
    if plan.physics is not None or plan.stage is None:
        return lambda: plan
    from usd_ros_bridge.usd import PrimReader, read_physics, read_stage

    stage, options = cast("Usd.Stage", plan.stage), plan_options or PlanOptions()
    prims = PrimReader(stage, pause)
    with collector_paused():
        records = read_stage(stage, asset=plan.asset, prims=prims)
        physics = read_physics(
            stage, prims=prims, left_out=_left_out(plan, options), most_prims=plan.max_prims
        )

    def finish() -> BridgePlan:
        with collector_paused():
            scene, found = plan_physics(records, physics, plan, options)
            return replace(plan, physics=scene, diagnostics=plan.diagnostics + found)

    return finish


def _with_physics(
    plan: BridgePlan, prims: PrimReader, records: StageRecords, options: PlanOptions
) -> BridgePlan:
    from usd_ros_bridge.usd import read_physics

    physics = read_physics(
        prims.stage, prims=prims, left_out=_left_out(plan, options), most_prims=plan.max_prims
    )
    scene, found = plan_physics(records, physics, plan, options)
    return replace(plan, physics=scene, diagnostics=plan.diagnostics + found)


def _left_out(plan: BridgePlan, options: PlanOptions) -> frozenset[str]:
    """Returns the robots of the stage that are not served: their geometry need not be read."""
    served = {robot.path for robot in plan.robots}
    return frozenset(plan.contexts) - served if options.contexts else frozenset()
