"""Reading actuators and tendons: every attribute of mjcPhysics and of Newton's actuators has a field or a reason."""

from __future__ import annotations

from typing import Any

from pxr import Usd
from reading import physics_of

from builders.assets import ASSETS
from case_tables import each_case
from usd_ros_bridge.model import physics_records as records
from usd_ros_bridge.model.records import attribute_fields

ASSET = ASSETS / "physics_actuators.usda"
ZEROS = (0.0,) * 9
SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
INF = float("inf")
LIMITED = ("token", "auto")

# Names, types and fallbacks of the schemas in mujoco-usd-converter 0.8 and newton-usd-schemas 0.6.
MJC_ACTUATOR: dict[str, tuple[str, Any]] = {
    "mjc:actDim": ("int", -1),
    "mjc:actEarly": ("bool", False),
    "mjc:actLimited": LIMITED,
    "mjc:actRange:max": ("double", 0.0),
    "mjc:actRange:min": ("double", 0.0),
    "mjc:biasPrm": ("double[]", (0.0, *ZEROS)),
    "mjc:biasType": ("token", "none"),
    "mjc:crankLength": ("double", 0.0),
    "mjc:ctrlLimited": LIMITED,
    "mjc:ctrlRange:max": ("double", 0.0),
    "mjc:ctrlRange:min": ("double", 0.0),
    "mjc:dynPrm": ("double[]", (1.0, *ZEROS)),
    "mjc:dynType": ("token", "none"),
    "mjc:forceLimited": LIMITED,
    "mjc:forceRange:max": ("double", 0.0),
    "mjc:forceRange:min": ("double", 0.0),
    "mjc:gainPrm": ("double[]", (1.0, *ZEROS)),
    "mjc:gainType": ("token", "fixed"),
    "mjc:gear": ("double[]", (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
    "mjc:group": ("int", 0),
    "mjc:inheritRange": ("double", 0.0),
    "mjc:jointInParent": ("bool", False),
    "mjc:lengthRange:max": ("double", 0.0),
    "mjc:lengthRange:min": ("double", 0.0),
    "mjc:refSite": ("rel", None),
    "mjc:sliderSite": ("rel", None),
    "mjc:target": ("rel", None),
}
MJC_TENDON: dict[str, tuple[str, Any]] = {
    "mjc:actuatorfrclimited": LIMITED,
    "mjc:actuatorfrcrange:max": ("double", 0.0),
    "mjc:actuatorfrcrange:min": ("double", 0.0),
    "mjc:armature": ("double", 0.0),
    "mjc:damping": ("double", 0.0),
    "mjc:frictionloss": ("double", 0.0),
    "mjc:group": ("int", 0),
    "mjc:limited": LIMITED,
    "mjc:margin": ("double", 0.0),
    "mjc:path": ("rel", None),
    "mjc:path:coef": ("double[]", ()),
    "mjc:path:divisors": ("double[]", ()),
    "mjc:path:indices": ("int[]", ()),
    "mjc:path:segments": ("int[]", ()),
    "mjc:range:max": ("double", 0.0),
    "mjc:range:min": ("double", 0.0),
    "mjc:rgba": ("color4f", (0.5, 0.5, 0.5, 1.0)),
    "mjc:sideSites": ("rel", None),
    "mjc:sideSites:indices": ("int[]", ()),
    "mjc:solimpfriction": ("double[]", SOLIMP),
    "mjc:solimplimit": ("double[]", SOLIMP),
    "mjc:solreffriction": ("double[]", SOLREF),
    "mjc:solreflimit": ("double[]", SOLREF),
    "mjc:springlength": ("double[]", (-1.0, -1.0)),
    "mjc:stiffness": ("double", 0.0),
    "mjc:type": ("token", "spatial"),
    "mjc:width": ("double", 0.003),
}
NEWTON_ACTUATOR: dict[str, tuple[str, Any]] = {
    "newton:targets": ("rel", None),
    "newton:delaySteps": ("int", 1),
    "newton:constEffort": ("float", 0.0),
    "newton:kp": ("float", 0.0),
    "newton:kd": ("float", 0.0),
    "newton:ki": ("float", 0.0),
    "newton:integralMax": ("float", INF),
    "newton:modelPath": ("asset", None),
    "newton:maxEffort": ("float", INF),
    "newton:maxMotorEffort": ("float", INF),
    "newton:saturationEffort": ("float", INF),
    "newton:velocityLimit": ("float", INF),
    "newton:lookupPositions": ("float[]", ()),
    "newton:lookupEfforts": ("float[]", ()),
}


@each_case(
    ("kind", "schema"),
    [
        (records.MjcActuatorRecord, MJC_ACTUATOR),
        (records.MjcTendonRecord, MJC_TENDON),
        (records.NewtonActuatorRecord, NEWTON_ACTUATOR),
    ],
)
def test_every_attribute_has_a_field(kind: type[records.Record], schema: dict[str, tuple[str, Any]]) -> None:
    assert {spec.name: (spec.type_name, spec.fallback) for _, spec in attribute_fields(kind)} == schema


def edited_asset() -> Usd.Stage:
    """Return a stage of the asset whose edits are its own: other tests may have the asset's layer open."""
    stage = Usd.Stage.Open(str(ASSET))
    stage.SetEditTarget(stage.GetSessionLayer())
    return stage


def test_typed_prims_and_what_they_name_are_read() -> None:
    found = physics_of(Usd.Stage.Open(str(ASSET)))
    assert [each.path.rpartition("/")[2] for each in found.tendons] == ["coupling", "string"]
    assert len(found.actuators) == 12
    assert {each.path.rpartition("/")[2] for each in found.sites} == {
        "anchor", "rail", "side", "crank", "end", "rotor",
    }  # fmt: skip
    assert [(each.path, each.values) for each in found.wrapped] == [
        ("/robot/upper/pulley", {"radius": 0.0625})
    ]
    assert not found.diagnostics


def test_a_site_needs_no_schema_where_a_tendon_names_it() -> None:
    stage = edited_asset()
    prim = stage.GetPrimAtPath("/robot/base/anchor")
    prim.RemoveAppliedSchema("MjcSiteAPI")
    assert "/robot/base/anchor" in {each.path for each in physics_of(stage).sites}


def test_a_keyframe_is_noted() -> None:
    stage = edited_asset()
    stage.DefinePrim("/robot/Physics/home", "MjcKeyframe")
    assert physics_of(stage).keyframes == ("/robot/Physics/home",)
