"""Shamir et al.: do minimal perturbations leave the manifold of the data?"""

from __future__ import annotations

from featavg.paper.connections.dimpled_manifold import off_manifold
from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim(
    "connections-dimpled-manifold",
    "Do minimal perturbations leave the manifold of the data?",
    theme="Connections",
    source="Talks, 'Connection to dimpled manifold models'; Shamir, Melamed and BenShmuel 2021",
    measured="exact minimal perturbations of networks trained on ten clusters in a random "
    "100-dimensional subspace of R<sup>3072</sup>, split into parts on and off it, and the exact "
    "distance to the boundary along each, for initial weights from 10<sup>−5</sup> to 1/√d",
    minutes=0.07,
    statements=("itcs-dimples", "csml-dimples"),
)
def manifold(settings: Context) -> Evidence:
    """The dimpled-manifold model: data lie near a low-dimensional manifold, the boundary clings to
    it with shallow dimples, and adversarial perturbations are short because they leave the
    manifold; feature averaging is offered as a theory of it.
    """
    result = off_manifold(
        seeds=settings.seeds, every_seed=settings.full, progress=settings.progress
    )
    small, large = result.sizes[0], result.sizes[-1]
    _, on, off = result.distances("coarse", large)
    averaged, decoupled = (result.distances(labels, small)[0] for labels in ("coarse", "fine"))
    checks = (
        Check(
            "averaged, σ<sub>w</sub> = 1/√d: share of |u|² off the manifold",
            result.off_share("coarse", large),
            ">=",
            0.5,
        ),
        Check(
            "averaged, σ<sub>w</sub> = 1/√d: distance off the manifold over distance on it",
            off / on,
            "<=",
            0.5,
        ),
        Check(
            "averaged, σ<sub>w</sub> = 10<sup>−5</sup>: share of |u|² off the manifold",
            result.off_share("coarse", small),
            ">=",
            0.5,
            note="the paper's initialisation",
        ),
        Check(
            "σ<sub>w</sub> = 10<sup>−5</sup>: averaged over decoupled radius",
            averaged / decoupled,
            "<=",
            0.6,
            note="both exact",
        ),
        Check("largest gap between certificate and witness", result.gap, "<=", 1e-4, role="note"),
    )
    figures = (result.figure(), result.plane_figure())
    return Evidence(
        *checks,
        finding=result.summary(),
        numbers=result.to_json(),
        figures=figures,
    )
