"""Long random sequences of operations, and threads: tests/adapters/walk.cpp and threads.cpp, with the adapters of the golden files."""
import os
import pathlib
import subprocess

import peft
import pytest

from conftest import CASES, seed

TOOLS = pathlib.Path(os.environ["TENON_ADAPTERS_TOOL"]).parent
OPERATIONS = os.environ.get("TENON_WALK_OPERATIONS", "1000")


@pytest.fixture(scope="session")
def directories(goldens):
    """Returns the directories of all adapters for one base, of all methods, and of LoRA with ranks from 1 to 64."""
    import transformers
    base = transformers.LlamaForCausalLM.from_pretrained(goldens / "base/llama")
    for rank in (1, 2, 3, 7, 16, 33, 64):
        name = f"rank{rank}"
        seed(name)
        model = peft.get_peft_model(base, peft.LoraConfig(r=rank, target_modules=["q_proj", "v_proj", "up_proj"], init_lora_weights=False), adapter_name=name)
        model.save_pretrained(goldens / "ranks", selected_adapters=[name])
        base = model.unload()
    cases = [goldens / case / adapter for case in CASES if CASES[case][0] == "llama" for adapter in ("adapter_1", "adapter_2")]
    return list(map(str, cases + sorted((goldens / "ranks").glob("rank*"))))


def test_walk(goldens, directories):
    """Random operations with all methods; no result is stale, and nothing is recorded."""
    done = subprocess.run([TOOLS / "adapters_walk", "stays", goldens / "base/llama", OPERATIONS, "1", *directories], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    words = dict(zip(*[iter(done.stdout.split("\n")[-2].split())] * 2))
    assert words["wrong"] == words["recorded"] == words["graphs"] == "0", done.stdout
    assert int(words["calls"]) > int(OPERATIONS) // 4


def test_walk_with_lifetimes(goldens, directories):
    """Banks are destroyed while `Rows` refer to them, and adapters are removed and loaded again: invalid `Rows` are rejected."""
    done = subprocess.run([TOOLS / "adapters_walk", "dies", goldens / "base/llama", OPERATIONS, "2", *directories], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    words = dict(zip(*[iter(done.stdout.split("\n")[-2].split())] * 2))
    assert words["wrong"] == "0" and int(words["refused"]) > int(OPERATIONS) // 20, done.stdout


def test_threads(goldens):
    """Calls continue while adapters are loaded, replaced and removed."""
    seconds = os.environ.get("TENON_THREADS_SECONDS", "5")
    done = subprocess.run([TOOLS / "adapters_threads", goldens / "base/llama", seconds, goldens / "lora/adapter_1", goldens / "dora/adapter_1",
                           goldens / "oft/adapter_1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-1] == "0"
