"""The picture of the talks: a line, a zigzag, and what training makes of them."""

from __future__ import annotations

from featavg.paper.connections.boundary import boundary_picture
from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim(
    "connections-picture",
    "The boundary of averaged features is a line, of decoupled ones a zigzag",
    theme="Connections",
    source="Talks, 'Robust and nonrobust solutions'",
    measured="the directions of the boundary in the plane through three features and the exact "
    "radius at a feature, for f<sub>FA</sub>, f<sub>FD</sub>, the biased robust network and both "
    "trained networks; k = 10, d = 3072",
    minutes=0.02,
    statements=("csml-robust-picture",),
)
def picture(settings: Context) -> Evidence:
    """f<sub>FA</sub> separates the clusters by a line that passes near all of them, f<sub>FD</sub>
    by a zigzag further away, and trained networks look like the one or the other according to
    their labels.
    """
    result = boundary_picture(seed=settings.seeds[0], progress=settings.progress)
    straight, bent = result.directions
    checks = (
        Check(
            "directions of the boundary of f<sub>FA</sub> in the plane of three features",
            straight,
            "<=",
            1,
            note="a line",
        ),
        Check("directions of the boundary of f<sub>FD</sub> there", bent, ">=", 3, note="a zigzag"),
        *(
            Check(
                f"{name}: exact radius at μ<sub>1</sub> over its theory",
                result.radius[name] / value,
                "within",
                (0.999, 1.001) if i < 3 else (0.9, 1.1),
                note=f"theory: {value:.3f} √d",
            )
            for i, (name, value) in enumerate(result.theory.items())
        ),
    )
    figures = (result.figure(), result.attack_figure())
    return Evidence(
        *checks,
        finding=result.summary(),
        numbers=result.to_json(),
        figures=figures,
    )
