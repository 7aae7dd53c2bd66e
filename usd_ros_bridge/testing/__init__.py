"""Helpers for tests of those who use the bridge: domains of their own, and the graph of a bridge as text."""
