#!/usr/bin/env python3
"""Writes docs/reference, docs/claims.md and the generated parts of README.md, docs/fine-tune.md and docs/scale.md; --check only says whether they are stale."""
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


def claims():
    """What tools/prove measured last, in complete runs, beside the bars."""
    lines = [NOTE.format("tools/claims and docs/results") + "# Claims\n",
             "`tools/prove TOPIC` measures these again and writes docs/results/TOPIC.json. Ratios say in their name what is divided by what.\n"]
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
            verdict = "" if figure is None else "holds" if holds else "falls short"
            lines.append(f"| {claim['name']} | {shown} | {'at least' if low else 'at most'} {bar:,} | {verdict} |")
        lines.append("")
    return "\n".join(lines)


# The table of the README: what, topic, measure, form.
FIGURES = [
    ("Llama, BERT, GPT-2, ViT and ResNet-50, f32, batch 1: speed-up over libtorch eager", "fast", "large f32 1 over eager", "{:.2f} ×"),
    ("Small networks (MLP, LSTM, CNN), one thread: speed-up over libtorch eager", "fast", "small tenon_lean over eager", "{:.1f} ×"),
    ("Text generation, 1.1B Llama, bf16: speed-up over llama.cpp", "models", "llama1b decode bf16 over llama.cpp", "{:.2f} ×"),
    ("Generation with four LoRAs in one batch: speed-up over PEFT eager", "adapters", "f32 8 rows all decode_ms PEFT by four", "{:.1f} ×"),
    ("Switching to another adapter, without recompiling", "adapters", "switch_us", "{:.1f} µs"),
    ("Random programs that differ from eager", "sound", ("sound_random", "sound_programs"), "{:,.0f} of {:,.0f}"),
]


def figures_table():
    lines = ["| measured on 2 cores with AVX-512 | |", "|---|---|"]
    for what, topic, measures, form in FIGURES:
        found = json.loads((ROOT / f"docs/results/{topic}.json").read_text())
        values = [found[m] for m in ([measures] if isinstance(measures, str) else measures)]
        lines.append(f"| {what} | {form.format(*values)} |")
    return "\n".join(lines)


def scale_tables():
    sys.path.insert(0, str(ROOT / "bench"))
    import scale
    return scale.tables(json.loads((ROOT / "docs/results/accelerate.json").read_text()))


def page(name):
    """A page with its examples, their output and its figures as they are now."""
    def file(name):
        return (ROOT / name).read_text().rstrip()

    text = (ROOT / name).read_text()
    text = re.sub(r"(?s)(<!-- example: (\S+) -->\n).*?(<!-- end -->)", lambda m: m[1] + "```cpp\n" + file(m[2]) + "\n```\n" + m[3], text)
    text = re.sub(r"(?s)(<!-- output: (\S+) -->\n).*?(<!-- end -->)", lambda m: m[1] + "```\n" + file(m[2]) + "\n```\n" + m[3], text)
    text = re.sub(r"(?s)(<!-- table: scale -->\n).*?(<!-- end -->)", lambda m: m[1] + scale_tables() + "\n" + m[2], text)
    return re.sub(r"(?s)(<!-- figures -->\n).*?(<!-- end -->)", lambda m: m[1] + figures_table() + "\n" + m[2], text)


PAGES = {
    "environment.md": table("Environment variables", "src/base/flags.def", ["variable", "values", "effect"],
                            [row[1:] for row in rows("src/base/flags.def", "TENON_FLAG")]),
    "errors.md": table("Errors", "include/tenon/error_codes.def", ["code", "meaning"], rows("include/tenon/error_codes.def", "TENON_ERROR")),
    "guards.md": table("Guards", "src/capture/guards.def", ["guard", "what must be as it was recorded"],
                       rows("src/capture/guards.def", "TENON_GUARD")),
    "breaks.md": table("Graph breaks", "src/ops/ops.def", ["op", "what it does", "instead"], rows("src/ops/ops.def", "TENON_BREAK")),
    "passes.md": table("Passes", "src/passes/passes.def", ["pass", "runner", "what it does"], rows("src/passes/passes.def", "TENON_PASS")),
    "phases.md": table("Phases", "src/build/phases.def", ["phase", "what happens"], rows("src/build/phases.def", "TENON_PHASE")),
}

PAGES = {f"docs/reference/{name}": text for name, text in PAGES.items()} | {"docs/claims.md": claims(), "README.md": page("README.md"), "docs/fine-tune.md": page("docs/fine-tune.md"),
                                                                            "docs/scale.md": page("docs/scale.md")}
stale = [name for name, text in PAGES.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
if "--check" in sys.argv:
    if stale:
        print("stale: " + ", ".join(stale) + "; run tools/reference.py")
    sys.exit(bool(stale))
(ROOT / "docs/reference").mkdir(parents=True, exist_ok=True)
for name, text in PAGES.items():
    (ROOT / name).write_text(text)
