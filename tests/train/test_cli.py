"""The program `tenon` as a new user meets it: help, errors, Ctrl-C, generation before and after a fine-tune."""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import CLI, tenon

OPTIONS = ["--r", 8, "--target", "q_proj,v_proj", "--set", "logging_steps=2"]


def train(base, data, output, *more):
    return ["train", "--model", base, "--data", data, "--output", output, *OPTIONS, *more]


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["help", "train"], ["train", "--help"], ["generate", "--help"], ["help", "doctor"]])
def test_help_fits_a_screen(arguments):
    out = tenon(*arguments)
    assert out.returncode == 0 and out.stderr == ""
    lines = out.stdout.rstrip().splitlines()
    assert 3 <= len(lines) <= 24 and max(map(len, lines)) <= 100, out.stdout


def test_version_and_doctor():
    assert tenon("--version").stdout.startswith("tenon 0.")
    out = tenon("doctor")
    for name in ("libtorch", "CPU", "code generation", "threads", "address space", "memory", "dispatch keys", "compile"):
        assert f" {name}: " in out.stdout, out.stdout
    assert (out.returncode == 0) == ("WRONG" not in out.stdout)
    limited = subprocess.run(["prlimit", "--as=6000000000", CLI, "doctor"], capture_output=True, text=True)
    assert "address space: 6.0 GB" in limited.stdout, limited.stdout + limited.stderr


def broken(data, tmp_path):
    lines = data.read_text().splitlines()
    lines[6] = lines[6][:-1]
    path = tmp_path / "broken.jsonl"
    path.write_text("\n".join(lines))
    return path


def put(path, text):
    path.write_text(text)
    return path


def without_tokenizer(base, tmp_path):
    copy = tmp_path / "bare"
    shutil.copytree(base, copy)
    (copy / "tokenizer.json").unlink()
    return copy


# The arguments that replace those of a good command, and what the one line on stderr must say.
ERRORS = {
    "wrong target": (lambda b, d, t: train(b, d, t / "out", "--target", "q_prj"), ["--target q_prj matches no layer", "q_proj", "down_proj"]),
    "one wrong target": (lambda b, d, t: train(b, d, t / "out", "--target", "k_proj,v_prj"), ["--target v_prj matches no layer", "v_proj", "down_proj"]),
    "wrong method": (lambda b, d, t: train(b, d, t / "out", "--method", "lara"), ["--method lara does not exist", "lora", "--adapter-config"]),
    "rank of ia3": (lambda b, d, t: train(b, d, t / "out", "--method", "ia3"), ["--r has no meaning for ia3"]),
    "module dropout of lora": (lambda b, d, t: train(b, d, t / "out", "--module-dropout", 0.1), ["--module-dropout has no meaning for lora"]),
    "no tokens": (lambda b, d, t: ["train", "--model", b, "--data", d, "--output", t / "out", "--method", "trainable_tokens"], ["--tokens 5,9"]),
    "unknown token": (lambda b, d, t: ["train", "--model", b, "--data", d, "--output", t / "out", "--method", "trainable_tokens", "--tokens", "7,99999"],
                      ["99999"]),
    "unknown field": (lambda b, d, t: train(b, d, t / "out", "--set", "lerning_rate=1"), ["\"lerning_rate\" does not exist", "\"learning_rate\""]),
    "unknown field in a file": (lambda b, d, t: train(b, d, t / "out", "--args", put(t / "training.json", '{"max_step": 3}')),
                                ["training.json", "\"max_step\" does not exist", "\"max_steps\""]),
    "unknown field of an adapter": (lambda b, d, t: train(b, d, t / "out", "--adapter-config", put(t / "lora.json", '{"peft_type": "LORA", "lora_alfa": 8}')),
                                    ["no field \"lora_alfa\"", "\"lora_alpha\""]),
    "wrong value": (lambda b, d, t: train(b, d, t / "out", "--set", "max_steps=many"), ["\"max_steps\"", "integer"]),
    "no equals sign": (lambda b, d, t: train(b, d, t / "out", "--set", "max_steps"), ["--set field=value"]),
    "broken line": (lambda b, d, t: train(b, broken(d, t), t / "out"), ["broken.jsonl:7: ", "Correct or remove the line"]),
    "line without a text": (lambda b, d, t: train(b, put(t / "lines.jsonl", '{"text": "the fox."}\n{"texts": "the owl."}\n'), t / "out"),
                            ["lines.jsonl:2: ", '{"text": ...} or {"prompt": ..., "completion": ...}']),
    "missing data": (lambda b, d, t: train(b, t / "none.jsonl", t / "out"), ["none.jsonl: cannot be opened", "Check the path"]),
    "missing tokenizer": (lambda b, d, t: train(without_tokenizer(b, t), d, t / "out"), ["there is no tokenizer.json", "save_pretrained"]),
    "missing tokenizer of generate": (lambda b, d, t: ["generate", "--model", without_tokenizer(b, t), "the"], ["there is no tokenizer.json", "save_pretrained"]),
    "missing model": (lambda b, d, t: train(t / "nothing", d, t / "out"), ["nothing"]),
    "block size": (lambda b, d, t: train(b, d, t / "out", "--block-size", 4096), ["--block-size 4096", "128 positions"]),
    "nothing to resume": (lambda b, d, t: train(b, d, t / "out", "--resume"), ["there is no checkpoint to resume from", "without --resume"]),
    "unknown option": (lambda b, d, t: train(b, d, t / "out", "--rank", 3), ["--rank", "tenon help"]),
    "no command": (lambda b, d, t: [], ["tenon help"]),
    "missing option": (lambda b, d, t: ["train", "--model", b], ["--data", "tenon help"]),
    "missing adapter": (lambda b, d, t: ["generate", "--model", b, "--adapter", t / "none", "the"], ["none"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line(base, data, tmp_path, name):
    arguments, parts = ERRORS[name]
    out = tenon(*arguments(base, data, tmp_path))
    assert out.returncode == 1, out.stderr
    lines = out.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("tenon: "), out.stderr
    assert "frame #" not in out.stderr
    for part in parts:
        assert part in lines[0], lines[0]


def test_full_disk(base, data, tmp_path):
    """Files may have half the size of the optimizer state, which is more than the adapter needs."""
    good = tenon(*train(base, data, tmp_path / "out", "--set", "max_steps=2", "--set", "save_steps=2"))
    assert good.returncode == 0, good.stderr
    bytes_needed = (tmp_path / "out/checkpoint-2/optimizer.safetensors").stat().st_size
    command = [CLI, *map(str, train(base, data, tmp_path / "full", "--set", "max_steps=4", "--set", "save_steps=2"))]
    out = subprocess.run(["bash", "-c", 'trap "" XFSZ; exec prlimit --fsize=%d "$@"' % (bytes_needed // 2), "bash", *command], capture_output=True, text=True)
    assert out.returncode == 1
    last = out.stderr.splitlines()[-1]
    assert last.startswith("tenon: [file] ") and "checkpoint-2 cannot be saved" in last and "optimizer.safetensors" in last, out.stderr
    assert "Free some space" in last and "start again" in last
    assert not list((tmp_path / "full").glob("*checkpoint*")) and not list((tmp_path / "full").glob(".checkpoint*"))


def test_ctrl_c(base, data, tmp_path):
    """The training would take hours, so the signal always comes before its end."""
    command = train(base, data, tmp_path / "out", "--set", "logging_steps=1", "--set", "max_steps=1000000")
    process = subprocess.Popen([CLI, *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    next(line for line in process.stderr if line.startswith("step 2/"))
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=120)[1]
    assert process.returncode == 130, rest
    found = re.search(r"interrupted by SIGINT; saved (\S+/checkpoint-(\d+))\. To continue, .*--resume", rest)
    assert found and pathlib.Path(found[1]).is_dir(), rest
    steps = int(found[2]) + 2
    resumed = tenon(*train(base, data, tmp_path / "out", "--set", f"max_steps={steps}", "--resume"))
    assert resumed.returncode == 0 and f"resuming from {found[1]}" in resumed.stderr, resumed.stderr
    assert resumed.stdout.startswith(f"{steps} steps in ")


def test_interrupted_training_continues(base, data, tmp_path):
    more = ["--dropout", 0.1, "--set", "save_steps=5", "--set", "max_steps=40"]
    assert tenon(*train(base, data, tmp_path / "whole", *more)).returncode == 0
    process = subprocess.Popen([CLI, *map(str, train(base, data, tmp_path / "out", *more))], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (tmp_path / "out/checkpoint-5").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=120)[1]
    again = tenon(*train(base, data, tmp_path / "out", *more))
    if process.returncode == 130:  # Otherwise it was faster than the signal.
        assert "interrupted by SIGINT; saved " in stderr and "--resume" in stderr
    assert again.returncode == 1 and "checkpoints of an earlier training" in again.stderr and "--resume" in again.stderr
    resumed = tenon(*train(base, data, tmp_path / "out", *more, "--resume"))
    assert resumed.returncode == 0, resumed.stderr
    for name in ("adapter_model.safetensors", "adapter_config.json", "log_history.jsonl", "loss.svg", "checkpoint-40/optimizer.safetensors",
                 "checkpoint-40/rng_state.safetensors", "checkpoint-40/trainer_state.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


# Options of the adapter, and the fields that the saved configuration must have.
ADAPTERS = {
    "adalora": (["--method", "adalora", "--r", 6, "--alpha", 16, "--dropout", 0.1], dict(peft_type="ADALORA", init_r=6, target_r=6, total_step=3, lora_alpha=16, lora_dropout=0.1)),
    "adalora of a high rank": (["--method", "adalora", "--r", 16], dict(init_r=16, target_r=8, total_step=3)),
    "loha": (["--method", "loha", "--rank-dropout", 0.2, "--module-dropout", 0.3], dict(peft_type="LOHA", rank_dropout=0.2, module_dropout=0.3)),
    "lokr": (["--method", "lokr", "--rank-dropout", 0.2, "--module-dropout", 0.3], dict(peft_type="LOKR", rank_dropout=0.2, module_dropout=0.3)),
    "oft": (["--method", "oft", "--oft-block-size", 8], dict(peft_type="OFT", oft_block_size=8, r=0)),
    "trainable_tokens": (["--method", "trainable_tokens", "--tokens", "260,7"], dict(peft_type="TRAINABLE_TOKENS", token_indices=[260, 7])),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_options_of_the_adapter(base, data, tmp_path, name):
    """Each option sets its field, and the adapter is trained."""
    options, fields = ADAPTERS[name]
    out = tenon("train", "--model", base, "--data", data, "--output", tmp_path / "out", "--set", "max_steps=3", "--set", "learning_rate=1e-2", *options)
    assert out.returncode == 0 and out.stdout.startswith("3 steps in "), out.stderr
    config = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert {field: config[field] for field in fields} == fields


def test_arguments_from_a_file(base, data, tmp_path):
    (tmp_path / "training.json").write_text(json.dumps({"max_steps": 3, "learning_rate": 1e-3, "output_dir": "ignored"}))
    out = tenon(*train(base, data, tmp_path / "out", "--args", tmp_path / "training.json", "--set", "logging_steps=1"))
    assert out.returncode == 0 and out.stdout.startswith("3 steps in "), out.stderr
    assert "trainable params: " in out.stderr and "step 3/3, loss " in out.stderr


def test_generation_before_and_after(base, tmp_path):
    """A fine-tune on one sentence makes the model say it."""
    (tmp_path / "data.jsonl").write_text('{"text": "the owl hears the fox."}\n' * 32)
    generate = lambda *more: tenon("generate", "--model", base, *more, "the owl", "--max-new-tokens", 8)
    before = generate()
    assert before.returncode == 0, before.stderr
    out = tenon("train", "--model", base, "--data", tmp_path / "data.jsonl", "--output", tmp_path / "out", "--r", 8, "--target", "all-linear",
                "--set", "learning_rate=2e-2", "--set", "num_train_epochs=15")
    assert out.returncode == 0, out.stderr
    after = generate("--adapter", tmp_path / "out")
    assert after.stdout == " hears the fox.\n" != before.stdout, (before.stdout, after.stdout)
    drawn = [generate("--temperature", 1.5, "--seed", seed).stdout for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
