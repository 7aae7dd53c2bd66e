"""Lights and geometry at or above a prim are shown and hidden on the session layer, and nothing else is edited."""

from __future__ import annotations

import pytest

pytest.importorskip("pxr", reason="usd-core is not installed: make setup")

from pxr import Usd, UsdGeom

from case_tables import each_case
from usd_ros_bridge.usd.edit.visibility import VisibilityEditor

STAGE = """#usda 1.0
(
    defaultPrim = "robot"
)

class Xform "_lamp" {
    def Sphere "bulb" {}
}
def Xform "robot" {
    def Xform "set_led" {}
    def Xform "head" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        def Xform "front" {
            def SphereLight "led" {}
            def Sphere "bulb" {}
        }
        def Cube "shell" {}
    }
    def Xform "blinking" (prepend apiSchemas = ["LightAPI"]) {}
}
def Xform "arm" {
    def Xform "reboot" {}
    def Xform "link" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
        def Cube "shell" {}
    }
    def Xform "parts" {
        def Xform "link2" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
            def Cube "shell" {}
        }
    }
}
def Xform "door" {
    def Scope "open" {}
    def Xform "panel" {
        def Cube "wood" {}
        def Cube "guide" {
            uniform token purpose = "guide"
        }
        def Cube "collider" {
            uniform token purpose = "proxy"
        }
        def Cube "inactive" (
            active = false
        ) {}
    }
}
def Xform "lamps" {
    def Xform "toggle" {}
    def "one" (
        instanceable = true
        prepend references = </_lamp>
    ) {}
    def "other" (
        instanceable = true
        prepend references = </_lamp>
    ) {}
}
def Xform "nothing" {
    def Xform "service" {}
}
def Xform "fleet" {
    def Xform "one" (prepend apiSchemas = ["RosContextAPI"]) {}
    def Xform "other" (prepend apiSchemas = ["RosContextAPI"]) {
        def SphereLight "led" {}
    }
}
def Xform "world_robot" {
    def Xform "inner" (prepend apiSchemas = ["RosContextAPI"]) {
        def Scope "set_led" {}
        def SphereLight "lamp" {}
        def Xform "panel" {
            def SphereLight "led" {}
            def Scope "services" {
                def Scope "set_led" {}
            }
        }
        def Xform "head" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
            def SphereLight "led" {}
            def Scope "set_led" {}
            def Xform "mount" {
                def Scope "set_led" {}
            }
        }
        def Xform "module" (prepend apiSchemas = ["RosContextAPI"]) {
            def SphereLight "led" {}
            def Scope "set_led" {}
        }
        def Xform "blind" (prepend apiSchemas = ["RosContextAPI"]) {
            def Scope "set_led" {}
        }
        def Xform "group" {
            def Xform "empty" {
                def Scope "set_led" {}
            }
            def Xform "module" (prepend apiSchemas = ["RosContextAPI"]) {
                def SphereLight "led" {}
            }
            def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI"]) {
                def Scope "set_led" {}
            }
        }
    }
}
def Xform "hidden" {
    token visibility = "invisible"

    def Xform "service" {}
    def Cube "cube" {}
}
"""


@pytest.fixture
def stage() -> Usd.Stage:
    stage = Usd.Stage.CreateInMemory()
    stage.GetRootLayer().ImportFromString(STAGE)
    return stage


@pytest.fixture
def scene(stage) -> VisibilityEditor:
    return VisibilityEditor(stage)


def visible(stage, path):
    return UsdGeom.Imageable(stage.GetPrimAtPath(path)).ComputeVisibility() != UsdGeom.Tokens.invisible


@each_case(
    ("prim", "expected"),
    [
        # Directly under the robot: what is beside it is not its own.
        ("/robot/set_led", []),
        ("/world_robot/inner/set_led", []),
        # The nearest prim above that has any: lights on bodies too, other contexts never.
        ("/world_robot/inner/panel/services/set_led", ["/world_robot/inner/panel/led"]),
        ("/world_robot/inner/head/set_led", ["/world_robot/inner/head/led"]),
        ("/world_robot/inner/head/mount/set_led", ["/world_robot/inner/head/led"]),
        ("/world_robot/inner/module/set_led", ["/world_robot/inner/module/led"]),
        ("/world_robot/inner/blind/set_led", []),
        ("/world_robot/inner/group/empty/set_led", []),
        ("/world_robot/inner/group/body/set_led", []),
        # Lights before geometry, below the prim or the prim itself.
        ("/robot/head", ["/robot/head/front/led"]),
        ("/robot/head/front/led", ["/robot/head/front/led"]),
        ("/robot/blinking", ["/robot/blinking"]),
        # What is at the prim before what is beside it.
        ("/robot/head/front/bulb", ["/robot/head/front/bulb"]),
        # A body's own geometry where the service is at the body, and never that of bodies beside it.
        ("/arm/link", ["/arm/link/shell"]),
        ("/arm/reboot", []),
        # Never another robot's.
        ("/arm", []),
        ("/fleet/one", []),
        # What people see, only.
        ("/door/open", ["/door/panel/wood"]),
        # Instances as a whole.
        ("/lamps/toggle", ["/lamps/one", "/lamps/other"]),
        ("/lamps/one", ["/lamps/one"]),
        ("/nothing/service", []),
        ("/not/there", []),
    ],
)
def test_what_is_switched(scene, prim, expected):
    assert list(scene.switchable(prim)) == expected


def test_a_light_is_switched_and_toggled_on_the_session_layer_alone(stage, scene):
    before = stage.GetRootLayer().ExportToString()
    led = "/robot/head/front/led"
    assert scene.switch("/robot/head", False) == (True, f"the light {led} is off")
    assert not visible(stage, led)
    assert visible(stage, "/robot/head/front/bulb")
    assert scene.switch("/robot/head", False) == (True, f"the light {led} is off")
    assert scene.switch("/robot/head", None) == (True, f"the light {led} is on")
    assert visible(stage, led)
    assert scene.switch("/robot/head", None)[1].endswith("off")
    assert scene.switch("/robot/head", True)[1].endswith("on")
    assert stage.GetRootLayer().ExportToString() == before
    assert stage.GetSessionLayer().GetPrimAtPath(led)
    assert stage.GetEditTarget().GetLayer() == stage.GetRootLayer()


def test_several_are_switched_together(stage, scene):
    done, message = scene.switch("/lamps/toggle", None)
    assert done
    assert message == "2 shapes are hidden: /lamps/one, /lamps/other"
    assert not visible(stage, "/lamps/one")
    assert not visible(stage, "/lamps/other")
    assert scene.switch("/lamps/toggle", True) == (True, "2 shapes are visible: /lamps/one, /lamps/other")


def test_what_cannot_be_done_is_said(stage, scene):
    assert scene.switch("/nothing/service", True) == (
        False,
        "there is neither a light nor visible geometry at /nothing/service or above it, short of the robot",
    )
    done, message = scene.switch("/hidden/service", True)
    assert not done
    assert "/hidden/cube is invisible" in message
    stage.GetSessionLayer().SetPermissionToEdit(False)
    assert scene.switch("/robot/head", True) == (False, "the stage has no session layer that may be edited")
