"""Takes in a model of any kind: a torch module, a model of scikit-learn, or a network of the simulator."""

from __future__ import annotations

import sys
from typing import Any

from numpy import ndarray

from featavg.audit.classifier import Classifier
from featavg.audit.dense import dense_classifier


def classifier(
    model: Any,
    x: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    name: str | None = None,
) -> Classifier:
    """Take a model in, look at it once, and refuse what cannot be audited in one sentence."""
    title = name or type(model).__name__
    inner: Any = getattr(model, "net", None)  # of a Trajectory, or of a network trained on images
    if is_module(model) or (is_module(inner) and not hasattr(model, "coefs_")):
        from featavg.audit.torch_classifier import torch_classifier

        module = model if is_module(model) else inner
        return torch_classifier(module, x, bounds, mean, std, title)
    return dense_classifier(model, x, bounds, mean, std, title)


def is_module(model: Any) -> bool:
    """Whether it is a torch module; without torch nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
