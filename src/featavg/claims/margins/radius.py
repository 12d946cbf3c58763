"""How robust KKT points are: exact radii, the universal direction, and the Lipschitz bound."""

from __future__ import annotations

import math

import numpy as np

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, Headline
from featavg.claims.margins.kkt import FREI, PLANS, K, seeds_of
from featavg.experiments.margins import RADIUS_POINTS, kkt_radius, kkt_run, lipschitz_radii
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.progress import part
from featavg.robustness.radii import radii


def radius_claim(settings: ClaimSettings) -> Evidence:
    """Exact radii and the universal direction, for several k, networks and starts."""
    results = {}
    for i, (name, (layers, start)) in enumerate(PLANS.items()):
        share = part(settings.progress, i / len(PLANS), (i + 1) / len(PLANS))
        results[name] = kkt_radius(layers, start, seeds=seeds_of(layers, settings), progress=share)
    checks = []
    for name, result in results.items():
        near, far = result.every_radius, result.every_universal
        checks += [
            Check(f"{name}: largest median radius / √(d/k)", max(near), "<=", 2.0),
            Check(f"{name}: longest universal direction / √(d/(c²k))", max(far), "<=", 1.0),
            Check(f"{name}: smallest median radius / √(d/k)", min(near), ">=", 0.5, role="note"),
        ]
    every = [value for result in results.values() for value in result.every_radius]
    reach = max(value for result in results.values() for value in result.every_universal)
    return Evidence(
        checks=tuple(checks),
        figures=(list(results.values())[-1].figure(),),
        numbers={name: result.to_json() for name, result in results.items()},
        finding=f"Median radii are {min(every):.2f} to {max(every):.2f} times √(d/k) for k = 4, 6, 10, "
        f"with the first layer or both and biases trained, from small and large starts; one direction "
        f"of {reach:.2f} times √(d/(c²k)) flips 99% of fresh points.",
        headlines=(Headline(f"{np.mean(every):.2f} √(d/k)", "radius of KKT points", "averaged"),),
    )


def lipschitz_claim(settings: ClaimSettings) -> Evidence:
    """q / beta beside the exact radius."""
    above, tight, pairs = -math.inf, [], []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        run = kkt_run(K, seed)
        sample = run.task.sample(RADIUS_POINTS, seed)
        net = run.nets[-1]
        bound = lipschitz_radii(net, sample.coordinates(net.dimension), sample.y)
        exact = radii(net, sample, jobs=1).certified
        above = max(above, float(((bound - exact) / exact.max()).max()))
        tight.append(float(np.median(bound[exact > 0] / exact[exact > 0])))
        pairs.append((bound, exact))
    bound, exact = pairs[0]
    line = np.array([0.0, float(exact.max())])
    series = (
        Series("points", exact, bound, "averaged", "markers"),
        Series("exact", line, line, "reference", "dashed"),
    )
    figure = Figure(
        "lipschitz",
        "The Lipschitz bound beside the exact radius",
        "Fresh points of one seed; every point lies below the diagonal.",
        (Lines(Axis("exact radius", "l2"), Axis("q/β", "l2"), series),),
    )
    return Evidence(
        checks=(
            Check("largest excess of q/β over the exact radius", above, "<=", 1e-9,
                  note="an identity: it tests the code, not the theory"),
            Check("median tightness", relation=">=", bound=0.1, values=tight, role="note"),
        ),
        figures=(figure,),
        numbers={"tightness": tight},
        finding=f"The bound is never above the exact radius, as must be, and has "
        f"{np.median(tight):.0%} of it.",
    )  # fmt: skip


CLAIMS = (
    Claim(
        id="margin-kkt-radius",
        title="KKT points have radius of order √(d/k)",
        theme="Margins",
        statement="Every KKT point of a two-layer network (both layers and biases) is at most "
        "O(√(d/k))-robust, and one direction z = η Σ y<sub>j</sub>μ<sub>j</sub> of length "
        "O(√(d/(c²k))) flips all but ε of the points.",
        source=FREI,
        measured="exact radii and the shortest such z that flips 99% of 1000 fresh points, k = 4, 6, "
        "10, at the KKT points that the flow reaches: first layer trained, and both layers with "
        "biases, from small and large starts (not at every KKT point: nobody can list them)",
        statements=("itcs-kkt-radius", "itcs-theorem-4.2", "csml-double-edged"),
        run=radius_claim,
        minutes=0.5,
    ),
    Claim(
        id="margin-lipschitz",
        title="Robustness is at least margin over Lipschitz constant",
        theme="Margins",
        statement="If q is β-Lipschitz, the radius is at least q/β. (An identity, which tests the "
        "code; the note says how tight it is.)",
        source="Talks, margin and robustness (Sokolic et al. 2017)",
        measured="q/β beside the exact radius for fresh points of the KKT networks",
        statements=("itcs-lipschitz", "csml-lipschitz"),
        run=lipschitz_claim,
        minutes=0.02,
    ),
)
