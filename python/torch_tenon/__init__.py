"""Tenon in Python: torch.compile(model, backend="tenon"), and bank(peft_model) for adapters as data."""
import torch

if torch.__version__.split("+")[0].split(".")[:2] != ["2", "13"]:
    raise ImportError(f"torch-tenon needs torch 2.13 and found {torch.__version__}: pip install 'torch==2.13.0'")

from ._C import version as __version__
from .compiler import backend, explain
from .adapters import bank, unbank

__all__ = ["backend", "bank", "explain", "unbank", "__version__"]
