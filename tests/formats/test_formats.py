"""Compares model files with those of the Python packages, byte by byte in both directions. TENON_FORMATS_ECHO is the path of
formats_echo, which reads a file and writes it again."""
import ctypes
import json
import os
import random
import struct
import subprocess

import numpy
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import transformers

ECHO = os.environ.get("TENON_FORMATS_ECHO", "formats_echo")
# Names of the package and bytes per element. F4 packs two elements into a byte, and the package counts bytes.
DTYPES = {"bool": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1, "float8_e8m0fnu": 1, "float8_e4m3fnuz": 1,
          "float8_e5m2fnuz": 1, "float4_e2m1fn_x2": 1, "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "uint32": 4,
          "float32": 4, "complex64": 8, "float64": 8, "int64": 8, "uint64": 8}
NAMES = ["model.layers.0.weight", "", " ", "é", "日本語", "😀", "\u2028", "a\"b", "a\\b", "a/b", "\n\t\r\b\f", "\0", "\x01\x1f", "\x7f",
         "\u0080", "\uffff", "__metadata", "../../canary", "x" * 5000]


def echo(what, source, target, last):
    return subprocess.run([ECHO, what, str(source), str(target), str(last)], capture_output=True, text=True)


@pytest.fixture
def folders(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    return tmp_path / "in", tmp_path / "out"


def package_bytes(tensors, metadata):
    """Serializes tensors, a map from name to (dtype, shape, bytes), with the Python package."""
    keep = [ctypes.create_string_buffer(data, max(len(data), 1)) for _, _, data in tensors.values()]
    specs = {name: safetensors.TensorSpec(dtype=kind, shape=shape, data_ptr=ctypes.addressof(buffer), data_len=len(data))
             for (name, (kind, shape, data)), buffer in zip(tensors.items(), keep)}
    return safetensors.serialize(specs, metadata)


def random_tensors(rng):
    out = {}
    for _ in range(rng.randrange(30)):
        kind = rng.choice(list(DTYPES))
        shape = [rng.choice([0, 1, 2, 3, 7]) for _ in range(rng.randrange(5))]
        if kind == "float4_e2m1fn_x2" and not shape:
            shape = [1]
        size = DTYPES[kind] * int(numpy.prod(shape, dtype=numpy.int64))
        out[rng.choice(NAMES) + rng.choice(["", str(rng.randrange(100))])] = (kind, shape, rng.randbytes(size))
    return out


def same_again(folders, written):
    source, target = folders
    (source / "f").write_bytes(written)
    run = echo("safetensors", source, target, "f")
    assert run.returncode == 0, run.stderr
    assert (target / "f").read_bytes() == written


@pytest.mark.parametrize("seed", range(100))
def test_random_files_come_back(folders, seed):
    rng = random.Random(seed)
    metadata = rng.choice([None, {}, {"format": "pt"}, {rng.choice(NAMES) + str(i): rng.choice(NAMES) for i in range(5)}])
    # The package writes invalid JSON if there are no tensors: '{},"__metadata__":{}}', which it cannot read itself.
    tensors = random_tensors(rng) or {"x": ("uint8", [0], b"")}
    same_again(folders, package_bytes(tensors, metadata))


@pytest.mark.parametrize("kind", DTYPES)
def test_every_type(folders, kind):
    shapes = [[2, 3], [0], [1, 1, 1, 1]] + ([] if kind == "float4_e2m1fn_x2" else [[]])
    tensors = {str(shape): (kind, shape, os.urandom(DTYPES[kind] * int(numpy.prod(shape)))) for shape in shapes}
    same_again(folders, package_bytes(tensors, None))


def test_no_tensors(folders):
    for metadata in (None, {"format": "pt"}):
        same_again(folders, package_bytes({}, metadata))


@pytest.mark.parametrize("name", NAMES)
def test_every_name(folders, name):
    same_again(folders, package_bytes({name: ("uint8", [1], b"a")}, {name: name}))


def test_files_of_torch(folders):
    kinds = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
             torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]
    tensors = {f"t{i}.{name}": torch.arange(6).reshape(2, 3).to(torch.float32).to(kind) for i, kind in enumerate(kinds) for name in ("a", "b")}
    same_again(folders, safetensors.torch.save(tensors, {"format": "pt"}))
    source, target = folders
    read = safetensors.torch.load_file(target / "f")
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype and read[name].shape == tensor.shape
        assert read[name].view(torch.uint8).equal(tensor.view(torch.uint8)), name


def test_files_of_numpy(folders):
    kinds = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64".split()
    tensors = {kind: numpy.arange(24).reshape(2, 3, 4).astype(kind) for kind in kinds}
    tensors["scalar"] = numpy.array(1.5)
    tensors["empty"] = numpy.zeros((0, 3), "float32")
    same_again(folders, safetensors.numpy.save(tensors))
    read = safetensors.numpy.load_file(folders[1] / "f")
    assert all(numpy.array_equal(read[name], tensor) and read[name].dtype == tensor.dtype for name, tensor in tensors.items())


def test_other_layouts_are_read_and_sorted(folders):
    """Files of other writers may have tensors and fields in any order, and whitespace between them."""
    source, target = folders
    header = b'{"b" : {"data_offsets":[0,1], "shape":[1],\n"dtype":"U8"},"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[],"data_offsets":[1,5]}}'
    (source / "f").write_bytes(struct.pack("<Q", len(header)) + header + b"abcde")
    assert echo("safetensors", source, target, "f").returncode == 0
    assert (target / "f").read_bytes() == package_bytes({"b": ("uint8", [1], b"a"), "a": ("float32", [], b"bcde")}, {"k": "v"})


def flip(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3])):
        at = rng.randrange(min(len(data), 8 + struct.unpack("<Q", data[:8])[0] % 4096) or 1)
        what = rng.randrange(4)
        if what == 0:
            data[at] = rng.choice(b'{}[],:"0123456789\\ \x00\xff-.eUF')
        elif what == 1:
            del data[at:at + rng.choice([1, 2, 8])]
        elif what == 2:
            data[at:at] = rng.choice([b" ", b"0", b",", b'"', b"{}", b"[1]", b'"x":1,'])
        else:
            data[at] ^= 1 << rng.randrange(8)
        if len(data) < 16:
            return bytes(data)
    if rng.random() < 0.8:  # Otherwise most files would only be rejected for their length.
        end = data.rfind(b"}}")
        if end > 8:
            data[:8] = struct.pack("<Q", end + 2 - 8)
    return bytes(data)


@pytest.mark.parametrize("seed", range(20))
def test_rejects_what_the_package_rejects(folders, seed):
    """Damaged files: Tenon accepts none that the package rejects, and its errors have a code."""
    source, target = folders
    rng = random.Random(1000 + seed)
    tensors = {name: ("uint8", [n], bytes(n)) for name, n in (("a", 2), ("b", 0), ("c", 3))}
    for _ in range(25):
        damaged = flip(rng, package_bytes(tensors, {"format": "pt"}))
        (source / "f").write_bytes(damaged)
        run = echo("safetensors", source, target, "f")
        try:
            safetensors.deserialize(damaged)
            accepted = True
        except safetensors.SafetensorError:
            accepted = False
        assert run.returncode == 0 or run.stderr.startswith("[format]"), run.stderr
        assert accepted or run.returncode == 1, damaged


def model_of(tmp_path, split):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, vocab_size=100)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(tmp_path, max_shard_size=split)
    return model


@pytest.mark.parametrize("split", [10**9, 20000, 9000, 1000])
def test_models_of_transformers(tmp_path, folders, split):
    """A directory of save_pretrained is read, and writing it again produces the same files."""
    source, target = folders
    model = model_of(tmp_path / "saved", split)
    # save_pretrained splits in the order of the state dict, formats_echo in the order of names.
    ordered = dict(sorted(model.state_dict().items()))
    model.save_pretrained(source, max_shard_size=split, state_dict=ordered)
    run = echo("weights", source, target, split)
    assert run.returncode == 0, run.stderr
    written = sorted(path.name for path in target.iterdir())
    assert written == sorted(path.name for path in source.iterdir() if path.name.startswith("model"))
    for name in written:
        assert (target / name).read_bytes() == (source / name).read_bytes(), name
    assert len(written) > 1 or split == 10**9
    assert echo("weights", tmp_path / "saved", tmp_path / "out", 10**9).returncode == 0
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "saved").state_dict()
    whole = safetensors.torch.load_file(target / "model.safetensors")
    assert all(whole[name].equal(again[name]) for name in again)


JSON = ["{}", "[]", "0", "-0", '"\\u00e9\\ud83d\\ude00"', '{"a":{"b":[1,2.5,-3e-2,null,true,false,"x"]}}', "[1e308,5e-324,0.1,123456789012345678]",
        '{"model_max_length":1000000000000000019884624838656}', ' \t\r\n{"é":"\\/"}\n']


@pytest.mark.parametrize("text", JSON)
def test_json_has_the_same_meaning(folders, text):
    source, target = folders
    (source / "config.json").write_text(text)
    run = echo("json", source, target, "config.json")
    assert run.returncode == 0, run.stderr
    assert json.loads((target / "config.json").read_text()) == json.loads(text)


def test_configs_of_transformers(tmp_path, folders):
    source, target = folders
    model_of(source, 10**9)
    for name in ("config.json", "generation_config.json"):
        assert echo("json", source, target, name).returncode == 0
        assert json.loads((target / name).read_text()) == json.loads((source / name).read_text())
