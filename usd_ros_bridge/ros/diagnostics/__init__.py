"""Diagnostics: how a running bridge is, for people and tools."""
