"""Descriptions: each robot as URDF, and the plan in short, on latched topics."""
