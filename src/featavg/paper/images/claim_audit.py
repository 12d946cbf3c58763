"""Does the audit's statistic tell averaged from decoupled networks? (simulator quick, images full tier)"""

from __future__ import annotations

from featavg.data.clusters import MultiCluster
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.claim_labels import tables
from featavg.paper.images.sharing import SharingStudy, simulated_sharing
from featavg.progress import part

# Fixed before the first run of the claim: what the audit promises on the simulator, and the least null.
AVERAGED, DECOUPLED, LEAST_NULL = 0.99, 0.1, 0.9
K, D, N = 10, 3072, 500
IMAGE_SEEDS = 3
GAIN_ERROR = 0.15


@claim(
    "audit-shared-gradient",
    "The shared gradient tells averaged from decoupled networks",
    theme="Real data",
    source="Ours: the statistic of `featavg audit`; arXiv 2410.10322, Theorems 1 and 4",
    measured=f"shared gradient at the input of the simulator's networks, k = {K}, d = {D}, three seeds, "
    "three read-outs, features at cosine 0, 0.3 and 0.7, with its permutation null",
    minutes=0.2,
)
def simulator(settings: Context) -> Evidence:
    """The share of mean sensitivity that the sub-classes of a class have in common is near 1 in
    networks that average features and near 0 in networks that decouple them.
    """
    seeds = list(settings.seeds[:3])
    cases = (
        (0.0, "probability"),
        (0.0, "max"),
        (0.0, "sum"),
        (0.3, "probability"),
        (0.7, "probability"),
    )
    rows = []
    for i, (cosine, readout) in enumerate(cases):
        settings.progress(i / len(cases), f"cosine {cosine:g}, {readout}")
        rows.append(simulated_sharing(MultiCluster(k=K, d=D, cosine=cosine), seeds, readout, N))
    study = SharingStudy(tuple(rows))
    plain = rows[0]
    others = [row for row in rows[1:] if "sum" not in row.name]
    return Evidence(
        Check("A, coarse labels", plain.coarse, ">=", AVERAGED, role="main"),
        Check("A, fine labels (probability)", plain.fine, "<=", DECOUPLED),
        Check(
            "smallest with coarse labels minus largest with fine ones, worst case",
            min(row.gap for row in (plain, *others)),
            ">=",
            0.0,
            note="no overlap between seeds, read-outs probability and max, cosines 0, 0.3 and 0.7",
        ),
        Check("permutation null, smallest", min(min(row.nulls) for row in rows), ">=", LEAST_NULL),
        Check(
            "A, fine labels, read-out sum",
            sum(rows[2].fine) / len(seeds),
            ">=",
            DECOUPLED,
            note="the read-out sum adds up what the labels decoupled",
            role="note",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"On the simulator the shared gradient is {_mean(plain.coarse):.2f} with coarse labels and "
        f"{_mean(plain.fine):.2f} with fine ones (max {_mean(rows[1].fine):.2f}, sum "
        f"{_mean(rows[2].fine):.2f}); with features at cosine 0.3 and 0.7 it is "
        f"{_mean(rows[3].fine):.2f} and {_mean(rows[4].fine):.2f} with fine labels and "
        f"{_mean(rows[3].coarse):.2f} and {_mean(rows[4].coarse):.2f} with coarse ones.",
        headlines=(
            Headline(f"{_mean(plain.coarse):.2f}", "shared gradient, coarse labels", "averaged"),
        ),
    )


@claim(
    "audit-shared-gradient-images",
    "It does so on images",
    theme="Real data",
    source="Ours: the statistic of `featavg audit`",
    measured="shared gradient at the reported layer, on 400 test images, of the networks of "
    "`finer-labels-border` that were trained with cross-entropy alone; five seeds on digits, three "
    "on MNIST and CIFAR-10",
    tier="full",
    minutes=90,
    needs=("torch", "mnist", "cifar10"),
)
def images(settings: Context) -> Evidence:
    """It separates networks trained with coarse labels from networks with fine ones on images."""
    table = tables(settings)
    rows = tuple(row.sharing() for row in table.pick(training="cross-entropy"))
    study = SharingStudy(rows)
    apart = [row.name for row in rows if row.gap > 0]
    overlap = [f"{row.name} ({row.gap:+.2f})" for row in rows if row.told and not row.gap > 0]
    silent = [row.name for row in rows if not row.told]
    seeds = max(len(row.coarse) for row in rows)
    return Evidence(
        Check(
            "share of networks whose seeds do not overlap",
            len(apart) / len(rows),
            ">=",
            1.0,
            note="smallest A with coarse labels above the largest with fine ones",
            role="main",
        ),
        Check(
            "permutation null, smallest",
            min(min(row.nulls) for row in rows if row.told),
            ">=",
            LEAST_NULL,
            note="where a layer has a valid one",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding="Shared gradient with coarse and with fine labels: "
        + "; ".join(
            f"{row.name} {_mean(row.coarse):.2f} and {_mean(row.fine):.2f} (at {row.layer})"
            for row in rows
            if row.told
        )
        + f". No overlap in {len(apart)} of {len(rows)}"
        + (f"; it overlaps for {', '.join(overlap)}" if overlap else "")
        + (f"; it cannot tell for {', '.join(silent)} (no valid layer)." if silent else "."),
        seeds=tuple(range(seeds)),
    )


@claim(
    "audit-hidden-digit",
    "A rare digit that no label names can be found and helped",
    theme="Real data",
    source="Ours: the discovery of `featavg audit`; the task and the baseline of Sohoni et al. 2020",
    measured="U-MNIST (digits below 5 against the rest, digit 8 kept at 5%), 12,000 training images, four "
    "epochs, small CNN, three seeds: accuracy and median radius of the worst digit",
    tier="full",
    minutes=5,
    needs=("torch", "mnist"),
)
def hidden(settings: Context) -> Evidence:
    """Labels discovered by clustering the features of a network with coarse labels raise the
    accuracy and the radius of its worst sub-class when the network is trained again with them.
    """
    torch_needed()
    task = data_needed("mnist", settings)
    from featavg.paper.images.hidden_study import METHODS, PUBLISHED, hidden_subclasses

    seeds = settings.seeds[:IMAGE_SEEDS]
    study = hidden_subclasses(task, seeds, run_folder(settings) / "u-mnist", settings.progress)
    plain, discovered, george, _ = METHODS

    # Seed by seed: a mean of three trainings has been on either side of zero on two machines.
    def more_right(method: str) -> list[float]:
        pairs = zip(
            study.values(method, "worst_accuracy"),
            study.values(plain, "worst_accuracy"),
            strict=True,
        )
        return [100 * (one - other) for one, other in pairs]

    farther = [
        one / max(other, 1e-12)
        for one, other in zip(
            study.values(discovered, "worst_radius"),
            study.values(plain, "worst_radius"),
            strict=True,
        )
    ]

    return Evidence(
        Check(
            "worst-digit accuracy, discovered labels minus coarse labels (points)",
            more_right(discovered),
            ">=",
            0.0,
            role="main",
        ),
        Check("worst-digit radius, discovered labels over coarse labels", farther, ">=", 1.0),
        Check(
            "worst-digit accuracy, GEORGE's recipe minus coarse labels (points)",
            more_right(george),
            ">=",
            0.0,
            note=f"the authors' demo: {PUBLISHED[george][1] - PUBLISHED[plain][1]:.1f}",
            role="note",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding="; ".join(
            f"{method}: accuracy {100 * study.mean(method, 'accuracy'):.1f}%, worst digit "
            f"{100 * study.mean(method, 'worst_accuracy'):.1f}% with median radius "
            f"{study.mean(method, 'worst_radius'):.2f}"
            for method in METHODS
        )
        + ". The authors' demo: accuracy 92.3% and worst digit 82.2% before, 93.6% and 88.8% after.",
    )


@claim(
    "audit-predicted-gain",
    "What finer labels buy in feature space can be predicted",
    theme="Real data",
    source="Ours: the prediction of `featavg audit`",
    measured="median exact radius of fine over coarse heads, on Gaussian samples and on the features "
    "themselves: digits, six networks on digits, two public ResNets on CIFAR-10",
    tier="full",
    minutes=10,
    needs=("torch", "cifar10", "weights"),
)
def predicted_gain(settings: Context) -> Evidence:
    """Means and covariance of the sub-classes' features predict how much farther away finer labels
    push the boundary of a head on those features.
    """
    torch_needed()
    data_needed("cifar10", settings)
    weights = data_needed("weights", settings)
    from featavg.paper.images.gain_study import compare_gains, feature_spaces

    spaces = feature_spaces(
        run_folder(settings),
        list(settings.seeds[:IMAGE_SEEDS]),
        weights,
        settings.data_dir,
        part(settings.progress, 0.0, 0.5),
    )
    study = compare_gains(
        spaces,
        progress=part(settings.progress, 0.5, 1.0),
        folder=run_folder(settings) / "gains",
    )
    return Evidence(
        Check("median error of the prediction", study.median_error, "<=", GAIN_ERROR, role="main"),
        Check("feature spaces on the wrong side of 1", study.wrong_side, "<=", 1),
        Check("feature spaces answered", len(study.answered), ">=", 8, role="note"),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"{_spaces(len(study.answered), len(study.rows) - len(study.answered))} the predicted gain of "
        f"finer labels is off by {100 * study.median_error:.0f}% (median), and on the wrong side of 1 "
        f"in {study.wrong_side}. "
        + "; ".join(f"{r.source}: {r.predicted} against {r.measured}" for r in study.answered)
        + ".",
    )


def _spaces(answered: int, refused: int) -> str:
    """Of how many feature spaces the finding speaks."""
    return f"Over {answered} feature spaces" + (
        f" ({refused} more were refused)" if refused else ""
    )


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
