#!/usr/bin/env python3
"""Writes docs/reference/*.md from the .def tables; --check only says whether they are stale."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOTE = "<!-- made by tools/reference.py from {}; do not edit -->\n"


def rows(path, macro):
    text = (ROOT / path).read_text()
    pattern = macro + r'\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)'
    return [[cell.strip().strip('"') for cell in re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s][^,]*', row)]
            for row in re.findall("(?m)^" + pattern, text)]


def table(title, path, header, body):
    lines = [NOTE.format(path) + f"# {title}\n", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(f"`{row[0]}`" if i == 0 else cell for i, cell in enumerate(row)) + " |" for row in body]
    return "\n".join(lines) + "\n"


def measured():
    """What tools/prove measured last, in whole runs, beside its bars."""
    lines = [NOTE.format("tools/claims and docs/results") + "# Measured\n", "`tools/prove TOPIC` measures these again.\n"]
    for path in sorted((ROOT / "docs/results").glob("*.json")):
        table = json.loads((ROOT / f"tools/claims/{path.name}").read_text())
        figures = json.loads(path.read_text())
        lines += [f"## {path.stem}", table["about"] + ".\n", "| claim | measured | bar | |", "|---|---|---|---|"]
        for claim in table["claims"]:
            figure = figures.get(claim["measure"])
            low = "at_least" in claim
            bar = claim["at_least"] if low else claim["at_most"]
            holds = figure is not None and (figure >= bar if low else 0 <= figure <= bar)
            shown = "not measured" if figure is None else f"{figure:,.6g} {claim['unit']}"
            lines.append(f"| {claim['name']} | {shown} | {'at least' if low else 'at most'} {bar:,} | {'holds' if holds else 'falls short'} |")
        lines.append("")
    return "\n".join(lines)


PAGES = {
    "measured.md": measured(),
    "environment.md": table("Environment variables", "src/base/flags.def", ["variable", "values", "effect"],
                            [row[1:] for row in rows("src/base/flags.def", "TENON_FLAG")]),
    "errors.md": table("Errors", "include/tenon/error_codes.def", ["code", "meaning"], rows("include/tenon/error_codes.def", "TENON_ERROR")),
    "guards.md": table("Guards", "src/capture/guards.def", ["guard", "what must be as it was recorded"],
                       rows("src/capture/guards.def", "TENON_GUARD")),
    "breaks.md": table("Graph breaks", "src/ops/ops.def", ["op", "what it does", "instead"], rows("src/ops/ops.def", "TENON_BREAK")),
    "passes.md": table("Passes", "src/passes/passes.def", ["pass", "what it does"], rows("src/passes/passes.def", "TENON_PASS")),
    "phases.md": table("Phases", "src/driver/phases.def", ["phase", "what happens"], rows("src/driver/phases.def", "TENON_PHASE")),
}

folder = ROOT / "docs/reference"
stale = [name for name, text in PAGES.items() if not (folder / name).exists() or (folder / name).read_text() != text]
if "--check" in sys.argv:
    if stale:
        print("stale: " + ", ".join(f"docs/reference/{name}" for name in stale) + "; run tools/reference.py")
    sys.exit(bool(stale))
folder.mkdir(parents=True, exist_ok=True)
for name, text in PAGES.items():
    (folder / name).write_text(text)
