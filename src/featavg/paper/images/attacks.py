"""Is our attack on image networks as strong as foolbox's and as APGD?"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, NotRun, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.curves import ATTACK, ATTACK_KEY, attacked_images, coarse_model
from featavg.paper.images.label_cell import LABELS, PARTS, RESNET, LabelCell, trained_cell
from featavg.robustness.attacks.foolbox_bridge import foolbox_attack
from featavg.robustness.attacks.pgd import apgd
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import NORMS
from featavg.robustness.models.torch_model import TorchModel
from featavg.storage.cache import fingerprint, kept_values
from featavg.storage.places import install_command

if TYPE_CHECKING:
    import xarray as xr

IMAGES, BUDGET = 200, 120
# foolbox's minimal-norm attacks. Not its L2FMN: there the projection does nothing.
OPPONENTS = {"l2": ("DDNAttack", "L2DeepFoolAttack"), "linf": ("LInfFMNAttack", "LinfDeepFoolAttack")}
# Radii at which APGD is run, as shares of our median.
SHARES = (0.6, 1.0, 1.4)
# Fixed before the run. One image of 200 is half a point.
LONGER, EXCESS = 0.01, 0.5
# Small networks that the claim trains itself: data, width, epochs, batch, pixels of random shift.
SMALL = (("digits", 16, 20, 64, 1), ("mnist", 16, 2, 128, 0))
# The ResNet-18 on MNIST of Figure 3 stands for the one of the table, which is twice as wide.
LEFT_OUT = (("mnist", RESNET),)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Radii of the same points: 0 where the decision is wrong anyway, infinite where no flip was found.

    Attributes:
        budget: gradients per point that every attack may spend; APGD at each radius.
        gradients: per point, really spent, by attack.
        apgd_accuracy: the share of points that stay right under APGD at each of `apgd_radii`.
    """

    network: str
    norm: str
    unit: str
    budget: int
    ours: Float[ndarray, " n"]
    others: Mapping[str, Float[ndarray, " n"]]
    gradients: Mapping[str, float]
    apgd_radii: tuple[float, ...] = ()
    apgd_accuracy: tuple[float, ...] = ()

    @property
    def best_of_others(self) -> Float[ndarray, " n"]:
        """Point by point, the smallest radius that any opponent found."""
        return np.min(list(self.others.values()), axis=0)


@dataclass(frozen=True, eq=False)
class Attacked:
    """A network that is attacked, and where what was found is kept.

    Attributes:
        small: cheap enough to be attacked again with twice as many gradients.
        drawn: its curves are shown; a panel for every network of the table would be a book.
    """

    name: str
    net: Any
    task: Any
    labels: str
    folder: Path
    small: bool = False
    drawn: bool = True


@claim(
    "image-attacks", "Our attack on image networks is at least as strong as foolbox's and APGD",
    theme="Real data", tier="full", minutes=120,
    needs=("torch", "foolbox", "mnist", "cifar10"), seeds=1, runs=0,
    source="Our own attacks",
    measured=f"radii of {IMAGES} test images in l2 and l_inf by ours and by foolbox's minimal-norm attacks "
    f"with {BUDGET} gradients each, point by point against the best of them, and robust accuracy "
    "under APGD with as many at each of three radii; on small networks for digits and MNIST, on "
    "the networks of the table of labels (first seed, all trainings; without its ResNet-18 on "
    "MNIST), and on those of Figure 3 and the public ResNet-20 where they are at hand",
    statements=("itcs-examples", "csml-examples",),
)  # fmt: skip
def attacks(run: Context, images: int = IMAGES, budget: int = BUDGET) -> Evidence:
    """With as many gradients, the attack `MultiStartDDN` is never weaker than the best of foolbox's DDN,
    DeepFool and FMN, and than APGD: on at most 1% of the images its radius is over 1% longer, and
    its robust accuracy is nowhere above by more than half a point.
    """
    torch_needed()
    if importlib.util.find_spec("foolbox") is None:
        raise NotRun(f"foolbox is not installed: {install_command('foolbox')}.")
    networks = [*_small(run), *_of_the_table(run), *_of_other_claims(run)]
    comparisons, twice, drawn = [], [], []
    for i, network in enumerate(networks):
        for norm in NORMS:
            run.progress((i + (norm == "linf") / 2) / len(networks), f"{network.name}, {norm}")
            comparison, with_more = compared(network, norm, images, budget)
            comparisons.append(comparison)
            twice += [] if with_more is None else [with_more]
            drawn += [comparison] if network.drawn else []
    return evidence(comparisons, twice, drawn)


def _small(run: Context) -> Iterator[Attacked]:
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import ImageRecipe

    for data, width, epochs, batch, crop in SMALL:
        task = data_needed(data, run)
        recipe = ImageRecipe(epochs=epochs, batch=batch, rate=0.05, crop=crop)
        for labels in LABELS:
            run.progress(0.0, f"training a small network on {data}, {labels} labels")
            folder = run_folder(run) / f"attacks-{data}-{labels}"
            net = train_images(task, labels, folder, "convnet", width, recipe).net
            name = f"{data}, small CNN, {labels} labels"
            yield Attacked(name, net, task, labels, folder, small=True)


def _of_the_table(run: Context) -> Iterator[Attacked]:
    """The networks of the table of labels, with their first seed: every data set and training."""
    for data, networks, trainings in PARTS:
        cells = [
            LabelCell(each, network, training, labels, seed=0)
            for each in data
            for network in networks
            for training in trainings
            for labels in LABELS
            if (each, network) not in LEFT_OUT
        ]
        for cell in cells:
            task, stem = data_needed(cell.data, run), cell.file.removesuffix(".json")
            run.progress(0.0, f"training {stem}")
            net, _ = trained_cell(cell, task, run_folder(run), run.progress)
            name = f"{cell.data}, {cell.network}, {cell.training}, {cell.labels} labels"
            folder, small = run_folder(run) / "attacks-table" / stem, cell.network != RESNET
            some = cell.protocol.some_of(task)
            yield Attacked(name, net, some, cell.labels, folder, small, drawn=not small)


def _of_other_claims(run: Context) -> Iterator[Attacked]:
    """The networks of Figure 3, where they have been trained, and the public ResNet-20."""
    from featavg.nets.torch.image_nets import public_cifar_resnet
    from featavg.training.torch.image_network import load_trained

    for data in ("mnist", "cifar10"):
        for labels in LABELS:
            folder = run_folder(run) / f"{data}-{labels}"
            if folder.exists():
                task, net = data_needed(data, run), load_trained(folder).net
                yield Attacked(f"{data}, ResNet-18, {labels} labels", net, task, labels, folder)
    try:
        file = data_needed("weights", run) / "resnet20-12fca82f.th"
        task = data_needed("cifar10", run)
    except NotRun:
        return
    folder = run_folder(run) / "cifar10-resnet20"
    yield Attacked("cifar10, public ResNet-20", public_cifar_resnet(file), task, "fine", folder)


def compared(
    network: Attacked, norm: str, images: int = IMAGES, budget: int = BUDGET
) -> tuple[Comparison, Comparison | None]:
    """With as many gradients, and for a small network with twice as many as the others.

    Kept beside the network, so that a killed claim can continue; other weights are compared anew. What
    foolbox finds does not depend on our attack: it is kept apart, and stays when ours changes.
    """
    from featavg.training.torch.module import arrays_of

    task, folder = network.task, network.folder
    rows = attacked_images(task, images, seed=0)
    pixels, y = task.test.unit[rows], task.targets(task.test, "coarse")[rows]
    model = coarse_model(network.net, task, network.labels, "probability")
    about = (list(arrays_of(network.net).values()), images, budget, norm)
    with_ours = fingerprint(*about, ATTACK_KEY, ATTACK.version)

    def kept(part: str, key: str, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        return kept_values(folder.with_name(f"{folder.name}-{part}-{norm}.json"), key, compute)

    def all_attacks() -> dict[str, Any]:
        return plain(compare_attacks(model, pixels, y, norm, budget, network.name, foolbox))

    def with_more() -> dict[str, Any]:
        radii = attack_suite(model, pixels, y, norm, ATTACK, budget=2 * budget).radii
        return {"ours": plain_radii(radii)}

    foolbox = kept("foolbox", fingerprint(*about), lambda: foolbox_radii(model, pixels, y, norm, budget))
    comparison = read_comparison(kept("attacks", with_ours, all_attacks))
    if not network.small:
        return comparison, None
    ours = read_radii(kept("twice", with_ours, with_more)["ours"])
    return comparison, replace(comparison, ours=ours, apgd_radii=(), apgd_accuracy=())


def strength(comparison: Comparison) -> dict[str, float]:
    """What a comparison comes down to.

    Returns:
        mean_ratio: ours over the best of the others, mean where both are finite and positive.
        longer, shorter: shares of points where ours is over 1% longer, or theirs.
        excess_points: the most that our robust accuracy is above that of all others together, over
            every radius where a curve steps; 0 or less is what a stronger attack has.
        apgd_excess_points: the same against APGD, at the radii where it was run.
    """
    ours, best = comparison.ours, comparison.best_of_others
    both = np.isfinite(ours) & np.isfinite(best) & (best > 0)
    steps = np.unique(np.concatenate([ours, best]))
    excess = [np.mean(ours > r) - np.mean(best > r) for r in steps[np.isfinite(steps)]]
    apgd_excess = [
        np.mean(ours > r) - share for r, share in zip(comparison.apgd_radii, comparison.apgd_accuracy, strict=True)
    ]
    return {
        "mean_ratio": float(np.mean(ours[both] / best[both])),
        "longer": float(np.mean(ours > 1.01 * best)),
        "shorter": float(np.mean(best > 1.01 * ours)),
        "excess_points": 100 * float(np.max(excess, initial=-1.0)),
        "apgd_excess_points": 100 * float(np.max(apgd_excess, initial=-1.0)),
        "median": float(np.median(np.minimum(ours, 1e9))),
        "images": len(ours),
    }


def compare_attacks(
    model: Model,
    x: ndarray,
    y: ndarray,
    norm: str = "l2",
    budget: int = BUDGET,
    network: str = "network",
    foolbox: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Attacks the same points by ours, by foolbox's minimal-norm attacks, and by APGD at some radii.

    Each sees the decision of `model` and may take `budget` gradients per point, APGD as many at every
    radius. Points of foolbox are not shortened, only checked that they flip; `foolbox` is what
    `foolbox_radii` found on the same points, if that is known already.
    """
    result = attack_suite(model, x, y, norm, ATTACK, budget=budget)
    if foolbox is None:
        foolbox = foolbox_radii(model, x, y, norm, budget)
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    rows = np.flatnonzero(result.radii > 0)
    points, label = model.rows(x)[rows], model.decision.labels(y)[rows]
    median = np.median(result.radii[np.isfinite(result.radii)])
    radii = tuple(float(share * median) for share in SHARES)
    ends = [apgd(model, points, label, np.full(len(points), radius), norm, budget, seed=0) for radius in radii]
    return Comparison(
        network,
        norm,
        model.unit(norm),
        budget,
        result.radii,
        {name: read_radii(kept["radii"]) for name, kept in foolbox.items()},
        {"ours": result.gradients} | {name: kept["gradients"] for name, kept in foolbox.items()},
        radii,
        tuple(float(np.sum(~end.flipped)) / len(result) for end in ends),
    )


def foolbox_radii(model: Model, x: ndarray, y: ndarray, norm: str, budget: int) -> dict[str, dict[str, Any]]:
    """Radii of the points by each of foolbox's attacks, and the gradients per point that it took.

    -1 stands for a radius that was not found, 0 for a point that is decided wrongly without an attack.
    """
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    everything, labels = model.rows(x), model.decision.labels(y)
    rows = np.flatnonzero(model.margins(everything, labels) > 0)
    points, label = everything[rows], labels[rows]
    found = {}
    for name in OPPONENTS[norm]:
        before = model.cost.gradients
        end = foolbox_attack(model, points, label, name, seed=0, steps=budget)
        radii = np.zeros(len(everything))
        radii[rows] = end.radii(points, norm)
        spent = (model.cost.gradients - before) / max(len(points), 1)
        found[name] = {"radii": plain_radii(radii, digits=9), "gradients": spent}
    return found


def plain(comparison: Comparison) -> dict[str, Any]:
    """Plain values to keep; -1 stands for a radius that was not found."""
    return vars(comparison) | {
        "ours": plain_radii(comparison.ours),
        "others": {name: plain_radii(radii) for name, radii in comparison.others.items()},
    }


def read_comparison(kept: Mapping[str, Any]) -> Comparison:
    """The inverse of `plain`."""
    arrays = {
        "ours": read_radii(kept["ours"]),
        "others": {name: read_radii(values) for name, values in kept["others"].items()},
    }
    tuples = {name: tuple(kept[name]) for name in ("apgd_radii", "apgd_accuracy")}
    return Comparison(**{**kept, **arrays, **tuples})


def plain_radii(radii: Float[ndarray, " n"], digits: int = 5) -> list[float]:
    """To five digits, more than an attack can promise; -1 where no flip was found."""
    return [float(f"{r:.{digits}g}") if np.isfinite(r) else -1.0 for r in radii.tolist()]


def read_radii(values: Sequence[float]) -> Float[ndarray, " n"]:
    """The inverse of `plain_radii`."""
    given = np.asarray(values, dtype=float)
    return np.where(given < 0, np.inf, given)


def evidence(comparisons: Sequence[Comparison], twice: Sequence[Comparison], drawn: Sequence[Comparison]) -> Evidence:
    """The checks, over all networks at once; `twice` has our radii with twice as many gradients."""
    budget, table = comparisons[0].budget, strengths(comparisons)
    (where, longer), (above, excess) = _worst(table, "longer"), _worst(table, "excess_points")
    above_apgd, apgd_excess = _worst(table, "apgd_excess_points")
    checks = [
        Check("images on which ours is over 1% longer than the best of foolbox's, worst network", longer, "<=",
              LONGER, note=where),
        Check("our robust accuracy above that of all foolbox's together, anywhere", excess, "<=", EXCESS,
              note=f"points of percent, any radius; most on {above}"),
        Check("our robust accuracy above APGD's", apgd_excess, "<=", EXCESS,
              note=f"points of percent at 0.6, 1 and 1.4 of the median; most on {above_apgd}"),
        Check("images on which ours is over 1% longer, mean over the networks",
              table["longer"].mean(skipna=False), "<=", LONGER, role="note"),
        Check("mean of our radius / the best of foolbox's, worst network",
              table["mean_ratio"].max(skipna=False), "<=", 1.0, role="note"),
    ]  # fmt: skip
    finding, numbers = (_finding(table, budget), {"strength": table, "drawn": list(map(plain, drawn))})
    if twice:
        more = numbers["with_twice_the_gradients"] = strengths(twice)
        name = f"with {2 * budget} gradients, small networks: images over 1% longer, worst network"
        of_more, longer = _worst(more, "longer")
        checks.append(Check(name, longer, "<=", LONGER, note=of_more, role="note"))
        finding += (
            f" With {2 * budget}, on the {len(twice)} pairs with a small network: over 1% longer than "
            f"theirs with {budget} on {more['longer'].mean():.2%}, on at most 1% for "
            f"{int((more['longer'] <= LONGER).sum())} of them."
        )
    figures = (_overview(comparisons, table), comparison_figure(drawn))
    return Evidence(*checks, figures=figures, numbers=numbers, finding=finding, seeds=(0,))


def strengths(comparisons: Sequence[Comparison]) -> xr.Dataset:
    """The `strength` of our attack by pair of a network and a norm."""
    import xarray as xr

    rows = [strength(each) for each in comparisons]
    pairs = [f"{each.network}, {each.norm}" for each in comparisons]
    values = {name: ("pair", [row[name] for row in rows]) for name in rows[0]}
    return xr.Dataset(values, coords={"pair": pairs})


def _worst(table: xr.Dataset, field: str) -> tuple[str, float]:
    """The pair where a number is largest, and the number."""
    row = int(table[field].values.argmax())
    return str(table["pair"].values[row]), float(table[field][row])


def _finding(table: xr.Dataset, budget: int) -> str:
    count, ratios, longer = len(table["pair"]), table["mean_ratio"].values, table["longer"]
    where, most = _worst(table, "longer")
    return (
        f"With {budget} gradients for everyone, on {count} pairs of a network and a norm: our "
        f"radius over the best of foolbox's is {np.mean(ratios):.3f} on average, {min(ratios):.3f} to "
        f"{max(ratios):.3f} by network. Ours is over 1% shorter on {table['shorter'].mean():.0%} of the "
        f"images and over 1% longer on {longer.mean():.2%}: on at most 1% for {int((longer <= LONGER).sum())} "
        f"of the {count} pairs, on {most:.1%} for the worst ({where})."
    )


def _overview(comparisons: Sequence[Comparison], table: xr.Dataset) -> Figure:
    """A point for each network and norm: how often ours is longer, how often shorter."""
    roles: dict[str, Role] = {"l2": "decoupled", "linf": "averaged"}
    norms = [each.norm for each in comparisons]
    series = []
    for norm in dict.fromkeys(norms):
        some = table.isel(pair=[each == norm for each in norms])
        x, y = (100 * some[field].values for field in ("longer", "shorter"))
        series.append(Series(norm, x, y, roles[norm], "markers"))
    images, budget = len(comparisons[0].ours), comparisons[0].budget
    panel = Lines(
        Axis("images on which ours is over 1% longer", "%"),
        Axis("images on which ours is over 1% shorter", "%", range=(0, 100)),
        tuple(series),
    )
    return Figure(
        "attack-overview",
        "How often our attack ends nearer than foolbox's, and how often further",
        f"A point for each network and norm: {images} images, {budget} gradients for everyone. At most 1% "
        "on the horizontal axis is asked for.",
        (panel,),
    )


def comparison_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Robust accuracy against the radius by each attack, a panel for each comparison."""
    images = max(len(each.ours) for each in comparisons)
    return Figure(
        "attack-comparison",
        "Robust accuracy by our attack, by foolbox's and by APGD",
        f"{images} test images of each network, the same decision and the same number of gradients "
        "for everyone. Lower is a stronger attack.",
        tuple(_panel(each) for each in comparisons),
    )


def _panel(comparison: Comparison) -> Lines:
    radii = (comparison.ours, *comparison.others.values())
    finite = np.concatenate([each[np.isfinite(each)] for each in radii])
    grid = np.linspace(0.0, float(np.quantile(finite, 0.98)) or 1.0, 81)

    def share(each: np.ndarray) -> np.ndarray:
        return 100 * np.mean(each[None, :] > grid[:, None], axis=1)

    role: Role = "published"
    series = [Series("ours", grid, share(comparison.ours), "decoupled")]
    for i, (name, each) in enumerate(comparison.others.items()):
        series.append(Series(f"foolbox {name}", grid, share(each), role, "dotted" if i else "dashed"))
    if comparison.apgd_radii:
        values = [100 * each for each in comparison.apgd_accuracy]
        series.append(Series("APGD", comparison.apgd_radii, values, role, "markers", shade=0.5))
    title = f"{comparison.network}, {comparison.norm}"
    y = Axis("robust accuracy", "%", range=(0, 100))
    return Lines(Axis("radius", comparison.unit), y, tuple(series), title)
