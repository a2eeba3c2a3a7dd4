"""Golden tests: each .ir file says which tenon-opt command to run on it and what comes out.

    # RUN: --pass eliminate_dead
    graph @g { ... }
    # OUT
    graph @g { ... }

"# ERR text" instead of "# OUT" expects a failure whose message holds the text. To accept new
output after reading it: TENON_GOLDEN_ACCEPT=1 pytest tests/golden
"""
import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
OPT = os.environ.get("TENON_OPT", "tenon-opt")


@pytest.mark.parametrize("path", sorted(HERE.rglob("*.ir")), ids=lambda p: p.relative_to(HERE).as_posix())
def test_golden(path):
    text = path.read_text()
    first, _, rest = text.partition("\n")
    assert first.startswith("# RUN:"), "the first line says what to run"
    failing = "\n# ERR " in rest
    source, _, expected = rest.partition("\n# ERR " if failing else "\n# OUT\n")
    run = subprocess.run([OPT, *first[6:].split()], input=source, capture_output=True, text=True)
    if failing:
        assert run.returncode == 1 and expected.strip() in run.stderr, run.stderr
        return
    assert run.returncode == 0, run.stderr
    if os.environ.get("TENON_GOLDEN_ACCEPT"):
        path.write_text(f"{first}\n{source}\n# OUT\n{run.stdout}")
        return
    assert run.stdout == expected
