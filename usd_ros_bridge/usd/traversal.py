"""Traversal: which prims of a stage count."""

from __future__ import annotations

from typing import Final

from pxr import Usd

PREDICATE: Final = Usd.TraverseInstanceProxies(Usd.PrimIsActive & Usd.PrimIsDefined & ~Usd.PrimIsAbstract)
"""Active, defined and not abstract, below instances too; loaded or not, because a link that carries an unloaded payload
still counts."""
