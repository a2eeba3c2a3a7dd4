"""Trains with `tenon train` and with Transformers' Trainer and PEFT, from the same seed and data, and compares the results."""
import json

import peft
import torch
import torch.nn.functional as F
import transformers
from tokenizers import Tokenizer
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.trainer_callback import TrainerState

from conftest import tenon

LORA = dict(peft_type="LORA", r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["q_proj", "v_proj"])
# 50 examples in batches of 4 are 13 batches, 7 steps per epoch, the last one with one batch.
ARGUMENTS = dict(max_steps=20, per_device_train_batch_size=4, gradient_accumulation_steps=2, learning_rate=5e-3, lr_scheduler_type="cosine",
                 warmup_steps=3, weight_decay=0.01, logging_steps=1, save_steps=10, eval_steps=8, per_device_eval_batch_size=8)
# The fields of configurations that are options of `tenon train`, for the methods that have such options.
OPTIONS = {"r": "--r", "lora_alpha": "--alpha", "alpha": "--alpha", "lora_dropout": "--dropout", "boft_dropout": "--dropout",
           "vera_dropout": "--dropout", "rank_dropout": "--rank-dropout", "module_dropout": "--module-dropout", "oft_block_size": "--oft-block-size",
           "token_indices": "--tokens"}
METHODS = ("lora", "rslora", "dora", "loha", "lokr", "ia3", "ln_tuning", "oft", "boft", "vera", "hra", "trainable_tokens")


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


def loss_in_f64(logits, labels, vocab_size, num_items_in_batch=None, **_):
    """Transformers' loss, which would convert the logits to f32."""
    following = F.pad(labels, (0, 1), value=-100)[..., 1:].reshape(-1)
    loss = F.cross_entropy(logits.reshape(-1, vocab_size), following, ignore_index=-100, reduction="sum")
    return loss / (num_items_in_batch if num_items_in_batch is not None else (following != -100).sum())


def make_exact(model):
    """Makes a model with an adapter compute in f64. Only the angles of RoPE stay in f32; masks of dropout are the same as in f32."""
    model.double()
    model.get_base_model().loss_function = loss_in_f64
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            module.forward = (lambda self: lambda x: self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)))(module)
    return model


def new_adapter(base, config, seed, double=False):
    """PEFT's model with a new adapter. With `double` it computes in f64, from the same initial values."""
    model = transformers.LlamaForCausalLM.from_pretrained(base)
    fields = {name: value for name, value in config.items() if name != "peft_type"}
    transformers.set_seed(seed)
    model = peft.get_peft_model(model, peft.PEFT_TYPE_TO_CONFIG_MAPPING[config["peft_type"]](**fields, task_type="CAUSAL_LM"))
    return make_exact(model) if double else model


def theirs(base, data, output, seed, double=False, config=LORA, **arguments):
    """Trains with Transformers and PEFT."""
    model = new_adapter(base, config, seed, double)
    arguments = {**ARGUMENTS, **arguments}
    args = transformers.TrainingArguments(output_dir=str(output), seed=seed, optim="adamw_torch", eval_strategy="steps", report_to=[], use_cpu=True,
                                          disable_tqdm=True, **arguments)
    dataset = examples(base, data)
    trainer = transformers.Trainer(model, args, train_dataset=dataset, eval_dataset=dataset[:9], data_collator=collate)
    trainer.train()
    return trainer


def adapter_options(config, path):
    """The adapter as options of `tenon train`, or as a file if it has no such options."""
    fields = dict(config)
    method = fields.pop("peft_type").lower()
    method = next((variant for variant in ("dora", "rslora") if fields.pop(f"use_{variant}", False)), method)
    targets = fields.pop("target_modules", [])
    if method not in METHODS or not fields.keys() <= OPTIONS.keys():
        path.write_text(json.dumps(config | {"task_type": "CAUSAL_LM"}))
        return ["--adapter-config", path]
    out = ["--method", method] + (["--target", ",".join(targets)] if targets else [])
    joined = lambda value: ",".join(map(str, value)) if isinstance(value, list) else value
    return out + [text for name, value in fields.items() for text in (OPTIONS[name], joined(value))]


def ours(base, data, output, seed, *more, config=LORA, **arguments):
    """Trains with `tenon train`."""
    evaluation = output.parent / f"{output.name}-eval.jsonl"
    evaluation.write_text("".join(data.read_text().splitlines(keepends=True)[:9]))
    settings = [f"--set={key}={value}" for key, value in {**ARGUMENTS, **arguments, "seed": seed}.items()]
    out = tenon("train", "--model", base, "--data", data, "--eval", evaluation, "--output", output,
                *adapter_options(config, output.parent / f"{output.name}-config.json"), *settings, *more)
    assert out.returncode == 0, out.stderr
    return TrainerState.load_from_json(output / "trainer_state.json")


def values(log, key):
    return [entry[key] for entry in log if key in entry]


def check_policy(runs, what=""):
    """The numeric policy (src/build/policy.h) over several runs, which are (ours, theirs, truth): the error against the run in f64 is not much
    larger than that of PEFT. Prints both."""
    ours, theirs, truth = (torch.cat([torch.as_tensor(run[i], dtype=torch.float64).flatten() for run in runs]) for i in range(3))
    assert ours.shape == theirs.shape == truth.shape
    mine, eager = (ours - truth).abs(), (theirs - truth).abs()
    ulp = 2.0 ** (truth.abs().max().log2().floor().item() - 23)
    rms = lambda errors: errors.pow(2).mean().sqrt().item()
    print(f"{what} RMS error {rms(mine):.3g}, PEFT {rms(eager):.3g}; largest {mine.max():.3g}, PEFT {eager.max():.3g}; ulp {ulp:.3g}")
    assert rms(mine) <= 1.25 * rms(eager) + ulp, what
    assert mine.max() <= max(8 * eager.max(), 4 * ulp), what
