#!/usr/bin/env bash
# Installs the build and test dependencies of Tenon on a bare Debian 12. Running it again is safe.
set -euo pipefail

packages=(g++ cmake ninja-build ccache libgtest-dev nlohmann-json3-dev libcli11-dev libpcre2-dev libutf8proc-dev graphviz clang-format python3-pip llvm-22-dev clang-22 clang-tidy-22 libclang-rt-22-dev libzstd-dev zlib1g-dev valgrind)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
# python3, pip, cmake and g++ may be installed without Debian packages.
command -v pip >/dev/null && missing=("${missing[@]/python3-pip/}")
command -v cmake >/dev/null && missing=("${missing[@]/cmake/}")
command -v g++ >/dev/null && missing=("${missing[@]/g++/}")
missing=($(printf '%s\n' "${missing[@]}" | grep -v '^$' || true))
if ((${#missing[@]})); then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# The version is fixed, because Tenon's listeners depend on internals of libtorch 2.13.
if ! python3 -c 'import torch, sys; sys.exit(torch.__version__.split("+")[0] != "2.13.0")' 2>/dev/null; then
  python3 -m pip install -q 'torch==2.13.0'
fi
python3 -c 'import pytest' 2>/dev/null || python3 -m pip install -q pytest
# Packages whose files Tenon reads and writes; tests/formats compares with them byte by byte.
python3 -c 'import safetensors, sys; sys.exit(safetensors.__version__ != "0.8.0")' 2>/dev/null || python3 -m pip install -q 'safetensors==0.8.0'
python3 -c 'import transformers, sys; sys.exit(transformers.__version__ != "5.22.2")' 2>/dev/null || python3 -m pip install -q 'transformers==5.22.2'
# Reference implementation for tests/tokens.
python3 -c 'import tokenizers, sys; sys.exit(tokenizers.__version__ != "0.23.3")' 2>/dev/null || python3 -m pip install -q 'tokenizers==0.23.3'
python3 -c 'import peft, sys; sys.exit(peft.__version__ != "0.21.2")' 2>/dev/null || python3 -m pip install -q 'peft==0.21.2'
# Transformers' Trainer needs it; tests/train compares with that.
python3 -c 'import accelerate, sys; sys.exit(accelerate.__version__ != "1.15.0")' 2>/dev/null || python3 -m pip install -q 'accelerate==1.15.0'
# PyTorch's samples of its ops, with which tests/python compares, need it.
python3 -c 'import expecttest' 2>/dev/null || python3 -m pip install -q expecttest
echo "setup: ready"
