"""torch_tenon.bank: operations on adapters of a compiled PeftModel give PEFT's results, gradients included, and compile nothing."""
import copy
import os
import pickle
import random
import threading
import warnings

import peft
import pytest
import torch
from networks import NETWORKS, some
from torch._dynamo.utils import counters

import torch_tenon

pytestmark = pytest.mark.filterwarnings("error:tenon. ")
NETWORK = NETWORKS["llama"]
QV = ["q_proj", "v_proj"]
LORA = dict(target_modules=QV, init_lora_weights=False)


def lora(rank, **options):
    return peft.LoraConfig(r=rank, **{**LORA, **options})


# The methods of the table of adapters, as pairs of two adapters of one model.
METHODS = {
    "lora": lambda: (lora(4), lora(8)),
    "lora_equal_ranks": lambda: (lora(4), lora(4, lora_alpha=3)),
    "rslora": lambda: (lora(4, use_rslora=True), lora(8, use_rslora=True)),
    "dora": lambda: (lora(4, use_dora=True), lora(8, use_dora=True)),
    "lora_bias": lambda: (lora(4, lora_bias=True), lora(8, lora_bias=True)),
    "lora_dropout": lambda: (lora(4, lora_dropout=0.1), lora(8, lora_dropout=0.2)),
    "lora_all_linear": lambda: (lora(2, target_modules="all-linear"), lora(3, target_modules="all-linear")),
    "lora_embeddings": lambda: (lora(4, target_modules=["embed_tokens", "q_proj"]), lora(8, target_modules=["embed_tokens", "q_proj"])),
    "lora_token_indices": lambda: (lora(4, trainable_token_indices=[3, 5]), lora(8, trainable_token_indices=[3, 5])),
    "lora_modules_to_save": lambda: (lora(4, modules_to_save=["lm_head"]), lora(8, modules_to_save=["lm_head"])),
    "adalora": lambda: (peft.AdaLoraConfig(target_modules=QV, init_r=4, target_r=2, total_step=10, init_lora_weights=False),
                        peft.AdaLoraConfig(target_modules=QV, init_r=6, target_r=2, total_step=10, init_lora_weights=False, inference_mode=True)),
    "loha": lambda: (peft.LoHaConfig(target_modules=QV, r=4, init_weights=False), peft.LoHaConfig(target_modules=QV, r=8, init_weights=False)),
    "lokr": lambda: (peft.LoKrConfig(target_modules=QV, r=4, init_weights=False), peft.LoKrConfig(target_modules=QV, r=8, init_weights=False)),
    "ia3": lambda: (peft.IA3Config(target_modules=QV, feedforward_modules=[], init_ia3_weights=False), peft.IA3Config(target_modules=QV, feedforward_modules=[], init_ia3_weights=False)),
    "oft": lambda: (peft.OFTConfig(target_modules=QV, r=4, oft_block_size=0, init_weights=False), peft.OFTConfig(target_modules=QV, r=8, oft_block_size=0, init_weights=False)),
    "boft": lambda: (peft.BOFTConfig(target_modules=QV, boft_block_size=4, init_weights=False), peft.BOFTConfig(target_modules=QV, boft_block_size=4, init_weights=False)),
    "vera": lambda: (peft.VeraConfig(target_modules=["q_proj", "o_proj"], r=4, init_weights=False), peft.VeraConfig(target_modules=["q_proj", "o_proj"], r=4, init_weights=False)),
    "hra": lambda: (peft.HRAConfig(target_modules=QV, r=4, init_weights=False), peft.HRAConfig(target_modules=QV, r=8, init_weights=False)),
    "ln_tuning": lambda: (peft.LNTuningConfig(target_modules=["input_layernorm"]), peft.LNTuningConfig(target_modules=["input_layernorm"])),
    "fourierft": lambda: (peft.FourierFTConfig(target_modules=QV, n_frequency=20, init_weights=False), peft.FourierFTConfig(target_modules=QV, n_frequency=30, init_weights=False)),
    "vblora": lambda: (peft.VBLoRAConfig(target_modules=["q_proj"], r=2, num_vectors=8, vector_length=8), peft.VBLoRAConfig(target_modules=["q_proj"], r=2, num_vectors=8, vector_length=8)),
    "randlora": lambda: (peft.RandLoraConfig(target_modules=["q_proj"], r=4, init_weights=False), peft.RandLoraConfig(target_modules=["q_proj"], r=4, init_weights=False)),
    "miss": lambda: (peft.MissConfig(target_modules=QV, r=4, init_weights=False), peft.MissConfig(target_modules=QV, r=8, init_weights=False)),
    "miss_bat": lambda: (peft.MissConfig(target_modules=["q_proj"], r=4, init_weights="bat"), peft.MissConfig(target_modules=["q_proj"], r=8, init_weights="bat")),
}
MIXED = {"lora", "lora_equal_ranks", "rslora", "lora_bias", "lora_dropout", "lora_all_linear", "lora_embeddings", "lora_modules_to_save"}  # In PEFT.
NO_SCALE = {"ia3", "oft", "boft", "vera", "hra", "ln_tuning", "fourierft", "vblora", "miss", "miss_bat"}
SINGLE = {"ln_tuning", "lora_token_indices", "lora_modules_to_save"}  # PEFT refuses two active adapters.
COUNT = 1000 if os.environ.get("TENON_PYTHON_ALL") else 100
NO_MERGE = {"lora_bias"}


def graphs():
    return counters["stats"]["unique_graphs"]


def randomise(model):
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "other" in name or "default" in name:
                p.add_(torch.randn(p.shape, generator=generator), alpha=0.05)


def build(method):
    torch.manual_seed(0)
    base = NETWORK.make()
    first, second = METHODS[method]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(base, first)
        model.add_adapter("other", second)
    model.set_adapter("default")
    randomise(model)
    return model.eval()


class Pair:
    """A compiled model with a bank beside the same model in eager."""

    def __init__(self, method):
        self.model, self.reference = torch_tenon.bank(build(method)), build(method)
        self.compiled = torch.compile(self.model, backend=torch_tenon.backend, fullgraph=True)
        self.inputs = NETWORK.batch(3, 9)

    def compare(self, new_graphs=0, **names):
        before = graphs()
        with torch.no_grad():
            found, expected = self.compiled(**self.inputs, **names).logits, self.reference(**self.inputs, **names).logits
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)
        assert graphs() - before == new_graphs
        return found

    def do(self, operation, **names):
        for model in (self.model, self.reference):
            torch.manual_seed(3)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                operation(model)
        return self.compare(**names)

    def train(self, new_graphs):
        before = graphs()
        inputs = dict(self.inputs, labels=self.inputs["input_ids"])
        losses = []
        for model, run in ((self.model, self.compiled), (self.reference, self.reference)):
            model.train()
            model.zero_grad()
            torch.manual_seed(5)
            losses.append(run(**inputs).loss)
            losses[-1].backward()
            model.eval()
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-5)
        expected = {name: p.grad for name, p in self.reference.named_parameters() if p.grad is not None}
        found = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        assert expected.keys() == found.keys() and expected
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-6, msg=lambda m: f"{name}: {m}")
        assert graphs() - before == new_graphs


def scale(model):
    for module in model.modules():
        if isinstance(getattr(module, "scaling", None), dict) and "default" in module.scaling:
            module.scaling["default"] *= 2


@pytest.mark.parametrize("method", some(METHODS, {"lora", "oft"}))
def test_operations(method, tmp_path):
    pair = Pair(method)
    base = pair.compare(new_graphs=1)
    other = pair.do(lambda m: m.set_adapter("other"))
    assert not torch.equal(base, other)
    pair.do(lambda m: m.set_adapter("default"))
    pair.do(lambda m: m.base_model.disable_adapter_layers())
    pair.do(lambda m: m.base_model.enable_adapter_layers())
    for contexts in [[each.disable_adapter() for each in (pair.model, pair.reference)]]:
        with contexts[0], contexts[1]:
            pair.compare()
    pair.compare()
    if method not in SINGLE and method != "adalora":
        pair.do(lambda m: m.base_model.set_adapter(["default", "other"]))
        pair.do(lambda m: m.set_adapter("default"))
    if method not in NO_SCALE:
        changed = pair.do(scale)
        assert not torch.equal(changed, base)
    if method in MIXED:
        pair.compare(adapter_names=["default", "other", "__base__"])
        pair.compare(adapter_names=["other", "__base__", "default"])
        pair.compare()
    if method not in NO_MERGE:
        pair.do(lambda m: m.merge_adapter())
        pair.do(lambda m: m.unmerge_adapter())
    for model, folder in ((pair.model, tmp_path / "a"), (pair.reference, tmp_path / "b")):
        model.save_pretrained(folder)
    assert (tmp_path / "a/other/adapter_model.safetensors").read_bytes() == (tmp_path / "b/other/adapter_model.safetensors").read_bytes()
    pair.do(lambda m: m.delete_adapter("other"))
    pair.do(lambda m: m.load_adapter(tmp_path / "b/other", "other"))
    again = pair.do(lambda m: m.set_adapter("other"))
    assert method == "adalora" or torch.allclose(again, other, atol=1e-5)  # PEFT itself gives an AdaLoRA adapter back with other ranks.


@pytest.mark.parametrize("method", some(METHODS, {"lora_dropout", "boft"}))
def test_training(method):
    pair = Pair(method)
    if method == "adalora":  # Its own loss reads the adapters' parameters in eager mode.
        for model in (pair.model, pair.reference):
            model.base_model.peft_config["default"].orth_reg_weight = 0.5
    pair.train(new_graphs=1)
    pair.train(new_graphs=0)
    if method not in ("adalora", "vblora"):  # One adapter trains in these.
        for model in (pair.model, pair.reference):
            model.set_adapter("other")
        pair.train(new_graphs=0)


@pytest.mark.parametrize("config", [lambda: peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3), lambda: peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
                                    lambda: peft.PromptEncoderConfig(task_type="CAUSAL_LM", num_virtual_tokens=3, encoder_hidden_size=8)], ids=["prompt", "prefix", "p_tuning"])
def test_prompts(config):
    def make():
        torch.manual_seed(0)
        model = peft.get_peft_model(NETWORK.make(), config())
        model.add_adapter("other", config())
        return model.eval()
    model, reference = torch_tenon.bank(make()), make()
    compiled = torch.compile(model, backend=torch_tenon.backend, fullgraph=True)
    inputs = {k: v for k, v in NETWORK.batch(3, 9).items() if k != "use_cache"}
    for i, name in enumerate(["default", "other", "default"]):
        before = graphs()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_adapter(name), reference.set_adapter(name)
            torch.testing.assert_close(compiled(**inputs).logits, reference(**inputs).logits, rtol=1e-4, atol=2e-5)
        assert graphs() - before == (i == 0)


def test_random_operations():
    """Random operations, a thousand with TENON_PYTHON_ALL; error_on_recompile would raise at the first new graph."""
    pair = Pair("lora")
    rng = random.Random(1)
    pair.compare(new_graphs=1)
    names = ["default", "other"]
    with torch._dynamo.config.patch(error_on_recompile=True):
        for step in range(COUNT):
            kind = rng.choice(["set", "two", "scale", "mixed", "off", "on", "merge", "add", "delete", "combine"])
            if kind == "set":
                pair.do(lambda m, name=rng.choice(names): m.set_adapter(name))
            elif kind == "two":
                pair.do(lambda m, two=rng.sample(names, 2): m.base_model.set_adapter(two))
            elif kind == "scale":
                pair.do(lambda m, f=rng.choice([0.5, 2.0]): [x.set_scale(names[0], f) for x in m.modules() if hasattr(x, "lora_A") and names[0] in x.lora_A])
            elif kind == "mixed":
                pair.compare(adapter_names=[rng.choice(names + ["__base__"]) for _ in range(3)])
            elif kind in ("off", "on"):
                pair.do(lambda m: m.base_model.disable_adapter_layers() if kind == "off" else m.base_model.enable_adapter_layers())
            elif kind == "merge":
                pair.do(lambda m: m.merge_adapter())
                pair.do(lambda m: m.unmerge_adapter())
            elif kind == "add" and len(names) < 6:
                pair.do(lambda m, rank=rng.randint(1, 9): m.add_adapter(f"a{step}", lora(rank)))
                names.append(f"a{step}")
            elif kind == "delete" and len(names) > 3:
                gone = names.pop(rng.randrange(len(names)))
                pair.do(lambda m: (m.set_adapter(names[0]), m.delete_adapter(gone)))
            elif kind == "combine" and len(names) < 6:
                pair.do(lambda m, two=rng.sample(names, 2): m.add_weighted_adapter(two, [0.5, 0.7], f"c{step}", combination_type="cat"))
                names.append(f"c{step}")


def test_copy_has_its_own_adapters():
    pair = Pair("lora")
    pair.compare(new_graphs=1)
    twin = copy.deepcopy(pair.model)
    with torch.no_grad():
        for name, p in twin.named_parameters():
            if "lora_B" in name:
                p.zero_()
        found = torch.compile(twin, backend=torch_tenon.backend)(**pair.inputs).logits
        with pair.reference.disable_adapter():
            torch.testing.assert_close(found, pair.reference(**pair.inputs).logits, rtol=1e-4, atol=2e-5)
    pair.compare()


def test_unbank():
    pair = Pair("lora")
    model = torch_tenon.unbank(pair.model)
    assert not any(hasattr(type(m), "_tenon_original") or "_tenon_layer" in m.__dict__ for m in model.modules())
    with torch.no_grad():
        assert torch.equal(model(**pair.inputs).logits, pair.reference(**pair.inputs).logits)
    pickle.loads(pickle.dumps(model))


def test_banked_models_are_pickled_as_those_of_peft():
    pair = Pair("lora")
    pair.compare(new_graphs=1)
    for model in (pair.model, pair.model.merge_and_unload()):
        twin = pickle.loads(pickle.dumps(model))
        assert not any(hasattr(type(m), "_tenon_original") for m in twin.modules())
        with torch.no_grad():
            torch.testing.assert_close(twin(**pair.inputs).logits, model(**pair.inputs).logits)


def test_hooks_of_the_user_stay():
    pair = Pair("lora")
    for model in (pair.model, pair.reference):
        layer = model.base_model.model.model.layers[0].self_attn.q_proj
        layer.register_forward_pre_hook(lambda module, args: (args[0] * 1.5,))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(pair.compiled(**pair.inputs).logits, pair.reference(**pair.inputs).logits, rtol=1e-4, atol=2e-5)
        names = ["default", "other", "__base__"][:len(pair.inputs["input_ids"])]
        names += ["default"] * (len(pair.inputs["input_ids"]) - len(names))
        torch.testing.assert_close(pair.compiled(**pair.inputs, adapter_names=names).logits, pair.reference(**pair.inputs, adapter_names=names).logits,
                                   rtol=1e-4, atol=2e-5)


def test_threads_with_mixed_batches():
    pair = Pair("lora")
    pair.compare(new_graphs=1)
    rows = len(pair.inputs["input_ids"])
    expected, wrong = {}, []
    with torch.no_grad():
        for name in ("default", "other", "__base__"):
            expected[name] = pair.reference(**pair.inputs, adapter_names=[name] * rows).logits
            pair.compiled(**pair.inputs, adapter_names=[name] * rows)

    def call(name):
        for _ in range(10):
            with torch.no_grad():
                found = pair.compiled(**pair.inputs, adapter_names=[name] * rows).logits
            wrong.extend([name] * (not torch.allclose(found, expected[name], rtol=1e-4, atol=2e-5)))

    threads = [threading.Thread(target=call, args=(name,)) for name in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    for model in (pair.model, pair.reference):
        model.set_adapter("other")
    pair.compare()


@pytest.mark.parametrize("method", ["lora", "lora_embeddings"])
def test_gradients_of_some_tensors(method):
    pair = Pair(method)
    inputs = pair.inputs["input_ids"]
    embedded = pair.model.get_input_embeddings()(inputs).detach().requires_grad_()
    gradients = []
    for model in (pair.compiled, pair.reference):
        loss = model(inputs_embeds=embedded, labels=inputs).loss
        gradients.append(torch.autograd.grad(loss, [embedded])[0])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    assert all(p.grad is None for p in pair.model.parameters())
    model_loss, reference_loss = (model(inputs_embeds=embedded, labels=inputs).loss for model in (pair.compiled, pair.reference))
    model_loss.backward(), reference_loss.backward()
    expected = dict(pair.reference.named_parameters())
    for name, p in pair.model.named_parameters():
        assert (p.grad is None) == (expected[name].grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(p.grad, expected[name].grad, rtol=1e-3, atol=1e-5)


def test_two_backwards_are_refused():
    pair = Pair("lora")
    pair.model.train()
    loss = pair.compiled(**dict(pair.inputs, labels=pair.inputs["input_ids"])).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_forward_without_backward_keeps_nothing():
    from torch_tenon import adapters
    pair = Pair("lora")
    pair.model.train()
    loss = pair.compiled(**dict(pair.inputs, labels=pair.inputs["input_ids"])).loss
    assert len(adapters._records) == 4
    del loss
    assert len(adapters._records) == 0


def test_autocast():
    pair = Pair("lora")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = pair.compiled(**pair.inputs).logits, pair.reference(**pair.inputs).logits
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=3e-2, atol=3e-2)


def test_needs_a_peft_model():
    with pytest.raises(TypeError, match="get_peft_model"):
        torch_tenon.bank(torch.nn.Linear(2, 2))
