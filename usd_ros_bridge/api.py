"""Read an asset, or a stage that a host has open, and plan it.

OpenUSD and planning are imported when a function needs them: a host may bring its own OpenUSD late, and a node whose
plan comes from a planner process may need neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from usd_ros_bridge.errors import OptionError
from usd_ros_bridge.model.message_types import TypeCatalog
from usd_ros_bridge.model.plan import BridgePlan
from usd_ros_bridge.model.stage import Pause, StageRecords
from usd_ros_bridge.options import PlanOptions, ReadOptions, VariantSelection, variant_selections
from usd_ros_bridge.process_settings import gc_paused
from usd_ros_bridge.start_phases import OPENING, PLANNING, Progress

if TYPE_CHECKING:
    from pxr import Usd


# Paused until the records are gone, after the return: they are most of what the collector would search, in vain.
@gc_paused()
def load_plan(
    asset: str | os.PathLike[str] | Usd.Stage,
    *,
    variants: Mapping[str, str] | Iterable[VariantSelection | str] | None = None,
    read_options: ReadOptions | None = None,
    plan_options: PlanOptions | None = None,
    catalog: TypeCatalog | None = None,
    physics: bool = False,
    progress: Progress | None = None,
) -> BridgePlan:
    """Read an asset and plan its ROS interfaces.

    Args:
        asset: Path of a USD file, or a stage that the caller has open. A caller's stage is only read: no payload is
            loaded, no variant selected, no session edit made, whatever `read_options` says.
        variants: Choices by `/Prim/Path:set`, or selections. They override those that are authored and those of
            `read_options`. None: none.
        read_options: How a file is opened. None: everything loaded, variants as authored.
        plan_options: How the plan is made. None: the defaults.
        catalog: Which interface types exist. None: type names are checked for their form only, and a type that is
            missing is found when a bridge opens.
        physics: Plan what engines simulate, too (`plan.physics`). All geometry is read for it.
        progress: Called with the name of each phase when it begins.

    Returns:
        The plan. Faults of the asset are in `plan.diagnostics`.

    Raises:
        AssetError: The file is missing or cannot be opened.
        VariantError: A variant was asked for that the asset does not have.
        OptionError: A variant has another form, or is given for a caller's stage; a package directory does not exist;
            or an entry of `plan_options.contexts` selects no robot.
    """
    from usd_ros_bridge.planning.robot_selection import robot_chooser
    from usd_ros_bridge.usd import open_stage

    options, opening = plan_options or PlanOptions(), read_options or ReadOptions()
    owned = isinstance(asset, (str, os.PathLike))
    if variants is not None:
        if not owned:
            raise OptionError("variants: a caller's stage is only read: select its variants before load_plan")
        chosen = variant_selections(variants)
        targets = {(each.prim_path, each.variant_set) for each in chosen}
        others = (each for each in opening.variants if (each.prim_path, each.variant_set) not in targets)
        opening = replace(opening, variants=(*others, *chosen))
    begin = progress or (lambda _: None)
    begin(OPENING)
    if isinstance(asset, (str, os.PathLike)):
        name, selected = os.fspath(asset), opening.variants
        stage = open_stage(name, opening, robots=robot_chooser(options))
    else:
        name, selected = asset.GetRootLayer().identifier, ()
        stage = asset
    begin(PLANNING)
    empty = BridgePlan(
        asset=name,
        stage=stage,
        stage_owned=owned,
        catalog=catalog,
        variants=selected,
        default_prim=_default_prim(stage),
        max_prims=opening.max_prims,
    )
    return read_opinions(_plan(_read(empty, options, physics=physics), empty, options))()


def reread(
    plan: BridgePlan,
    options: PlanOptions,
    *,
    variants: tuple[VariantSelection, ...] = (),
    pause: Pause | None = None,
) -> Callable[[], BridgePlan]:
    """Read the stage of a plan again. Return what makes the new plan; any thread may call it.

    On a stage that the bridge opened, robots are composed or left out as the options say.

    Args:
        plan: A plan that holds its stage; physics is read if it has any.
        options: How the new plan is made.
        variants: The selections that are made on the stage's session layer.
        pause: Called often, between prims: let others use the stage there.

    Returns:
        What makes the plan; `read_opinions` says where in the files its diagnostics are.
    """
    if plan.stage_owned:
        from usd_ros_bridge.planning.robot_selection import robot_chooser
        from usd_ros_bridge.usd.population import compose_robots

        compose_robots(_stage(plan), robot_chooser(options), pause=pause)
    records = _read(plan, options, physics=plan.physics is not None, pause=pause, again=True)
    like = replace(plan, variants=variants, default_prim=_default_prim(_stage(plan)))

    def finish() -> BridgePlan:
        with gc_paused():
            return _plan(records, like, options)

    return finish


def add_physics(plan: BridgePlan, *, plan_options: PlanOptions | None = None) -> BridgePlan:
    """Add to a plan what engines simulate and measure: bodies, joints, drives, colliders, sensors, in SI units.

    Args:
        plan: A plan that holds its stage; the stage is read again, and must still be what was planned.
        plan_options: How the plan was made. None: the defaults.

    Returns:
        The plan with `plan.physics`; its diagnostics include those of physics. A plan that has physics already, or no
        stage, as it is.
    """
    if plan.physics is not None or plan.stage is None:
        return plan
    return read_opinions(read_physics(plan, plan_options or PlanOptions())())()


def read_opinions(plan: BridgePlan) -> Callable[[], BridgePlan]:
    """Find on the stage of a plan the opinions that its diagnostics are about.

    Args:
        plan: A plan that holds its stage, as `reread` and `read_physics` make it: without layers and lines.

    Returns:
        What adds layers and lines to the plan, from the files' texts; any thread may call it.
    """
    if not plan.diagnostics:
        return lambda: plan
    from usd_ros_bridge.usd.opinions import find_opinions

    find_lines = find_opinions(_stage(plan), plan.diagnostics)
    return lambda: replace(plan, diagnostics=find_lines())


def read_physics(
    plan: BridgePlan, options: PlanOptions, *, pause: Pause | None = None
) -> Callable[[], BridgePlan]:
    """Read the stage for `add_physics`. Return what adds physics to the plan; any thread may call it.

    Args:
        plan: As for `add_physics`.
        options: How the plan was made.
        pause: As for `reread`.
    """
    if plan.physics is not None or plan.stage is None:
        return lambda: plan
    from usd_ros_bridge.planning.physics import add_physics_scene

    records = _read(plan, options, physics=True, pause=pause)

    def finish() -> BridgePlan:
        with gc_paused():
            return add_physics_scene(plan, records, options)

    return finish


def _read(
    plan: BridgePlan,
    options: PlanOptions,
    *,
    physics: bool,
    pause: Pause | None = None,
    again: bool = False,
) -> StageRecords:
    """Read the stage of a plan."""
    from usd_ros_bridge.planning.robot_selection import select_robots, selects_robots
    from usd_ros_bridge.usd import read_stage
    from usd_ros_bridge.usd.population import robot_roots

    stage, served = _stage(plan), None
    if physics and selects_robots(options) and (robots := robot_roots(stage)):
        served = select_robots(options, robots).robots
    return read_stage(
        stage,
        asset=plan.asset,
        physics=physics,
        contexts=served,
        max_prims=plan.max_prims,
        pause=pause,
        again=again,
    )


def _plan(records: StageRecords, like: BridgePlan, options: PlanOptions) -> BridgePlan:
    """Plan records. The stage, and how it was opened, are those of `like`."""
    from usd_ros_bridge.planning.make_plan import make_plan

    return replace(
        make_plan(records, options, catalog=like.catalog),
        stage=like.stage,
        stage_owned=like.stage_owned,
        options=options,
        catalog=like.catalog,
        variants=like.variants,
        default_prim=like.default_prim,
        max_prims=like.max_prims,
    )


def _stage(plan: BridgePlan) -> Usd.Stage:
    """Return the stage of a plan, open."""
    from usd_ros_bridge.usd.session import StageSession

    return cast("Usd.Stage", StageSession(plan.stage).stage)


def _default_prim(stage: Usd.Stage) -> str:
    prim = stage.GetDefaultPrim()
    return str(prim.GetPath()) if prim else ""
