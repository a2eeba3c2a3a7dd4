"""The cases of PEFT's own tests of torch.compile, on an OPT from a config, with backend="tenon"."""
import copy
import math
import random
import warnings

import peft
import pytest
import torch
from networks import NETWORKS, VOCABULARY, some

import torch_tenon
import torch_tenon.accelerate
from accelerate.state import AcceleratorState

TASK = dict(task_type="CAUSAL_LM")
QV = dict(target_modules=["q_proj", "v_proj"])
CONFIGS = {
    "adalora": lambda: peft.AdaLoraConfig(total_step=5, **QV, **TASK),
    "boft": lambda: peft.BOFTConfig(boft_block_size=4, **QV, **TASK),
    "dora": lambda: peft.LoraConfig(use_dora=True, **TASK),
    "ia3": lambda: peft.IA3Config(**TASK),
    "ln_tuning": lambda: peft.LNTuningConfig(target_modules=["final_layer_norm"], **TASK),
    "loha": lambda: peft.LoHaConfig(**QV, **TASK),
    "lokr": lambda: peft.LoKrConfig(**QV, **TASK),
    "lora": lambda: peft.LoraConfig(**TASK),
    "lora-target-embeddings": lambda: peft.LoraConfig(target_modules=["embed_tokens"], **TASK),
    "lora-with-modules-to-save": lambda: peft.LoraConfig(modules_to_save=["embed_tokens"], **TASK),
    "oft": lambda: peft.OFTConfig(r=4, oft_block_size=0, **QV, **TASK),
    "vblora": lambda: peft.VBLoRAConfig(num_vectors=2, vector_length=2, **QV, **TASK),
    "vera": lambda: peft.VeraConfig(**TASK),
    "hra": lambda: peft.HRAConfig(**QV, **TASK),
    "miss": lambda: peft.MissConfig(r=4, **QV, **TASK),
    "miss-bat": lambda: peft.MissConfig(r=4, init_weights="bat", target_modules=["q_proj", "v_proj"], **TASK),
    "miss-mini": lambda: peft.MissConfig(r=4, init_weights="mini", mini_r=2, **QV, **TASK),
}
pytestmark = pytest.mark.filterwarnings("error:tenon. ")


@pytest.fixture(autouse=True)
def fresh_state():
    AcceleratorState._reset_state(True)
    torch._dynamo.config.recompile_limit = 64
    yield
    AcceleratorState._reset_state(True)


def make_model(config):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peft.get_peft_model(NETWORKS["opt"].make(), config)


def samples(count):
    rng = random.Random(2)
    return [[rng.randint(3, VOCABULARY - 1) for _ in range(rng.randint(5, 20))] for _ in range(count)]


def collate(rows):
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return dict(input_ids=ids, attention_mask=(torch.arange(width) < torch.tensor([[len(row)] for row in rows])).long(), labels=ids)


def check_saved(model, folder):
    """Saves, loads into an uncompiled model, and compares logits and generated tokens."""
    model.save_pretrained(folder)
    model.eval()
    torch.manual_seed(0)
    loaded = peft.PeftModel.from_pretrained(NETWORKS["opt"].make(), folder).eval()
    inputs = collate(samples(3))
    del inputs["labels"]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(model(**inputs).logits, loaded(**inputs).logits, rtol=1e-4, atol=1e-4)
        first = {name: value[:1, :5] for name, value in inputs.items()}
        assert torch.equal(model.generate(**first, max_new_tokens=5, do_sample=False), loaded.generate(**first, max_new_tokens=5, do_sample=False))


@pytest.mark.parametrize("name", some(CONFIGS, {"lora"}))
def test_trainer(name, tmp_path):
    from transformers import Trainer, TrainingArguments

    model = make_model(CONFIGS[name]())
    before = {n: p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    arguments = TrainingArguments(str(tmp_path / "run"), max_steps=5, per_device_train_batch_size=3, learning_rate=1e-3, logging_steps=1, use_cpu=True, report_to=[], save_strategy="no",
                                  disable_tqdm=True, remove_unused_columns=False, torch_compile=True, torch_compile_backend="tenon")
    trainer = Trainer(model=model, args=arguments, train_dataset=samples(20), data_collator=collate)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 5 and all(math.isfinite(loss) and loss < 15 for loss in losses)
    assert any(not torch.equal(p, before[n]) for n, p in model.named_parameters() if n in before)
    check_saved(model, tmp_path / "saved")


@pytest.mark.parametrize("name", some(CONFIGS, set()))
def test_loop(name, tmp_path):
    model = make_model(CONFIGS[name]())
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend="tenon")
    rows = samples(15)
    losses = []
    for each, run in ((model, compiled), (reference, reference)):
        optimizer = torch.optim.AdamW([p for p in each.parameters() if p.requires_grad], lr=1e-3)
        each.train()
        losses.append([])
        for step in range(5):
            torch.manual_seed(step)
            loss = run(**collate(rows[3 * step:3 * step + 3])).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    check_saved(model, tmp_path / "saved")


def two_adapters():
    model = make_model(peft.LoraConfig(init_lora_weights=False, **TASK))
    model.add_adapter("other", peft.LoraConfig(r=4, init_lora_weights=False, **TASK))
    return model.eval()


OPERATIONS = {
    "multiple": lambda m: (m.set_adapter("other"), m.delete_adapter("default")),
    "disable": lambda m: m.base_model.disable_adapter_layers(),
    "merge": lambda m: m.merge_adapter(),
    "merge several": lambda m: m.merge_adapter(["default", "other"]),
    "weighted": lambda m: (m.add_weighted_adapter(["default", "other"], [0.5, 0.5], "new", combination_type="svd"), m.set_adapter("new")),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation):
    model, reference = torch_tenon.bank(two_adapters()), two_adapters()
    compiled = torch.compile(model, backend="tenon", fullgraph=True)
    inputs = collate(samples(3))
    with torch.no_grad():
        first = compiled(**inputs).logits
        for each in (model, reference):
            OPERATIONS[operation](each)
        with torch._dynamo.config.patch(error_on_recompile=True):
            found = compiled(**inputs).logits
        torch.testing.assert_close(found, reference(**inputs).logits, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(found, first) or operation == "merge"


def test_merge_and_unload():
    model, reference = torch_tenon.bank(two_adapters()), two_adapters()
    inputs = collate(samples(3))
    with torch.no_grad():
        torch.compile(model, backend="tenon")(**inputs)
        torch.testing.assert_close(model.merge_and_unload()(**inputs).logits, reference(**inputs).logits, rtol=1e-4, atol=1e-4)


def test_mixed_batch():
    model, reference = torch_tenon.bank(two_adapters()), two_adapters()
    compiled = torch.compile(model, backend="tenon", fullgraph=True)
    inputs = collate(samples(3))
    with torch.no_grad():
        for names in (["__base__", "default", "other"], ["other", "other", "default"]):
            torch.testing.assert_close(compiled(**inputs, adapter_names=names).logits, reference(**inputs, adapter_names=names).logits, rtol=1e-4, atol=1e-4)
