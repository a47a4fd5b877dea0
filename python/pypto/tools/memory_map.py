"""On-chip buffers of a dumped pass as a picture: not in this version."""

from __future__ import annotations

from pypto.tools import refuse


def main() -> int:
    """Says what to use instead."""
    return refuse("pypto.tools.memory_map", "'pypto inspect FILE:KERNEL --memory' shows what lies in on-chip buffers")


if __name__ == "__main__":
    raise SystemExit(main())
