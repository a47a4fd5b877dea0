"""Traces of the vendor's simulator: not in this version."""

from __future__ import annotations

from pypto.tools import refuse


def main() -> int:
    """Says what to use instead."""
    return refuse("pypto.tools.clean_sim_trace", "traces of 'pypto trace FILE:KERNEL' need no cleaning")


if __name__ == "__main__":
    raise SystemExit(main())
