"""Compares banks with PEFT: tests/adapters/conftest.py creates the golden files, tests/adapters/tool.cpp runs the operations."""
import json
import os
import subprocess

import pytest
import torch
from safetensors.torch import load_file

from conftest import CASES

TOOL = os.environ["TENON_ADAPTERS_TOOL"]
BACKENDS = ("eager", "native")


@pytest.fixture(scope="session")
def run(goldens, tmp_path_factory):
    """Returns the output directory and the printed text of the tool for a case; runs it once."""
    known = {}

    def get(case, backend):
        if (case, backend) not in known:
            out = tmp_path_factory.mktemp(case)
            family = CASES[case][0]
            command = [TOOL, goldens / "base" / family, goldens / "inputs" / f"{family}.safetensors", goldens / case / "adapter_1",
                       goldens / case / "adapter_2", out, backend]
            known[case, backend] = out, subprocess.run(list(map(str, command)), capture_output=True, text=True)
        out, done = known[case, backend]
        assert done.returncode == 0, done.stderr
        return load_file(out / "outputs.safetensors"), done.stdout, out
    return get


def compare(got, expected, what):
    """Compares f32 with f64; allows about a hundred roundings of the largest value."""
    worst = (got.double() - expected.double()).abs().max().item()
    assert worst <= 2e-5 * max(1e-3, expected.abs().max().item()), f"{what}: {worst}"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_outputs(goldens, run, case, backend):
    """Every operation gives the results of PEFT."""
    got, said, _ = run(case, backend)
    expected = load_file(goldens / case / "expected.safetensors")
    expected |= {"out.loaded": expected["out.base"], "out.enabled": expected["out.adapter_2"], "out.scaled_0": expected["out.base"],
                 "out.removed": expected["out.base"], "out.swapped": expected["out.adapter_2"], "out.trained": expected["out.mixed"]}
    if "dora" in case or any(field in str(CASES[case]) for field in ("modules_to_save", "trainable_token", "'bias'")):
        del expected["out.scaled_0"]  # The adapter changes more than what is scaled.
    if case == "lora_embedding":
        del expected["out.merged_1"]  # The head shares the weight, so PEFT's merged model computes another function than its adapter.
    assert ("out.merged_1" in got) == ("out.merged_1" in expected)
    assert ("out.both" in got) == ("out.both" in expected)
    for name in expected:
        if name.startswith("out.") and (name in got or name != "out.scaled_0"):
            compare(got[name], expected[name], name)
    assert "not refused" not in said
    assert torch.equal(got["out.unmerged_1"], got["out.adapter_1"]) and torch.equal(got["out.disabled"], got["out.base"])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_no_recompile(run, case, backend):
    """After the first calls nothing is recorded and no graph is built."""
    _, said, _ = run(case, backend)
    assert said.splitlines()[-2:] == ["inference: recorded 0 graphs 0", "training: recorded 0 graphs 0"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_rows_alone(run, case, backend):
    """The result of a sample is bitwise independent of the other samples."""
    got, _, _ = run(case, backend)
    for other in ("out.beside", "out.joined"):
        assert torch.equal(got["out.mixed"][1], got[other][1]) and torch.equal(got["out.mixed"][3], got[other][3])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
def test_gradients(goldens, run, case, backend):
    """Gradients of every parameter, for one adapter alone and for both in one batch."""
    got, _, _ = run(case, backend)
    expected = {k: v for k, v in load_file(goldens / case / "expected.safetensors").items() if "grad." in k}
    assert {k for k in got if "grad." in k} == set(expected)
    for name, value in expected.items():
        compare(got[name], value, name)


@pytest.mark.parametrize("case", CASES)
def test_saved(goldens, run, case):
    """Saved files are byte-identical to PEFT's, with the same configuration."""
    _, _, out = run(case, "eager")
    for name in ("adapter_1", "adapter_2"):
        theirs, ours = goldens / case / name, out / name
        assert (ours / "adapter_model.safetensors").read_bytes() == (theirs / "adapter_model.safetensors").read_bytes()
        assert json.loads((ours / "adapter_config.json").read_text()) == json.loads((theirs / "adapter_config.json").read_text())
