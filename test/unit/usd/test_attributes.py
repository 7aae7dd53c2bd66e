"""Wrong types: what is used all the same, what is not, and that nothing raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pxr import Sdf, Tf, Usd

from case_tables import each_case
from usd_ros_bridge.model import records as model
from usd_ros_bridge.model.records import Record, attribute_fields
from usd_ros_bridge.model.stage import StageRecords
from usd_ros_bridge.usd import read_stage
from usd_ros_bridge.usd.read.stage_reader import SCHEMAS

Read = Callable[..., StageRecords]


def read_attribute(read: Read, line: str, schema: str) -> tuple[Any, list[tuple[str, str, str]]]:
    records = read(f'def Xform "Robot" (prepend apiSchemas = ["{schema}"])\n{{\n{line}\n}}\n')
    (record,) = getattr(records, SCHEMAS[schema][0])
    return record, [(d.code, d.severity, d.attribute) for d in records.diagnostics]


@each_case(
    ("line", "field", "value"),
    [
        ("int ros:topic:publish_rate = 30", "publish_rate", 30.0),
        ("float ros:topic:publish_rate = 2.5", "publish_rate", 2.5),
        ("half ros:topic:publish_rate = 2.5", "publish_rate", 2.5),
        ("int64 ros:topic:publish_rate = 3", "publish_rate", 3.0),
        ("token ros:topic:name = 'scan'", "name", "scan"),
        ("string ros:topic:role = 'publisher'", "role", "publisher"),
        ("double ros:topic:qos:depth = 5.0", "depth", 5),
        ("uchar ros:topic:qos:depth = 5", "depth", 5),
        ("uint ros:topic:qos:depth = 5", "depth", 5),
        ("int ros:topic:starts_enabled = 0", "starts_enabled", False),
    ],
)
def test_values_that_lose_nothing_are_used_with_a_warning(
    read: Read, line: str, field: str, value: object
) -> None:
    record, found = read_attribute(read, line, "RosTopicAPI")
    assert getattr(record, field) == value
    assert type(getattr(record, field)) is type(value)
    assert record.invalid == ()
    assert found == [(f"2.4.{field}", "warning", line.split()[1])]


def test_values_are_those_of_the_stage_where_layers_move_or_block_them() -> None:
    weak = Sdf.Layer.CreateAnonymous("weak.usda")
    weak.ImportFromString("""#usda 1.0
def Xform "r" (prepend apiSchemas = ["RosTopicAPI"]) {
    timecode ros:topic:publish_rate = 3
    string ros:topic:name = "a"
    string ros:topic:role = "publisher"
    int ros:topic:qos:depth = 5
}
""")
    strong = Sdf.Layer.CreateAnonymous("strong.usda")
    strong.ImportFromString(f"""#usda 1.0
( subLayers = [@{weak.identifier}@ (offset = 10; scale = 2)] )
over "r" {{
    string ros:topic:name = "b"
    string ros:topic:role = None
    int ros:topic:qos:depth
}}
""")
    (topic,) = read_stage(Usd.Stage.Open(strong), asset="x").topics
    assert (topic.publish_rate, topic.name, topic.role, topic.depth) == (16.0, "b", None, 5)


@each_case(
    ("line", "schema", "code"),
    [
        ("string ros:topic:qos:depth = '10'", "RosTopicAPI", "2.4.depth"),
        ("double ros:topic:qos:depth = 1.5", "RosTopicAPI", "2.4.depth"),
        ("int64 ros:topic:qos:depth = 4294967296", "RosTopicAPI", "2.4.depth"),
        ("bool ros:topic:qos:depth = true", "RosTopicAPI", "2.4.depth"),
        ("double ros:topic:qos:depth = nan", "RosTopicAPI", "2.4.depth"),
        ("double ros:context:domain_id = 3.25", "RosContextAPI", "2.1.domain_id"),
        ("double[] ros:topic:publish_rate = [1]", "RosTopicAPI", "2.4.publish_rate"),
        ("string[] ros:topic:name = ['a']", "RosTopicAPI", "2.4.name"),
        ("asset ros:topic:type = @x@", "RosTopicAPI", "2.4.type"),
        ("int ros:topic:starts_enabled = 2", "RosTopicAPI", "2.4.starts_enabled"),
        ("string ros:frame:static = 'true'", "RosFrameAPI", "2.7.static"),
        ("rel ros:service:name = </Robot>", "RosServiceAPI", "2.5.name"),
        ("string ros:diff_drive:left_wheels = '/Robot'", "RosControlDiffDriveAPI", "4.2.3.left_wheels"),
        ("token physics:velocity = 'fast'", "PhysicsRigidBodyAPI", "1.3.velocity"),
        ("float2 physics:velocity = (1, 2)", "PhysicsRigidBodyAPI", "1.3.velocity"),
    ],
)
def test_other_values_are_errors_and_count_as_not_authored(
    read: Read, line: str, schema: str, code: str
) -> None:
    record, found = read_attribute(read, line, schema)
    name = line.split()[1]
    assert found == [(code, "error", name)]
    assert record.invalid == (name,)
    assert getattr(record, code.rpartition(".")[2]) is None


def test_the_message_quotes_the_value_and_the_remedy_names_the_type(read: Read) -> None:
    records = read(
        'def "Robot" (prepend apiSchemas = ["RosTopicAPI"])\n{\nstring ros:topic:qos:depth = "ten"\n}\n'
    )
    (diagnostic,) = records.diagnostics
    assert "'ten'" in diagnostic.message
    assert "'string'" in diagnostic.message
    assert diagnostic.remedy == "author it as int"


def test_the_joint_name_has_a_section_of_its_own(read: Read) -> None:
    records = read('def PhysicsFixedJoint "Robot"\n{\nint ros:joint:name = 3\n}\n')
    assert [(d.code, d.severity) for d in records.diagnostics] == [("2.10.name", "error")]
    assert records.joints[0].invalid == ("ros:joint:name",)


def test_the_first_authored_alias_counts(read: Read) -> None:
    record, found = read_attribute(
        read, 'string isaac:nameOverride = "a"\nstring isaac:NameOverride = "b"', "IsaacJointAPI"
    )
    assert (record.name_override, found) == ("a", [])


VALUES = {
    "bool": True, "uchar": 3, "int": -3, "uint": 3, "int64": 2**40, "half": 0.5, "float": float("nan"),
    "double": float("inf"), "string": "\n\x1b[31m{}~//" + "x" * 500, "token": "tök", "asset": Sdf.AssetPath("@"),
    "timecode": Sdf.TimeCode(3.0), "int2": (1, 2), "float2": (1, 2), "float3": (1, 2, 3), "double3": (1, 2, 3),
    "quatf": None, "quatd": None, "matrix4d": None, "int[]": [1, 2], "token[]": ["a"], "string[]": [], "float3[]": [],
    "double[]": list(range(6000)), "opaque": None,
}  # fmt: skip

NAMES = sorted(
    {
        name.replace("{axis}", "angular")
        for record_type in vars(model).values()
        if isinstance(record_type, type) and issubclass(record_type, Record)
        for _, spec in attribute_fields(record_type)
        for name in (spec.name, *spec.aliases)
    }
    | {"newton:mimicJoint", "state:angular:physics:position", "physxJoint:armature", "mjc:x", "xformOpOrder"}
)
PROPERTIES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["rel", *VALUES]), st.booleans()), max_size=12
)


@settings(deadline=None, max_examples=75, suppress_health_check=[HealthCheck.too_slow])
@given(
    type_name=st.sampled_from(
        ["Xform", "Camera", "PhysicsRevoluteJoint", "PhysicsJoint", "Mesh", "Unknown", ""]
    ),
    schemas=st.lists(
        st.sampled_from([*SCHEMAS, "PhysicsDriveAPI:angular", "PhysicsLimitAPI:angular", "No:such:one"])
    ),
    properties=PROPERTIES,
)
def test_no_type_of_value_raises(
    type_name: str, schemas: list[str], properties: list[tuple[str, str, bool]]
) -> None:
    stage = Usd.Stage.CreateInMemory()
    prim = stage.DefinePrim("/A", type_name)
    prim.SetMetadata("apiSchemas", Sdf.TokenListOp.CreateExplicit(list(dict.fromkeys(schemas))))
    spec = stage.GetRootLayer().GetPrimAtPath("/A")
    for name, value_type, sampled in properties:
        if name in spec.properties:
            continue
        if value_type == "rel":
            Sdf.RelationshipSpec(spec, name).targetPathList.explicitItems = (
                ["/A", "/Gone.x"] if sampled else []
            )
            continue
        attribute = Sdf.AttributeSpec(spec, name, Sdf.ValueTypeNames.Find(value_type))
        value = VALUES[value_type]
        try:
            if value is None:
                value = attribute.typeName.defaultValue
            if sampled:
                stage.GetRootLayer().SetTimeSample(attribute.path, 2.0, value)
            else:
                attribute.default = value
        except (Tf.ErrorException, TypeError):
            continue
    records = read_stage(stage, asset="fuzz")
    for diagnostic in records.diagnostics:
        assert diagnostic.message.isprintable()
        assert diagnostic.code
    for collection in ("topics", "joints", "bodies", "cameras", "isaac_joints"):
        for record in getattr(records, collection):
            assert all(name in NAMES for name in record.invalid)


@each_case("line", ["string physics:body0 = '/Robot'", "token[] physics:body1 = ['/a']"])
def test_an_attribute_where_a_registered_schema_has_a_relationship(read: Read, line: str) -> None:
    records = read(f'def PhysicsFixedJoint "Robot"\n{{\n{line}\n}}\n')
    name = line.split()[1]
    assert [(d.code, d.severity, d.attribute) for d in records.diagnostics] == [
        (f"1.3.{name.partition(':')[2]}", "error", name)
    ]
    assert records.joints[0].invalid == (name,)


def test_a_relationship_where_a_registered_schema_has_an_attribute(read: Read) -> None:
    records = read('def PhysicsRevoluteJoint "Robot"\n{\nrel physics:axis = </Robot>\n}\n')
    assert [(d.code, d.severity) for d in records.diagnostics] == [("1.3.axis", "error")]
    assert records.joints[0].axis is None
