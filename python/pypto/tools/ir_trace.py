"""What each pass changed: not in this version."""

from __future__ import annotations

from pypto.tools import refuse


def main() -> int:
    """Says what to use instead."""
    return refuse(
        "pypto.tools.ir_trace",
        "'pypto inspect FILE:KERNEL' and passes_dump/ show each pass",
    )


if __name__ == "__main__":
    raise SystemExit(main())
