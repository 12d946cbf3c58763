"""How a measured number and its tolerance are written, on the terminal and in the report."""

from __future__ import annotations

from featavg.claims.ledger import Check
from featavg.figures.number_format import number


def measured(check: Check) -> str:
    """The measured number, with enough digits to look neither exact nor like the bound it missed.

    >>> measured(Check("accuracy", 0.98996, ">=", 0.99)), measured(Check("ratio", 1.0025, "<=", 2))
    ('0.98996', '1.002')
    """
    low, high = check.ends
    value = float(check.measured)
    for digits in range(3, 17):
        text = number(value, digits)
        looks_exact = digits < 6 and not value.is_integer() and text.lstrip("−").isdigit()
        looks_passed = not check.passed and text in (number(low, digits), number(high, digits))
        if not looks_exact and not looks_passed:
            return text
    return repr(float(check.measured))


def tolerance(check: Check) -> str:
    """What the check asks for.

    >>> tolerance(Check("error", 0, "<=", 1e-9)), tolerance(Check("cosine", 0, "within", (0, 0.5)))
    ('≤ 10⁻⁹', '0 to 0.5')
    """
    low, high = (number(end, 6) for end in check.ends)
    return {"<=": f"≤ {high}", ">=": f"≥ {low}", "within": f"{low} to {high}"}[check.relation]
