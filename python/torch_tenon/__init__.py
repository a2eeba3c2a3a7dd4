"""Tenon in Python: torch.compile(model, backend="tenon")."""
import torch

if not torch.__version__.startswith("2.13."):
    raise ImportError(f"torch-tenon needs torch 2.13 and found {torch.__version__}: pip install 'torch==2.13.0'")

from ._C import version as __version__
from .backend import backend, explain

__all__ = ["backend", "explain", "__version__"]
