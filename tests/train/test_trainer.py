"""Compares `tenon train` with Transformers' Trainer and PEFT from the same seed and data."""
import json
import math

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.trainer_callback import TrainerState

from conftest import tenon

LORA = dict(r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
# 50 examples in batches of 4 are 13 batches, 7 steps per epoch, the last one with one batch.
ARGUMENTS = dict(max_steps=20, per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=5e-3, lr_scheduler_type="cosine",
                 warmup_steps=3, weight_decay=0.01, logging_steps=1, save_steps=10, eval_steps=8, per_device_eval_batch_size=8)
SEEDS = (42, 1, 7)


def examples(base, data):
    """The data as `tenon` encodes it: the prompt is masked up to the first token that differs with the completion."""
    tokenizer, out = Tokenizer.from_file(str(base / "tokenizer.json")), []
    for line in map(json.loads, data.read_text().splitlines()):
        ids = tokenizer.encode(line.get("text") or line["prompt"] + line["completion"]).ids
        prompt, masked = tokenizer.encode(line.get("prompt", "")).ids, 0
        while masked < len(prompt) and prompt[masked] == ids[masked]:
            masked += 1
        out.append({"input_ids": ids + [2], "labels": [-100] * masked + ids[masked:] + [2]})
    return out


def collate(batch):
    length = max(len(x["input_ids"]) for x in batch)
    pad = lambda values, fill: torch.tensor([v + [fill] * (length - len(v)) for v in values])
    return {"input_ids": pad([x["input_ids"] for x in batch], 0), "labels": pad([x["labels"] for x in batch], -100),
            "attention_mask": pad([[1] * len(x["input_ids"]) for x in batch], 0)}


def theirs(base, data, output, seed, double=False, lora=LORA, **arguments):
    """Trains with Transformers and PEFT. With `double` everything is computed in f64; the masks of dropout are the same."""
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    transformers.set_seed(seed)
    model = peft.get_peft_model(model, peft.LoraConfig(**lora, task_type="CAUSAL_LM"))
    if double:
        model.double()
        for module in model.modules():
            if isinstance(module, LlamaRMSNorm):
                module.forward = (lambda self: lambda x: self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)))(module)
    arguments = {**ARGUMENTS, **arguments}
    args = transformers.TrainingArguments(output_dir=str(output), seed=seed, optim="adamw_torch", eval_strategy="steps", report_to=[], use_cpu=True,
                                          disable_tqdm=True, **arguments)
    dataset = examples(base, data)
    trainer = transformers.Trainer(model, args, train_dataset=dataset, eval_dataset=dataset[:9], data_collator=collate)
    trainer.train()
    return trainer


def ours(base, data, output, seed, *more, lora=LORA, **arguments):
    evaluation = output.parent / f"{output.name}-eval.jsonl"
    evaluation.write_text("".join(data.read_text().splitlines(keepends=True)[:9]))
    settings = [f"--set={key}={value}" for key, value in {**ARGUMENTS, **arguments, "seed": seed}.items()]
    out = tenon("train", "--model", base, "--data", data, "--eval", evaluation, "--output", output, "--r", lora["r"], "--alpha", lora["lora_alpha"],
                "--dropout", lora["lora_dropout"], "--target", ",".join(lora["target_modules"]), *settings, *more)
    assert out.returncode == 0, out.stderr
    return TrainerState.load_from_json(output / "trainer_state.json")


def values(log, key):
    return [entry[key] for entry in log if key in entry]


def squares(a, b):
    assert len(a) == len(b)
    return sum((x - y) ** 2 for x, y in zip(a, b))


@pytest.fixture(scope="module")
def references(base, data, tmp_path_factory):
    home = tmp_path_factory.mktemp("transformers")
    return {seed: (theirs(base, data, home / str(seed), seed), theirs(base, data, home / f"{seed}-f64", seed, double=True)) for seed in SEEDS}


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_loss_curve(base, data, references, tmp_path, compiled):
    """Numeric policy 2 over the curves of all seeds: the error against the f64 run is not much larger than that of Transformers."""
    for key in ("loss", "eval_loss"):
        mine = eager = scale = count = 0
        for seed, (reference, exact) in references.items():
            output = tmp_path / str(seed)
            state = TrainerState.load_from_json(output / "trainer_state.json") if output.exists() else ours(base, data, output, seed, torch_compile=compiled)
            truth = values(exact.state.log_history, key)
            mine += squares(values(state.log_history, key), truth)
            eager += squares(values(reference.state.log_history, key), truth)
            scale, count = max(scale, max(truth)), count + len(truth)
            assert values(state.log_history, "learning_rate") == values(reference.state.log_history, "learning_rate")
            assert [e["epoch"] for e in state.log_history] == [e["epoch"] for e in reference.state.log_history if "train_runtime" not in e]
        ulp = 2.0 ** (math.floor(math.log2(scale)) - 23)
        print(key, "RMS error", math.sqrt(mine / count), "Transformers", math.sqrt(eager / count))
        assert math.sqrt(mine / count) <= 1.25 * math.sqrt(eager / count) + ulp


def test_saved_adapter_is_that_of_peft(base, data, references, tmp_path):
    reference, exact = references[SEEDS[0]]
    ours(base, data, tmp_path / "out", SEEDS[0])
    found = load_file(tmp_path / "out/adapter_model.safetensors")
    expected = peft.get_peft_model_state_dict(reference.model)
    truth = peft.get_peft_model_state_dict(exact.model)
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        error, eager = ((x.double() - truth[name]).pow(2).mean().sqrt() for x in (tensor, expected[name]))
        assert error <= 2 * eager + 1e-6 * truth[name].abs().max(), name
    # PEFT continues from the directory and from a checkpoint.
    for directory in ("out", "out/checkpoint-10"):
        model = peft.PeftModel.from_pretrained(transformers.LlamaForCausalLM.from_pretrained(base), tmp_path / directory, is_trainable=True)
        batch = collate(examples(base, data)[:9])
        model.eval()
        with torch.no_grad():
            assert torch.isfinite(model(**batch).loss)


def test_checkpoint_files(base, data, tmp_path):
    state = ours(base, data, tmp_path / "out", 42, max_steps=4, save_steps=2)
    assert state.global_step == 4 and state.max_steps == 4
    names = {path.name for path in (tmp_path / "out/checkpoint-2").iterdir()}
    assert names == {"adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors", "scheduler.json", "rng_state.safetensors", "position.json",
                     "trainer_state.json"}
    lines = [json.loads(line) for line in (tmp_path / "out/log_history.jsonl").read_text().splitlines()]
    assert lines == state.log_history
    assert "</svg>" in (tmp_path / "out/loss.svg").read_text()
    assert TrainerState.load_from_json(tmp_path / "out/checkpoint-2/trainer_state.json").global_step == 2
