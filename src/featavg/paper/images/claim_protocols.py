"""Figure 3 (right): which way of running PGD the published CIFAR-10 curves agree with (full tier)."""

from __future__ import annotations

from dataclasses import replace

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.curve_result import CLOSE_TO_PUBLISHED
from featavg.paper.images.pgd_protocols import DATA_UNIT, PIXELS, USUAL_UNIT, ProtocolStudy
from featavg.progress import part

PRESET, IMAGES = "cifar10-quick", 200


@claim(
    "figure-3-cifar10-protocol",
    "Which attack the published CIFAR-10 curves are",
    theme="Real data",
    source="Ours: a question that Figure 3 (right) of the paper leaves open",
    measured=f"robust accuracy of the coarse decision of one pair of narrow ResNet-18s ({PRESET}) on {IMAGES} "
    "test images under l2 PGD: three units, 10 and 40 steps, short steps, random start, and the "
    "coarse label for the ten-class network",
    tier="full",
    minutes=40,
    needs=("torch", "cifar10"),
)
def protocols(settings: Context) -> Evidence:
    """The published robust accuracies on CIFAR-10 agree with PGD whose radius is measured in
    normalised units, and not with PGD whose radius is measured in pixels.
    """
    torch_needed()
    task = data_needed("cifar10", settings)
    from featavg.paper.images.pgd_protocols import published_protocols
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import image_preset, network_name

    seed, folder = settings.seeds[0], run_folder(settings)
    recipe = replace(image_preset(PRESET).recipe, seed=seed)
    nets = {
        labels: train_images(
            task,
            labels,
            folder / network_name(PRESET, labels, seed),
            recipe=recipe,
            preset=PRESET,
            progress=part(settings.progress, 0.3 * i, 0.3 * (i + 1)),
        ).net
        for i, labels in enumerate(("coarse", "fine"))
    }
    told = part(settings.progress, 0.6, 1.0)
    kept = folder / network_name(PRESET, "protocols", seed)
    study = published_protocols(nets, task, IMAGES, kept, told)
    return evidence(study, (seed,))


def evidence(study: ProtocolStudy, seeds: tuple[int, ...]) -> Evidence:
    """The checks: normalised units against pixels, and every row as a note."""
    normalised = study.nearest(DATA_UNIT, USUAL_UNIT)
    pixels = study.nearest(PIXELS, full_steps=True)
    return Evidence(
        Check(
            "normalised units, nearest protocol: largest distance from the published curves (points)",
            normalised.distance,
            "<=",
            CLOSE_TO_PUBLISHED,
            note=normalised.name,
            role="main",
        ),
        Check(
            "pixels, nearest protocol whose steps reach the radius: how much farther (points)",
            pixels.distance - normalised.distance,
            ">=",
            CLOSE_TO_PUBLISHED,
            note=pixels.name,
        ),
        *(
            Check(
                f"{row.name}: largest distance (points)",
                row.distance,
                "<=",
                CLOSE_TO_PUBLISHED,
                role="note",
            )
            for row in study.rows
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=_finding(study),
        seeds=seeds,
    )


def _finding(study: ProtocolStudy) -> str:
    nearest = study.nearest()
    left = "; ".join(
        f"{'class' if labels == 'coarse' else 'fine'} labels "
        + ", ".join(f"{points:+.0f}" for points in nearest.residual(labels))
        for labels in nearest.percent
    )
    others = "; ".join(f"{row.name} {row.distance:.0f}" for row in study.rows if row != nearest)
    return (
        f"Nearest to the published curves comes {nearest.name}, at most {nearest.distance:.0f} points away. "
        f"What is left, ours minus published at radii 0.08 to 0.8: {left}. Without an attack our networks "
        f"have {study.clean['coarse']:.0f}% (class labels) and {study.clean['fine']:.0f}% (fine labels), the "
        f"published ones 97% and 98%. Largest distances of the others: {others}. Short steps and normalised "
        "units shrink the same ball, and curves alone do not tell them apart."
    )
