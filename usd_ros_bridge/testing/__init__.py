"""Helpers for tests of backends, controllers and embedders: small plans without a stage."""
