"""Controllers of a plan: declared by the extension schemas, or implied by an interface (REP 0158 section 4.2.3)."""
