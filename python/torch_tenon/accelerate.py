"""Importing this module makes "tenon" a name that Accelerate and the Trainer of Transformers accept.

    import torch_tenon.accelerate
    Accelerator(dynamo_plugin=TorchDynamoPlugin(backend="tenon", mode="default", use_regional_compilation=True))
    TrainingArguments(torch_compile=True, torch_compile_backend="tenon", ...)

Accelerate keeps its names in an enumeration. Its hook for unknown values accepts each backend that torch.compile knows.
"""
from accelerate.utils import DynamoBackend


def _missing_(cls, value):
    from torch._dynamo.backends.registry import list_backends

    if not isinstance(value, str) or value.lower() not in list_backends(exclude_tags=()):
        return None
    member = str.__new__(cls, value)
    member._name_ = member._value_ = value
    cls._value2member_map_[value] = member
    return member


DynamoBackend._missing_ = classmethod(_missing_)
