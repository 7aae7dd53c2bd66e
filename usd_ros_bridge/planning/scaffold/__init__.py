"""Scaffold: the REP 0158 layer that a robot without one gets."""
