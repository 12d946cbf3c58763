"""What can be done about averaged features: a new head on frozen ones, or training again (torch)."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from featavg.audit.dense import net_of
from featavg.audit.gain import COMPETING, FeatureGain, measured_gain
from featavg.audit.labels import audit_data, nested, partly_labelled
from featavg.audit.models import module_of
from featavg.audit.subclasses import clustered, merged
from featavg.audit.torch_classifier import TorchClassifier, as_module, torch_classifier
from featavg.boundary.kinds import Count, PartlyKnown, Seed
from featavg.boundary.public import public
from featavg.data.images import Images, ImageTask
from featavg.data.labels import Labels
from featavg.errors import InputError
from featavg.nets.torch.competitive import CompetitiveHead
from featavg.nets.torch.image_nets import Normalise
from featavg.nets.torch.inference import own_randomness, unchanged
from featavg.nets.torch.outputs import Logits, device_of, watch
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, part
from featavg.robustness.models.torch_model import torch_model
from featavg.training.heads import HeadRecipe, class_features, lost_classes, train_head
from featavg.training.torch.module import train_module
from featavg.training.torch.objectives import Objective
from featavg.training.torch.recipe import ImageRecipe


class Reheaded(nn.Module):
    """The body of a network with another head on its features.

    The features are found while the body runs, so nothing has to be known about its code; its old
    head runs along and is not asked.
    """

    def __init__(self, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, head

    def forward(self, x: Tensor) -> Tensor:
        """The outputs of the new head."""
        out: Tensor = self.head(_features(self.body, x))
        return out


def _features(net: nn.Module, x: Tensor) -> Tensor:
    """The input of the last linear layer; a network without one is refused."""
    features = watch(net, x)[1].features
    if features is None:
        raise InputError("model", "has no last linear layer on features", "retrain it instead")
    return features


@dataclass(frozen=True, eq=False)
class Rehead:
    """A network with a decoupled head, and what is known about it.

    Attributes:
        module: takes what the old network takes, returns one output per sub-class; save it with
            `safetensors.torch.save_model(module, file)`.
        head: the new head as a two-layer network on features, for exact radii.
        groups: the class of each output.
        gain: of the boundary in feature space, measured.
        lost: sub-classes that the head never decides for.

    Returned by `fa.rehead`, which has an example.
    """

    module: Reheaded
    head: TwoLayer
    groups: ndarray
    gain: FeatureGain
    lost: list[int]

    def __repr__(self) -> str:
        lost = f", {len(self.lost)} sub-classes lost" if self.lost else ""
        outputs = f"{len(self.groups)} sub-classes"
        if self.head.neurons == self.head.outputs:
            outputs = f"{len(self.groups)} classes, which compete"
        return f"A head of {self.head.neurons} neurons for {outputs}: {self.gain.words()}{lost}."


@public
def rehead(
    model: Any,
    x: ndarray,
    coarse: ndarray,
    fine: PartlyKnown = None,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    recipe: HeadRecipe | None = None,
    seed: Seed = 0,
    progress: Progress | None = None,
) -> Rehead:
    """Train a decoupled head on the frozen features of a network.

    Without fine labels the head is a `CompetitiveHead`, for two classes: the neurons of a class compete
    for each image, from class labels alone, and each begins at an image of its class.

    It helps where the features still tell the sub-classes apart; on features that have collapsed
    (`Audit.collapse`) it loses. What it does to radii in pixels, only an audit of the result says.

    Args:
        model, bounds, mean, std: as in `audit`.
        x: training images.
        fine: their sub-classes, given or discovered; -1 or NaN where only the class is known. None for
            neurons that compete.
        coarse: the class of each image.
        recipe: of the head.
        seed: of its initial weights.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> import torch
    >>> task = fa.load_images("digits")
    >>> layers = (torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    >>> net = torch.nn.Sequential(*layers)
    >>> fa.rehead(net, task.train.unit, task.groups[task.train.fine], task.train.fine)
    A head of 30 neurons for 10 sub-classes: ...
    """
    if fine is None:
        data = audit_data(np.asarray(x), coarse, None, bounds)[0].undivided()
        labels: Labels | str = "competing"
        known = np.ones(len(data.x), dtype=bool)
        if data.classes > 2:
            remedy = "give fine labels: neurons compete between two classes"
            raise InputError("coarse", f"has {data.classes} classes", remedy)
    else:
        data, known = partly_labelled(x, coarse, fine, bounds)
        labels = "fine" if known.all() else Labels(known=known.tolist())
    sub_classes, groups = data.divided
    subject = torch_classifier(_module(model), data.x, bounds, mean, std)
    features = frozen_features(subject, data.x, progress=part(progress, 0.0, 0.4))
    how = recipe or (COMPETING if fine is None else HeadRecipe())
    head = train_head(features, sub_classes, groups, labels, how, seed)
    features, sub_classes = features[known], sub_classes[known]
    kind = "competing" if fine is None else "fine"
    tell = part(progress, 0.6, 1.0)
    gain = measured_gain(features, sub_classes, groups, seed, tell, kind)
    like = next((p for p in subject.module.parameters() if p.is_floating_point()), None)
    layers = _competing(head) if fine is None else as_module(net_of(head))
    layers = layers.to(device_of(subject.module), torch.float32 if like is None else like.dtype)
    module = Reheaded(copy.deepcopy(subject.module), layers)
    module.train(subject.module.training)
    lost = [] if fine is None else lost_classes(head, features, sub_classes)
    return Rehead(module, head, groups, gain, lost)


def _competing(head: TwoLayer) -> nn.Module:
    """Neurons, the first half of class 1, as a module."""
    half = head.neurons // 2
    made = CompetitiveHead(head.dimension, classes=2, neurons=half)
    with torch.no_grad():
        made.linear.weight.copy_(torch.from_numpy(np.roll(head.weights, half, axis=0)))
        made.linear.bias.zero_()
    return made


def _module(model: Any) -> nn.Module:
    """A module as it is; networks of NumPy arrays become one."""
    return module_of(model) or as_module(net_of(model))


def frozen_features(
    subject: TorchClassifier, x: ndarray, batch: int = 250, progress: Progress | None = None
) -> ndarray:
    """The input of the last linear layer, float64; a network without one is refused."""
    rows = []
    with unchanged(subject.module), torch.no_grad():
        wrapped = torch_model(subject.logits, None, subject.mean, subject.std).shaped(x)
        for start in range(0, len(x), batch):
            some = torch.from_numpy(np.ascontiguousarray(x[start : start + batch]))
            found = _features(subject.module, (some.to(wrapped.mean) - wrapped.mean) / wrapped.std)
            rows.append(found.double().cpu().numpy())
            if progress is not None:
                progress(min(1.0, (start + batch) / len(x)), "features before the last layer")
    return np.concatenate(rows)


@public
def discover_labels(
    model: Any,
    task: ImageTask,
    clusters: Count,
    mean: Any = 0.0,
    std: Any = 1.0,
    seed: Seed = 0,
    progress: Progress | None = None,
) -> ImageTask:
    """The images of a task under sub-classes found by clustering a network's features in each class.

    `retrain(model, discover_labels(model, task, clusters=5))` trains with them. Test images belong to
    the nearest centre of their class.

    Args:
        model, mean, std: as in `audit`.
        clusters: per class; clusters that are too small to be measured are merged.
        task: its images; its own fine labels are not looked at.
        seed: of the clustering.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> import torch
    >>> task = fa.load_images("digits")
    >>> layers = (torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    >>> found = fa.discover_labels(torch.nn.Sequential(*layers), task, clusters=3)
    >>> len(found.train) == len(task.train)
    True
    """
    subject = torch_classifier(_module(model), task.train.unit[:4], (0.0, 1.0), mean, std)
    coarse = task.targets(task.train, "coarse")
    if clusters < 2:
        raise InputError("clusters", f"is {clusters}", "give two or more per class")
    fewest = int(np.bincount(coarse).min())
    if clusters > fewest:
        problem = f"is {clusters} for {fewest} images of a class"
        raise InputError("clusters", problem, f"give at most {fewest}")
    features = frozen_features(subject, task.train.unit, progress=part(progress, 0.0, 0.4))
    seen = frozen_features(subject, task.test.unit, progress=part(progress, 0.4, 0.5))
    found = clustered(features, coarse, clusters, seed, progress=part(progress, 0.5, 1.0))[0]
    labels = merged(features, coarse, found)
    groups = nested(labels, coarse)
    centres = class_features(features, labels, len(groups))
    apart = (centres**2).sum(axis=1) - 2.0 * seen @ centres.T
    apart[groups[None, :] != task.targets(task.test, "coarse")[:, None]] = np.inf
    return replace(
        task,
        train=Images(task.train.pixels, labels),
        test=Images(task.test.pixels, apart.argmin(axis=1)),
        groups=groups,
        fine_names=tuple(f"cluster {j}" for j in range(len(groups))),
    )


@public
def retrain(
    model: nn.Module,
    task: ImageTask,
    labels: Labels | str = "fine",
    recipe: ImageRecipe | None = None,
    mean: Any = 0.0,
    std: Any = 1.0,
    seed: Seed = 0,
    progress: Progress | None = None,
    objective: Objective | None = None,
) -> nn.Module:
    """Train a network of the same architecture from the start, on the fine labels of a task.

    The last linear layer gets one output per label; every layer starts again from random weights.
    The result takes pixels in [0, 1]: its normalisation is inside.

    Args:
        model: only its architecture counts; it is left as it was. Training is in float32.
        task: images with sub-classes, perhaps discovered ones.
        objective: what to make small instead of cross-entropy alone, to control the gradient:
            `GradientPenalty(0.3)`, or `Adversarial(0.5)` for a ball of that radius.
        labels: "fine", "coarse", or a `Labels`: which images carry their sub-class.
        recipe: epochs, batches and steps; `ImageRecipe()` unless given.
        mean, std: what to subtract from pixels, and what to divide them by.
        seed: of initial weights and batches.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> import torch
    >>> layers = (torch.nn.Flatten(), torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    >>> net = torch.nn.Sequential(*layers)
    >>> finer = fa.retrain(net, fa.load_images("digits"), recipe=fa.ImageRecipe(epochs=1, crop=0))
    >>> finer(torch.zeros(1, 1, 8, 8)).shape
    torch.Size([1, 10])
    """
    if not isinstance(model, nn.Module):
        raise InputError("model", f"is a {type(model).__name__}", "give a torch.nn.Module")
    # Half precision would lose the steps, and pixels are float32.
    fresh = copy.deepcopy(model).float()
    device = device_of(model)
    with own_randomness(seed, device):
        _replace_last(fresh, task.outputs(labels if isinstance(labels, str) else "fine"), task)
        _start_again(fresh)
    net = nn.Sequential(OrderedDict(normalise=Normalise(mean, std), net=Logits(fresh))).to(device)
    how = replace(recipe or ImageRecipe(), seed=seed)
    return train_module(net, task, labels, how, progress=progress, device=str(device), objective=objective).net


def _start_again(net: nn.Module) -> None:
    """Draw all weights anew; refuse those that no layer draws, which would stay trained."""
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.is_floating_point():
                parameter.fill_(float("nan"))
    for layer in net.modules():
        for name in ("reset_parameters", "_reset_parameters"):  # the second of attention
            reset = getattr(layer, name, None)
            if callable(reset):
                reset()
    kept = [n for n, parameter in net.named_parameters() if bool(parameter.isnan().any())]
    if kept:
        problem = f"has weights that no layer draws anew ({', '.join(kept[:3])})"
        raise InputError("model", problem, "give the module that has them a reset_parameters()")


def _replace_last(net: nn.Module, outputs: int, task: ImageTask) -> None:
    """Give the last linear layer another number of outputs."""
    with unchanged(net):
        _, seen = watch(net, torch.zeros(2, *task.shape, device=device_of(net)).requires_grad_())
    for parent in net.modules():
        for name, layer in parent.named_children():
            if isinstance(layer, nn.Linear) and seen.weight is layer.weight:
                bias, device = layer.bias is not None, layer.weight.device
                setattr(parent, name, nn.Linear(layer.in_features, outputs, bias, device=device))
                return
    problem = "has no nn.Linear as its last layer"
    raise InputError("model", problem, "give it one, so that it can be replaced")
