"""What the functions of a model return: the statuses of any model with a host in C, and those of devices."""

from __future__ import annotations

from openinfer.synth.c_host.statuses import STATUSES as OF_ANY_HOST
from openinfer.synth.c_host.statuses import Status

_FIRST = 64
"""Their numbers begin here, so that those of other hosts go on from where they are."""

_TEXTS = {
    "DEVICE": "there is no Vulkan device with the features that the kernels need, or it cannot be opened",
    "ROOM": "the Vulkan device has too little memory",
    "LOST": "a call of Vulkan failed: the device is lost, or memory is used up",
}

STATUSES = (*OF_ANY_HOST, *(Status(name, _FIRST + n, text) for n, (name, text) in enumerate(_TEXTS.items())))
"""All of them. Numbers are part of the interface: new ones come last."""
