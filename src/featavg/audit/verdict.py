"""From numbers to a verdict in plain words, by a rule that is the same for every network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from featavg.audit.gradients import VALID_NULL, LayerGradient

if TYPE_CHECKING:
    from featavg.audit.discovery import Discovery
    from featavg.audit.gain import FeatureGain
    from featavg.audit.radii import DecisionRadii
    from featavg.measures.accuracy import Accuracy
    from featavg.measures.collapse import SubclassCollapse
    from featavg.measures.shared_gradient import ClassGradient, SharedGradient

# The border between the two, near the middle of what networks of known truth showed class by class: at most
# 0.26 where features are decoupled (a public ResNet-20), at least 0.48 where they are averaged (an MLP on
# digits); tests/audit/test_known_truth.py has the table. Networks that were not used for it (MNIST, other
# seeds, batch norm, tanh, GELU): at most 0.14 and at least 0.40. An interval that contains the border
# decides nothing.
BORDER = 0.35
# Above this cosine the sub-classes of a class lie in one place, and a new head finds nothing to decouple.
COLLAPSED = 0.85
RULE = (
    f"The shared gradient A is the cosine of the mean effective gradients of two sub-classes of a class: "
    f"of the class's score above the mean output, each unit weighed by how strongly it fires, without the "
    f"direction that all images share. It is read at the first layer, from the input on, where its "
    f"permutation null exceeds {VALID_NULL:g}; layers behind which the network is linear say nothing. Each "
    f"class weighs the same. If the 95% interval lies above {BORDER:g} the network averages, if it lies "
    f"below, the network is decoupled; if one class averages and another is decoupled, it is mixed; "
    f"otherwise, without such a layer, if another layer says the opposite, or if the network decides no "
    f"better than chance, one cannot tell."
)


class AuditVerdict(Enum):
    """What the audit says about the decision of a network.

    >>> import featavg as fa
    >>> [verdict.value for verdict in AuditVerdict]
    ['averages', 'decoupled', 'mixed', 'cannot tell']
    """

    AVERAGES = "averages"
    DECOUPLED = "decoupled"
    MIXED = "mixed"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Judgement:
    """The verdict and the sentence that carries it.

    Attributes:
        by_class: the verdict on each class that has two sub-classes or more.
        otherwise: layers whose verdict is the opposite one.
    """

    verdict: AuditVerdict
    reason: str
    by_class: Mapping[int, AuditVerdict] = field(default_factory=dict)
    otherwise: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "verdict": self.verdict.value,
            "reason": self.reason,
            "by_class": {str(c): verdict.value for c, verdict in self.by_class.items()},
            "other_layers": list(self.otherwise),
            "rule": RULE,
        }


def judge(
    layer: LayerGradient | None,
    discovery: Discovery | None,
    accuracy: Accuracy,
    chance: float,
    layers: Sequence[LayerGradient] = (),
) -> Judgement:
    """The rule, in a sentence.

    Args:
        layer: the one that is reported.
        accuracy: of the decision.
        chance: the accuracy of always naming the most frequent class.
        layers: those that may not say the opposite.
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
    by_class = {each.label: _side(each) for each in layer.shared.by_class}
    verdict = _verdict(layer)
    reason = _reason(verdict, layer, by_class)
    if verdict is AuditVerdict.AVERAGES and discovery is not None:
        reason += (
            " The sub-classes were discovered, so this can also mean that clusters were not found."
        )
    sides = {AuditVerdict.AVERAGES, AuditVerdict.DECOUPLED}
    others = [each for each in layers if each.valid and {verdict, _verdict(each)} == sides]
    if others:
        named = ", ".join(f"'{each.layer}' (A = {each.shared.value:.2f})" for each in others)
        word = "averages" if verdict is AuditVerdict.DECOUPLED else "is decoupled"
        reason = f"Layers disagree: it {word} at {named}. {reason}"
        verdict = AuditVerdict.CANNOT_TELL
    return Judgement(verdict, reason, by_class, tuple(each.layer for each in others))


def _side(shared: SharedGradient | ClassGradient) -> AuditVerdict:
    """On which side of the border an interval lies."""
    if not shared.null > VALID_NULL:
        return AuditVerdict.CANNOT_TELL
    if shared.low > BORDER:
        return AuditVerdict.AVERAGES
    return AuditVerdict.DECOUPLED if shared.high < BORDER else AuditVerdict.CANNOT_TELL


def _verdict(layer: LayerGradient) -> AuditVerdict:
    """What a layer says, all classes taken together."""
    sides = {_side(each) for each in layer.shared.by_class}
    if {AuditVerdict.AVERAGES, AuditVerdict.DECOUPLED} <= sides:
        return AuditVerdict.MIXED
    return _side(layer.shared)


def _reason(
    verdict: AuditVerdict, layer: LayerGradient, by_class: Mapping[int, AuditVerdict]
) -> str:
    shared = layer.shared
    numbers = (
        f"A = {shared.value:.2f} [{shared.low:.2f}, {shared.high:.2f}], where 1 is one direction for "
        f"the whole class (at the layer '{layer.layer}', permutation null {shared.null:.2f})"
    )
    if verdict is AuditVerdict.AVERAGES:
        reason = f"The sub-classes of a class share most of their sensitivity: {numbers}."
    elif verdict is AuditVerdict.DECOUPLED:
        reason = f"The sub-classes of a class are sensitive to different directions: {numbers}."
    elif verdict is AuditVerdict.MIXED:
        reason = f"Classes disagree, {_listed(by_class)}: over all of them {numbers}."
    else:
        reason = f"The interval contains the border {BORDER:g}: {numbers}."
    if verdict is not AuditVerdict.MIXED and len(set(by_class.values())) > 1:
        reason += f" Class by class: {_listed(by_class)}."
    return reason


def _listed(by_class: Mapping[int, AuditVerdict]) -> str:
    words = {
        AuditVerdict.AVERAGES: "averages",
        AuditVerdict.DECOUPLED: "is decoupled",
        AuditVerdict.CANNOT_TELL: "is undecided",
    }
    return ", ".join(f"class {c} {words[side]}" for c, side in by_class.items())


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
            "`fa.retrain(..., objective=fa.objectives.GradientPenalty(0.3))` or "
            "`fa.objectives.Adversarial(radius)`, and give the result as `twin`."
        )
    return tuple(lines)
