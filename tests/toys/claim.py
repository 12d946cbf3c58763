"""A claim that holds."""

from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim("toy-claim", "Two is more than one", theme="Toys", source="Peano", measured="two")
def toy(settings: Context) -> Evidence:
    """2 > 1."""
    return Evidence(Check("two", 2.0, ">=", 1.0), finding="Two is more than one.")
