"""Stages whose overrides are tested, and rows of their compiled MuJoCo models."""

from __future__ import annotations

from typing import Any

STAGE = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    kilogramsPerUnit = 0.001
    upAxis = "Z"
)
def Xform "World" (
    prepend apiSchemas = ["CollectionAPI:balls"]
)
{
    uniform token collection:balls:expansionRule = "explicitOnly"
    rel collection:balls:includes = [</World/one>, </World/two>]
    def PhysicsScene "scene" {}
    def Material "shared" (prepend apiSchemas = ["PhysicsMaterialAPI"])
    {
        float physics:staticFriction = 0.6
        float physics:dynamicFriction = 0.5
        float physics:restitution = 0
    }
    def Cube "ground" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
    {
        double size = 100
        rel material:binding = </World/shared>
        double3 xformOp:translate = (0, 0, -50)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Sphere "one" (
        prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI", "MaterialBindingAPI"]
    )
    {
        double radius = 10
        float physics:mass = 2000
        float3 physics:diagonalInertia = (1000, 2000, 3000)
        rel material:binding = </World/shared>
        double3 xformOp:translate = (0, 0, 10)
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Xform "two" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
    {
        double3 xformOp:translate = (100, 0, 10)
        uniform token[] xformOpOrder = ["xformOp:translate"]
        def Sphere "shape" (prepend apiSchemas = ["PhysicsCollisionAPI", "MaterialBindingAPI"])
        {
            double radius = 10
            rel material:binding = </World/shared>
        }
        def Xform "arm" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
        {
            float physics:mass = 500
            def Sphere "hand" (prepend apiSchemas = ["PhysicsCollisionAPI"])
            {
                double radius = 5
            }
        }
    }
    def PhysicsRevoluteJoint "hinge" (prepend apiSchemas = ["PhysicsDriveAPI:angular"])
    {
        uniform token physics:axis = "Z"
        rel physics:body0 = </World/two>
        rel physics:body1 = </World/two/arm>
        float drive:angular:physics:stiffness = 3000000
        float drive:angular:physics:damping = 20000
        float physics:lowerLimit = -90
        float physics:upperLimit = 90
    }
}
"""

VARIANTS = """#usda 1.0
(
    defaultPrim = "World"
    metersPerUnit = 0.01
    upAxis = "Y"
)
def Xform "World" (
    variants = {
        string load = "empty"
    }
    prepend variantSets = "load"
)
{
    def PhysicsScene "scene" {}
    def Xform "group"
    {
        double3 xformOp:translate = (10, 20, 30)
        float xformOp:rotateZ = 30
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
        def Sphere "ball" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsCollisionAPI", "PhysicsMassAPI"])
        {
            double radius = 10
            float3 xformOp:scale = (2, 2, 2)
            uniform token[] xformOpOrder = ["xformOp:scale"]
        }
    }
    variantSet "load" = {
        "empty" {
            over "group"
            {
                over "ball"
                {
                    float physics:mass = 2
                }
            }
        }
        "full" {
            over "group"
            {
                over "ball"
                {
                    float physics:mass = 6
                }
            }
        }
    }
}
"""


def body(model: Any, name: str) -> int:
    """Return the index of a body whose name ends so."""
    names = [model.body(row).name for row in range(model.nbody)]
    (found,) = [row for row, each in enumerate(names) if each.endswith(name)]
    return found


def geom(model: Any, name: str) -> int:
    """Return the index of a geom whose name ends so."""
    names = [model.geom(row).name for row in range(model.ngeom)]
    (found,) = [row for row, each in enumerate(names) if each.endswith(name)]
    return found
