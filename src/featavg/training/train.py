"""Train a network of the theory on a multi-cluster task, one seed or many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.kinds import Count, PartlyKnown
from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw, draw_many
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.data.user_points import labelled_points, training_set
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary, binary_head, grouped, grouped_head
from featavg.progress import Progress
from featavg.registry import ACTIVATIONS, LOSSES, spec
from featavg.storage.cache import Checkpoint
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.objectives import DeepObjective, TwoLayerObjective
from featavg.training.parts import Loss, Recorder
from featavg.training.recipe import Recipe
from featavg.training.trajectory import Trajectory, joined

# What a core's share of the last-level cache usually holds.
_CACHE = 8e6


@public
def train(
    task: MultiCluster | TrainingSet | Float[ndarray, "n d"],
    y: Any = None,
    recipe: Recipe | None = None,
    *,
    fine: PartlyKnown = None,
    n: Count = 1000,
    seed: int | Sequence[int] = 0,
    coordinates: str | None = None,
    save_at: SaveAt = SaveAt(),
    recorders: Sequence[Recorder] = (),
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    **changes: Annotated[Any, Recipe],
) -> Trajectory:
    """Train on `n` points of `task`, or on points of your own; several seeds are one batch.

    Args:
        task: what to learn, a training set that was drawn before, or points of your own, a row each.
        y: the class of each of your points, -1 and 1 or 0 and 1. With a task this place is `recipe`'s.
        recipe: the network and its training; single fields can be given as `changes` instead.
        fine: the cluster of each of your points, 0..k-1, and -1 or NaN where only the class is known. With
            it `labels` is "fine" unless given.
        n: number of training points of a task.
        seed: of the sample and the initialisation.
        coordinates: "auto" compresses whenever that is exact and smaller; "ambient" stays in R^d, as
            points of your own do.
        save_at, recorders, checkpoint, progress: see `featavg.training.driver.run`.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=10**6), labels="coarse", n=50, m=2, steps=20, lr=1e-5)
    >>> run.net.weights.shape, run.outcome.name, bool(run.log_loss[-1] < run.log_loss[0])
    ((4, 58), 'STEPS_DONE', True)
    >>> own = fa.train([[2.0, 0.0], [1.0, 0.1], [0.0, 2.0], [0.1, 1.0]], [1, 1, -1, -1], m=1, lr=0.1)
    >>> own.net.outputs, bool((own.net([[3.0, 0.0], [0.0, 3.0]])[:, 0] > 0).tolist() == [True, False])
    (1, True)
    """
    if isinstance(y, Recipe):
        y, recipe = None, y
    if fine is not None and recipe is None:
        changes = {"labels": "fine"} | changes
    recipe = recipe or Recipe()
    unknown = set(changes) - set(Recipe.__dataclass_fields__)
    if unknown:
        remedy = f"choose from {', '.join(Recipe.__dataclass_fields__)}"
        raise InputError(", ".join(sorted(unknown)), "is not part of a recipe", remedy)
    recipe = replace(recipe, **changes)
    if not isinstance(task, MultiCluster | TrainingSet):
        task, recipe = _own(task, y, fine, recipe, seed)
    elif y is not None or fine is not None:
        raise InputError("y" if fine is None else "fine", "is given beside a task", "leave it out")
    if isinstance(task, MultiCluster) and not recorders and checkpoint is None:
        groups = [] if isinstance(seed, int | np.integer) else _groups(task, recipe, n, seed, coordinates)
        if len(groups) > 1:
            parts = []
            for i, group in enumerate(groups):
                few = group[0] if len(group) == 1 else group
                drawn = _draw(task, recipe, n, few, coordinates)
                parts.append(train(drawn, recipe, save_at=save_at))
                if progress is not None:
                    progress((i + 1) / len(groups), f"seed {group[-1]}")
            return joined(parts)
    data = task if isinstance(task, TrainingSet) else _draw(task, recipe, n, seed, coordinates)
    if data.coordinates == "compressed" and not recipe.chosen_stepper.keeps_rotations:
        problem = f"is {recipe.chosen_stepper.name}, which looks at single coordinates"
        raise InputError("stepper", problem, 'draw the data with coordinates="ambient"')
    objective = objective_of(data, recipe)
    return run(
        objective,
        objective.params_of(objective.net),
        stepper=recipe.chosen_stepper,
        controller=recipe.chosen_controller,
        stop=Stop(recipe.steps, recipe.target_log_loss, math.log(recipe.time)),
        save_at=save_at,
        recorders=recorders,
        checkpoint=checkpoint,
        progress=progress,
        settings=_settings(data, recipe),
    )


def _own(x: ndarray, y: Any, fine: Any, recipe: Recipe, seed: int | Sequence[int]) -> tuple[TrainingSet, Recipe]:
    """A training set of the user's points, and the recipe with what is known of their labels."""
    points, known = labelled_points(x, y, fine)
    if known is None and recipe.labels != "coarse":
        raise InputError("labels", "are finer than the classes", "give the clusters as fine")
    if known is not None and recipe.labels != "coarse" and not known.all():
        if recipe.labels != "fine":
            remedy = 'give labels="fine", or a cluster for each point'
            raise InputError("labels", "are chosen, and fine leaves clusters unknown", remedy)
        recipe = replace(recipe, labels=Labels(known=tuple(known.tolist())))
    seeds = [int(seed)] if isinstance(seed, int | np.integer) else list(seed)
    return training_set(points, recipe.neurons(points.task.k), seeds), recipe


def objective_of(data: TrainingSet, recipe: Recipe) -> TwoLayerObjective | DeepObjective:
    """The loss of the network of `recipe` on `data`, where training begins."""
    net, loss, targets = initial_net(data, recipe), loss_of(data, recipe), targets_of(data, recipe)
    if isinstance(net, TwoLayer):
        return TwoLayerObjective(data.x, targets, net, loss, recipe.trainable)
    return DeepObjective(data.x, targets, net, loss, recipe.trainable)


def targets_of(data: TrainingSet, recipe: Recipe) -> ndarray:
    """The target of each point: its class, its cluster, or what is known of it."""
    if isinstance(recipe.labels, str):
        return data.y if recipe.labels == "coarse" else data.clusters
    return recipe.labels.targets(data.task, data.clusters, data.seeds)


def loss_of(data: TrainingSet, recipe: Recipe) -> Loss:
    """The loss of `recipe`, which may have to know the class of each output."""
    loss = recipe.chosen_loss
    if getattr(loss, "positive", "known"):
        return loss
    positive, _ = recipe.decision(data.task, "max")
    signs = "".join("+" if own else "-" for own in np.asarray(positive))
    return LOSSES.build(loss.name, positive=signs)


def initial_net(data: TrainingSet, recipe: Recipe) -> TwoLayer | Deep:
    """The network before training: Gaussian weights and, if it has them, Gaussian biases."""
    neurons = recipe.neurons(data.task.k)
    if data.unit_weights.shape[-2] != neurons:
        problem = f"was drawn with {data.unit_weights.shape[-2]} directions"
        raise InputError("task", problem, f"this network starts from {neurons}")
    weights = recipe.sigma_w * data.unit_weights
    if not recipe.two_layers_of_the_theory:
        return _initial_deep(data, recipe, weights)
    if not recipe.one_output:
        return grouped(weights, recipe.outputs(data.task.k))
    units = [stream(seed, "biases").standard_normal(neurons) for seed in data.seeds]
    biases = recipe.sigma_b * (np.stack(units) if data.x.ndim == 3 else units[0])
    return binary(weights, biases)


def _initial_deep(data: TrainingSet, recipe: Recipe, first: ndarray) -> Deep:
    """The same first layer below others of as many neurons."""
    *batch, neurons, _ = first.shape
    labels = "coarse" if recipe.labels == "coarse" else "fine"
    outputs = recipe.outputs(data.task.k)

    def normal(purpose: str, *shape: int) -> ndarray:
        draws = [stream(seed, f"{labels} {purpose}").standard_normal(shape) for seed in data.seeds]
        return np.stack(draws) if batch else draws[0]

    scale = recipe.inner_scale * math.sqrt(2 / neurons)
    inner = [scale * normal(f"layer {n}", neurons, neurons) for n in range(2, recipe.depth)]
    if recipe.head == "theory":
        one = recipe.one_output
        plain = binary_head(recipe.m) if one else grouped_head(outputs, neurons // outputs)
        head = np.broadcast_to(plain, (*batch, *plain.shape)).copy()
    else:
        head = scale * normal("head", outputs, neurons)
    biases = None
    if recipe.has_biases:
        hidden = [recipe.sigma_b * normal(f"biases {n}", neurons) for n in range(1, recipe.depth)]
        biases = (*hidden, None)
    return Deep((first, *inner, head), biases, recipe.activation, recipe.residual)


def _groups(
    task: MultiCluster, recipe: Recipe, n: int, seeds: Sequence[int], coordinates: str | None
) -> list[Sequence[int]]:
    """Seeds that are best run together.

    A batch saves calls, which is what small problems are made of. Of large ones it streams all data
    through the memory at every step, where a few seeds at a time stay in the cache. Seeds count
    their own steps, so the grouping changes nothing but the time.
    """
    frame = coordinates or recipe.coordinates()
    columns = task.d if frame == "ambient" else min(task.k + recipe.neurons(task.k) + n, task.d)
    together = max(1, int(_CACHE / (8.0 * max(n, 1) * columns)))
    return [seeds[i : i + together] for i in range(0, len(seeds), together)]


def _draw(
    task: MultiCluster, recipe: Recipe, n: int, seed: int | Sequence[int], coordinates: str | None
) -> TrainingSet:
    neurons = recipe.neurons(task.k)
    frame = coordinates or recipe.coordinates()
    if isinstance(seed, int | np.integer):
        return draw(task, n, neurons, int(seed), frame)
    return draw_many(task, n, neurons, seed, frame)


def _settings(data: TrainingSet, recipe: Recipe) -> dict[str, Any]:
    """Everything needed to run it again, as plain values."""
    parts = {
        "activation": ACTIVATIONS.build(recipe.activation),
        "loss": recipe.chosen_loss,
        "stepper": recipe.chosen_stepper,
        "controller": recipe.chosen_controller,
    }
    plain = {name: _finite(value) for name, value in vars(recipe).items()}
    if not recipe.competes:
        del plain["pooling"]
    if not isinstance(recipe.labels, str):
        plain["labels"] = recipe.labels.to_json()
    return {
        "task": data.task.settings(),
        "n": int(data.x.shape[-2]),
        "seeds": [int(seed) for seed in data.seeds],
        "coordinates": data.coordinates,
        "recipe": plain | {name: spec(part) for name, part in parts.items()},
    }


def _finite(value: Any) -> Any:
    """JSON has no infinity; None says "no limit"."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
