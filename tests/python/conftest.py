"""TENON_PYTHON_PATH is the folder of a build that contains the package torch_tenon; by default that of build/dev.

Tests marked `long` run only with TENON_PYTHON_ALL=1.
"""
import os
import pathlib
import sys
import tempfile

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("TENON_PYTHON_PATH", str(ROOT / "build/dev/python")))

CACHE = tempfile.TemporaryDirectory()
os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHE.name  # Graphs of an earlier run of the tests must not serve this one.


def pytest_configure(config):
    config.addinivalue_line("markers", "long: left out unless TENON_PYTHON_ALL=1")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("TENON_PYTHON_ALL"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
