"""Batches whose samples use different methods: tests/adapters/mixture.cpp, with the adapters of the golden files."""
import os
import pathlib
import subprocess

import pytest

MIXTURE = pathlib.Path(os.environ["TENON_ADAPTERS_TOOL"]).parent / "adapters_mixture"
METHODS = {
    "six": ("lora", "dora", "ia3", "oft", "vera", "lokr"),
    "all": ("lora", "lora_all", "lora_biases", "lora_saved", "lora_tokens", "rslora", "dora", "adalora", "ia3", "vera", "loha", "lokr", "oft", "boft", "hra", "ln"),
}


@pytest.mark.parametrize("backend", ("eager", "native"))
@pytest.mark.parametrize("methods", METHODS)
def test_mixtures(goldens, methods, backend):
    """Results and gradients of each sample equal those of the sample alone, bitwise independent of the other samples."""
    done = subprocess.run([MIXTURE, goldens / "base/llama_bias", backend, *(goldens / case / "adapter_1" for case in METHODS[methods])],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "wrong 0 recorded 0 graphs 0\n"
