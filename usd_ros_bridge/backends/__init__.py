"""Backends: where a robot's state comes from and where its commands go."""
