"""What criterion measured in the core: medians of the last `cargo bench`, shown in the same table."""

from __future__ import annotations

import json
from pathlib import Path

from measure import Result

ESTIMATES = Path(__file__).parents[2] / "target" / "criterion"


def results() -> list[Result]:
    """One row for each bench; a line that says so where criterion has not run."""
    rows = []
    for path in sorted(ESTIMATES.glob("**/new/estimates.json")):
        name = json.loads((path.parent / "benchmark.json").read_text())["full_id"]
        median = json.loads(path.read_text())["median"]["point_estimate"]
        rows.append(Result(name, median / 1e3, None, "us"))
    return rows or [Result("criterion", None, None, "", note="cargo bench has not run")]
