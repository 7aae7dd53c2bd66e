"""Kinematics: joints to trees, degrees of freedom, names and poses at rest."""
