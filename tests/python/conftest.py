"""TENON_PYTHON_PATH is the folder of a build that contains the package torch_tenon; by default that of build/dev."""
import os
import pathlib
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("TENON_PYTHON_PATH", str(ROOT / "build/dev/python")))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
