"""The wheel that TENON_WHEEL names, in an empty virtual environment: `tools/wheel` builds it."""
import os
import pathlib
import re
import subprocess
import time
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = os.environ.get("TENON_WHEEL", "")
pytestmark = pytest.mark.skipif(not WHEEL, reason="TENON_WHEEL names no wheel; tools/wheel builds one")

# What the wheel may need: libtorch and the base of the system.
BASE = re.compile(r"libtorch(_cpu|_python)?\.so|libc10\.so|libshm\.so|libtenon\.so|libgomp\.so\.1|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libm\.so\.6|libc\.so\.6|ld-linux-x86-64\.so\.2")

USE = """
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
x = torch.randn(8, 16)
torch.testing.assert_close(torch.compile(model, backend="tenon", fullgraph=True)(x), model(x))
assert "torch_tenon" in sys.modules
import torch_tenon
assert "aten::addmm" in str(torch_tenon.explain()) or "kernel" in str(torch_tenon.explain())
"""

# Loads a C++ library of the user into a process that has used the backend.
SHARE = USE + """
import ctypes
ctypes.CDLL(sys.argv[1]).call_compiled
print(*{line.split()[-1] for line in open("/proc/self/maps") if "libtenon.so" in line}, sep="\\n")
"""


def run(*command, **options):
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=clean, **options)
    assert out.returncode == 0, out.stdout + out.stderr
    return out.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An environment that has nothing but torch and the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "env", with_pip=True)
    run(folder / "env/bin/python", "-m", "pip", "install", "-q", WHEEL)
    return folder


@pytest.fixture(scope="module")
def program(place):
    """tests/install against the wheel, and the seconds that configuring it and building its program took."""
    prefix = run(place / "env/bin/python", "-m", "torch_tenon", "--cmake-prefix", cwd=place).strip()
    start = time.monotonic()
    run("cmake", "-S", ROOT / "tests/install", "-B", place / "build", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", place / "build", "--target", "consumer")
    return place / "build", time.monotonic() - start


def test_contents(capsys):
    with zipfile.ZipFile(WHEEL) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        installed = sum(info.file_size for info in archive.infolist())
    with capsys.disabled():
        print(f"\nwheel: {os.path.getsize(WHEEL) / 1e6:.1f} MB, installed {installed / 1e6:.1f} MB")
    assert {top.split("-")[0] for top in tops} == {"torch_tenon"}


def test_needs_libtorch_alone(place):
    package = next((place / "env").glob("lib/python*/site-packages/torch_tenon"))
    binaries = [package / "_C.so", *package.glob("lib/*.so"), *package.glob("bin/*")]
    assert len(binaries) == 5
    for binary in binaries:
        needed = re.findall(r"NEEDED +(\S+)", run("objdump", "-p", binary))
        assert needed and not [name for name in needed if not BASE.fullmatch(name)], binary
        assert "not found" not in run("ldd", binary)


def test_found_without_import(place):
    run(place / "env/bin/python", "-c", USE, cwd=place)


def test_other_torch_is_refused(place):
    out = subprocess.run([place / "env/bin/python", "-c", "import torch; torch.__version__ = '2.12.1'; import torch_tenon"], capture_output=True, text=True, cwd=place)
    assert out.returncode != 0
    assert out.stderr.splitlines()[-1] == "ImportError: torch-tenon needs torch 2.13 and found 2.12.1: pip install 'torch==2.13.0'"


def test_program_in_cpp(program, capsys):
    build, seconds = program
    with capsys.disabled():
        print(f"\nprogram: configured and built in {seconds:.0f} s")
    assert "1 OpenMP runtime" in run(build / "consumer")


def test_extension_shares_the_library(place, program):
    build, _ = program
    run("cmake", "--build", build, "--target", "first")
    libraries = run(place / "env/bin/python", "-c", SHARE, build / "libfirst.so", cwd=place).split()
    assert len(libraries) == 1 and "site-packages/torch_tenon/lib/libtenon.so" in libraries[0]


def test_uninstall_leaves_nothing(place, program):
    run(place / "env/bin/python", "-m", "pip", "uninstall", "-q", "-y", "torch-tenon")
    assert not [path for path in (place / "env").rglob("*") if "tenon" in path.name]
    run(place / "env/bin/python", "-c", "import torch; assert 'tenon' not in torch._dynamo.list_backends()", cwd=place)
