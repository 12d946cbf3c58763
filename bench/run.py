"""`make bench`: speed and memory as ratios measured side by side, written to out/bench/.

    python bench/run.py [startup training radii deep wide attacks margins images]

Nothing else should run meanwhile. Each file of this folder has a function `rows()`.
"""

import json
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from featavg import __version__

HERE = Path(__file__).resolve().parent
PARTS = ("startup", "training", "radii", "deep", "wide", "attacks", "margins", "images")


def main() -> int:
    sys.path.insert(0, str(HERE))
    wanted = sys.argv[1:] or [name for name in PARTS if (HERE / f"{name}.py").exists()]
    unknown = sorted(set(wanted) - set(PARTS))
    if unknown:
        print(f"bench has no part {', '.join(unknown)}: choose from {', '.join(PARTS)}.")
        return 2
    console, rows = Console(), []
    table = Table("part", "what", "measured", "target", "", "note")
    for part in wanted:
        console.print(f"measuring {part} ...", style="dim")
        start = time.perf_counter()
        for row in import_module(part).rows():
            name, measured, target, ok, note = row
            rows.append({"part": part, "name": name, "measured": measured, "target": target})
            rows[-1] |= {"ok": ok, "note": note}
            sign = {True: "[green]✓[/]", False: "[red]✗[/]", None: ""}[ok]
            table.add_row(part, name, str(measured), str(target), sign, note)
        console.print(f"  {time.perf_counter() - start:.0f} s", style="dim")
    console.print(table)
    _write(rows)
    return 0


def _write(rows: list[dict[str, object]]) -> None:
    out = HERE.parent / "out" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    machine = {
        "version": __version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_before": os.getloadavg()[1],
        "when": time.strftime("%Y-%m-%d %H:%M"),
    }
    partial = out / "bench.json.partial"
    partial.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    partial.rename(out / "bench.json")
    lines = ["| part | what | measured | target | met | note |", "|---|---|---|---|---|---|"]
    for row in rows:
        met = {True: "yes", False: "**no**", None: ""}[row["ok"]]
        lines.append(f"| {row['part']} | {row['name']} | {row['measured']} | {row['target']} | {met} | {row['note']} |")
    (out / "bench.md").write_text("\n".join(lines) + "\n")
    print(f"written to {out}/bench.md and bench.json")


if __name__ == "__main__":
    sys.exit(main())
