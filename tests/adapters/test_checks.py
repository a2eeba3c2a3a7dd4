"""Runs the checks of errors and edge cases in tests/adapters/checks.cpp, one process per check."""
import os
import pathlib
import subprocess

import pytest

TOOL = pathlib.Path(os.environ["TENON_ADAPTERS_TOOL"]).parent / "adapters_checks"
CHECKS = subprocess.run([TOOL, "--list"], capture_output=True, text=True).stdout.split()


def test_there_are_checks():
    assert len(CHECKS) >= 10


@pytest.mark.parametrize("check", CHECKS)
def test_check(goldens, check):
    done = subprocess.run([TOOL, check, goldens / "base/llama", goldens / "lora/adapter_1", goldens / "lora/adapter_2"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
