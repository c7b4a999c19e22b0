"""Models: named sizes, metadata and tensors, from files of any installed format or from arrays."""

from openinfer.model.files import ModelLoader, save_model
from openinfer.model.model import Model
from openinfer.model.sizes import exact_size
from openinfer.model.store import (
    MetadataValue,
    ModelContents,
    ModelStore,
    Quantisation,
    QuantisedStore,
    VarInfo,
)

__all__ = [
    "MetadataValue",
    "Model",
    "ModelContents",
    "ModelLoader",
    "ModelStore",
    "Quantisation",
    "QuantisedStore",
    "VarInfo",
    "exact_size",
    "save_model",
]
