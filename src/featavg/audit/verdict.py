"""From numbers to a verdict in plain words, by a rule that was fixed before any network was audited."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from featavg.audit.gradients import VALID_NULL, LayerGradient

if TYPE_CHECKING:
    from featavg.audit.discovery import Discovery
    from featavg.audit.gain import FeatureGain
    from featavg.audit.radii import DecisionRadii
    from featavg.measures.accuracy import Accuracy
    from featavg.measures.collapse import SubclassCollapse

# The border between the two, halfway between what networks with fine and with coarse labels showed in a
# trial on other networks; an interval that contains it decides nothing.
BORDER = 0.45
# Above this cosine the sub-classes of a class lie in one place, and a new head finds nothing to decouple.
COLLAPSED = 0.85
RULE = (
    f"The shared gradient A is read at the first layer, from the input on, where its permutation null "
    f"exceeds {VALID_NULL:g}. If its 95% interval lies above {BORDER:g} the network averages, if it lies "
    f"below, the network is decoupled; otherwise, without such a layer, or if the network decides no "
    f"better than chance, one cannot tell."
)


class AuditVerdict(Enum):
    """What the audit says about the decision of a network.

    >>> import featavg as fa
    >>> [verdict.value for verdict in fa.AuditVerdict]
    ['averages', 'decoupled', 'cannot tell']
    """

    AVERAGES = "averages"
    DECOUPLED = "decoupled"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Judgement:
    """The verdict and the sentence that carries it."""

    verdict: AuditVerdict
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"verdict": self.verdict.value, "reason": self.reason, "rule": RULE}


def judge(
    layer: LayerGradient | None, discovery: Discovery | None, accuracy: Accuracy, chance: float
) -> Judgement:
    """The rule, in a sentence.

    Args:
        accuracy: of the decision.
        chance: the accuracy of always naming the most frequent class.
    """
    if accuracy.low <= chance:
        return Judgement(
            AuditVerdict.CANNOT_TELL,
            f"The network decides hardly better than by always naming one class (accuracy {accuracy}, "
            f"against {chance:.2%}): check the order of the classes, `mean` and `std`.",
        )
    if layer is None:
        return Judgement(
            AuditVerdict.CANNOT_TELL,
            "At no layer do the gradients of one sub-class agree enough for the shared gradient to mean "
            f"something (permutation null at most {VALID_NULL:g}).",
        )
    shared = layer.shared
    numbers = (
        f"A = {shared.value:.2f} [{shared.low:.2f}, {shared.high:.2f}], where 1 is one direction for "
        f"the whole class (at the layer '{layer.layer}', permutation null {shared.null:.2f})"
    )
    if shared.low > BORDER:
        verdict = AuditVerdict.AVERAGES
        reason = f"The sub-classes of a class share most of their sensitivity: {numbers}."
        if discovery is not None:
            reason += " The sub-classes were discovered, so this can also mean that clusters were not found."
    elif shared.high < BORDER:
        verdict = AuditVerdict.DECOUPLED
        reason = f"The sub-classes of a class are sensitive to different directions: {numbers}."
    else:
        verdict = AuditVerdict.CANNOT_TELL
        reason = f"The interval contains the border {BORDER:g}: {numbers}."
    return Judgement(verdict, reason)


def remedies(
    judgement: Judgement,
    collapse: SubclassCollapse | None,
    measured: FeatureGain | None,
    radii: DecisionRadii,
    twin: DecisionRadii | None,
) -> tuple[str, ...]:
    """What would help, with numbers of this network only; what was not measured is said so."""
    lines = []
    if collapse is not None and collapse.same_class_cosine > COLLAPSED:
        lines.append(
            f"Re-heading is not for this network: its sub-classes have collapsed (cosine of their means "
            f"{collapse.same_class_cosine:.2f}, above {COLLAPSED:g}). Retrain instead."
        )
    elif measured is not None and measured.value is not None:
        side = "farther" if measured.value > 1 else "nearer"
        lines.append(
            f"Re-heading (`fa.rehead`): heads with fine labels on these features have their boundary "
            f"{measured.value:.2f} times as far away as heads with coarse labels ({measured.low:.2f} to "
            f"{measured.high:.2f}), {side}, in feature space. Pixels were not measured: audit the result."
        )
    elif measured is not None:
        lines.append(f"Re-heading (`fa.rehead`) was not measured: {measured.refused}.")
    else:
        lines.append(
            "Re-heading was not measured: the network has no last linear layer on features."
        )
    if twin is None:
        lines.append(
            "Retraining with finer labels (`fa.retrain`) was not measured for this network: give the "
            "result as `twin`. Elsewhere it moved the boundary both ways."
        )
    elif radii.median > 0 and twin.median < float("inf"):
        ratio = twin.median / radii.median
        lines.append(
            f"Retraining with finer labels gave the twin: its median radius is {twin.median:.4g} against "
            f"{radii.median:.4g}, {ratio:.2f} times."
        )
    if judgement.verdict is not AuditVerdict.DECOUPLED:
        lines.append(
            "Controlling the gradient was not measured for this network: train it with "
            "`fa.retrain(..., objective=fa.GradientPenalty(0.3))` or `fa.Adversarial(radius)`, and give the "
            "result as `twin`."
        )
    return tuple(lines)
