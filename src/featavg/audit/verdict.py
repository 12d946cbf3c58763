"""From numbers to a verdict in plain words, by a rule that is the same for every network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from featavg.audit.gain import FeatureGain, changed
from featavg.audit.gradients import AUTO, VALID_NULL, LayerGradient, Sharing
from featavg.audit.parts import Audited, Part, Row
from featavg.audit.subclasses import SubclassProbe
from featavg.measures.accuracy import Accuracy
from featavg.measures.shared_gradient import ClassGradient, SharedGradient
from featavg.storage.files import strict_json

# The border between the two, near the middle of what networks of known truth showed class by class: at most
# 0.26 where features are decoupled (a public ResNet-20), at least 0.48 where they are averaged (an MLP on
# digits); tests/audit/test_known_truth.py has the table. Networks that were not used for it (MNIST, other
# seeds, batch norm, tanh, GELU): at most 0.14 and at least 0.40. Of 16 more (MLPs with ReLU, GELU and SiLU on
# Gaussian clusters, small CNNs on CIFAR-10) 15: at most 0.19 and at least 0.57; a CNN with ten outputs on
# animals and vehicles has 0.68 (0.92 with two). An interval that contains the border decides nothing.
BORDER = 0.35
# With one output per class a gradient has the direction of its rivals in it. If those are one direction, as long as a
# sub-class's own, then two sub-classes that have nothing else in common share half of their squared length. Ten
# outputs of networks on digits (A at most 0.03) show -0.01 to 0.54 for a class once they are merged by log-sum-exp, and
# networks with two outputs 0.55 to 1 (0.48 with another seed; one with attention 0.17 and 0.30): the bound is derived,
# but all but that 0.48 had been seen.
MERGED = 0.5
# Above this cosine the sub-classes of a class lie in one place, and a new head finds nothing to decouple.
COLLAPSED = 0.85
RULE = (
    f"The shared gradient A is the cosine of the mean effective gradients of two sub-classes of a class: "
    f"of the class's score above the mean output, each unit weighed by how strongly it fires, without the "
    f"direction that all images share. It is read at the first layer, from the input on, where its "
    f"permutation null exceeds {VALID_NULL:g}; layers behind which the network is linear say nothing. Each "
    f"class weighs the same. If the 95% interval lies above {BORDER:g} the network averages (above {MERGED:g} "
    f"where it has one output per class, whose gradient contains the direction of its rivals), if it lies "
    f"below {BORDER:g}, the network is decoupled; if one class averages and another is decoupled, it is mixed. Labels "
    f"that are wrong make any network look averaged: it averages only if A also exceeds what a decoupled "
    f"network would show with sub-classes that a linear probe (of the input or of the features) tells "
    f"apart no better than these. Otherwise, without such a layer, if another layer says the opposite, or "
    f"if the network decides no better than chance, one cannot tell."
)


class AuditVerdict(Enum):
    """What the audit says about the decision of a network.

    >>> [verdict.value for verdict in AuditVerdict]
    ['averages', 'decoupled', 'mixed', 'cannot tell']
    """

    AVERAGES = "averages"
    DECOUPLED = "decoupled"
    MIXED = "mixed"
    CANNOT_TELL = "cannot tell"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Judgement(Part):
    """The verdict and the sentence that carries it.

    Attributes:
        by_class: the verdict on each class that has two sub-classes or more.
        other_layers: layers whose verdict is the opposite one.
    """

    verdict: AuditVerdict
    reason: str
    by_class: Mapping[int, AuditVerdict] = field(default_factory=dict)
    other_layers: tuple[str, ...] = ()
    rule: str = RULE

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """The verdict and why."""
        return [Row("verdict", self.verdict.value), Row("why", self.reason)]

    def entries(self, name: str) -> dict[str, object]:
        """Plain values."""
        return {"verdict": strict_json(self)}


def judge(
    sharing: Sharing,
    accuracy: Accuracy,
    chance: float,
    probes: Mapping[int, SubclassProbe] | None = None,
    too_few: str = "",
    discovered: bool = False,
    finer: bool = False,
) -> Judgement:
    """The rule, in a sentence.

    Args:
        sharing: the shared gradient; if no layer is asked for, none may say the opposite of another.
        accuracy: of the decision.
        chance: the accuracy of always naming the most frequent class.
        probes: how well the sub-classes of each class can be distinguished; without them it is taken for
            granted that they can.
        too_few: why there are too few images to compare sub-classes; empty where there are enough.
        discovered: whether the sub-classes were found by clustering.
        finer: whether the network has more outputs than classes.
    """
    layer, probes = sharing.reported, probes or {}
    limits = _limits(probes, BORDER if finer else MERGED)
    unknown = ""
    if accuracy.low <= chance:
        unknown = (
            f"The network decides hardly better than by always naming one class (accuracy {accuracy}, "
            f"against {chance:.2%}): check the order of the classes, `mean` and `std`."
        )
    elif too_few:
        unknown = too_few
    if unknown or layer is None:
        never = (
            "At no layer do the gradients of one sub-class agree enough for the shared gradient to mean "
            f"something (permutation null at most {VALID_NULL:g})."
        )
        return Judgement(AuditVerdict.CANNOT_TELL, unknown or never)
    by_class = {each.label: _side(each, limits[each.label]) for each in layer.shared.by_class}
    verdict = _verdict(layer, limits)
    reason = _reason(verdict, layer, by_class)
    if verdict is AuditVerdict.CANNOT_TELL and layer.shared.low > BORDER:
        reason = _unknown(layer, limits, probes)
    if verdict is AuditVerdict.AVERAGES and discovered:
        reason += " The sub-classes were discovered, so this can also mean that clusters were not found."
    sides = {AuditVerdict.AVERAGES, AuditVerdict.DECOUPLED}
    layers = sharing.layers if sharing.wanted == AUTO else ()
    others = [each for each in layers if each.valid and {verdict, _verdict(each, limits)} == sides]
    if others:
        named = ", ".join(f"'{each.layer}' (A = {each.shared.value:.2f})" for each in others)
        word = "averages" if verdict is AuditVerdict.DECOUPLED else "is decoupled"
        reason = f"Layers disagree: it {word} at {named}. {reason}"
        verdict = AuditVerdict.CANNOT_TELL
    return Judgement(verdict, reason, by_class, tuple(each.layer for each in others))


def _limits(probes: Mapping[int, SubclassProbe], least: float) -> dict[int | None, float]:
    """The A above which a class averages, and (None) that of all classes taken together."""
    found: dict[int | None, float] = {c: max(least, p.decoupled) for c, p in probes.items()}
    # Nothing is above infinity: of sub-classes at chance level A is 1, whatever the network.
    found |= {c: float("inf") for c, probe in probes.items() if not probe.above_chance}
    whole = sum(found.values()) / len(found) if found else least
    return defaultdict(lambda: least, found | {None: whole})


def _side(shared: SharedGradient | ClassGradient, limit: float) -> AuditVerdict:
    """On which side of the border an interval lies; wrong sub-classes can only make A too large."""
    if shared.null > VALID_NULL and shared.low > limit:
        return AuditVerdict.AVERAGES
    if shared.null > VALID_NULL and shared.high < BORDER:
        return AuditVerdict.DECOUPLED
    return AuditVerdict.CANNOT_TELL


def _verdict(layer: LayerGradient, limits: Mapping[int | None, float]) -> AuditVerdict:
    """What a layer says, all classes taken together."""
    sides = {_side(each, limits[each.label]) for each in layer.shared.by_class}
    if {AuditVerdict.AVERAGES, AuditVerdict.DECOUPLED} <= sides:
        return AuditVerdict.MIXED
    return _side(layer.shared, limits[None])


def _unknown(layer: LayerGradient, limits: Mapping[int | None, float], probes: Mapping[int, SubclassProbe]) -> str:
    """Why an A that is large does not mean that the network averages."""
    value = f"A = {layer.shared.value:.2f} at the layer '{layer.layer}'"
    at_chance = [p for p in probes.values() if not p.above_chance]
    if at_chance:
        listed = "; ".join(f"class {p.label}: {p}" for p in at_chance)
        return (
            f"Neither the input nor the features tell the given sub-classes apart ({listed}). Of "
            f"sub-classes that do not exist A is 1 for every network (here {value})."
        )
    if limits[None] == MERGED:
        return (
            f"The network has one output per class, whose gradient contains the direction of its rivals: a "
            f"decoupled one can show A up to {MERGED:g}, and here {value}. If these outputs were merged from finer "
            f"ones, audit those."
        )
    listed = "; ".join(f"class {c}: {p}" for c, p in probes.items())
    return (
        f"The sub-classes can hardly be told apart ({listed}): with labels that are wrong so often a "
        f"decoupled network would show A up to {limits[None]:.2f}, and here {value}."
    )


def _reason(verdict: AuditVerdict, layer: LayerGradient, by_class: Mapping[int, AuditVerdict]) -> str:
    shared = layer.shared
    numbers = (
        f"A = {shared.value:.2f} [{shared.low:.2f}, {shared.high:.2f}], where 1 is one direction for "
        f"the whole class and 0 one for each sub-class (at the layer '{layer.layer}')"
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


def remedies(audit: Audited) -> tuple[str, ...]:
    """What would help, with numbers of this network only; it says what was not measured."""
    radii, twin = audit.radii, None if audit.twin is None else audit.twin.radii
    lines = []
    if audit.finer:
        lines.append(
            "Its outputs are finer than the classes already: neither a new head nor training with finer "
            "labels is for this network."
        )
    else:
        lines += [_rehead(audit), _head("Competition (`fa.rehead` without fine labels)", audit.competition)]
    if twin is not None and radii.median > 0 and twin.median < float("inf"):
        ratio = twin.median / radii.median
        lines.append(
            f"The twin's median radius is {twin.median:.4g} against {radii.median:.4g}, {ratio:.2f} times: "
            f"its training would {changed(ratio)}."
        )
    elif twin is None and not audit.finer:
        lines.append(
            "Retraining with finer labels (`fa.retrain`) was not measured for this network: give the "
            "result as `twin`. Elsewhere it moved the boundary both ways."
        )
    if audit.verdict is not AuditVerdict.DECOUPLED:
        lines.append(
            "Controlling the gradient was not measured for this network: train it with "
            "`fa.retrain(..., objective=fa.objectives.GradientPenalty(0.3))` or "
            "`fa.objectives.Adversarial(radius)`, and give the result as `twin`."
        )
    return tuple(lines)


def _rehead(audit: Audited) -> str:
    collapse, budget = audit.collapse, audit.budget
    if collapse is not None and collapse.same_class_cosine > COLLAPSED:
        return (
            f"Re-heading is not for this network: its sub-classes have collapsed (cosine of their means "
            f"{collapse.same_class_cosine:.2f}, above {COLLAPSED:g}). Retrain instead."
        )
    line = _head("Re-heading (`fa.rehead`)", audit.measured)
    if budget is not None and budget.share is not None and audit.measured and (audit.measured.low or 0) > 1:
        line += f" Fine labels on about {100 * budget.share:.2g}% of the images are enough for that."
    return line


def _head(name: str, gain: FeatureGain | None) -> str:
    """Advice on another head, which agrees with what heads on these features showed."""
    if gain is None:
        return f"{name} was not measured: the network has no last linear layer on features."
    if gain.value is None or gain.low is None or gain.high is None:
        return f"{name} was not measured: {gain.refused}."
    advice = "is worth a try" if gain.low > 1 else "is not for this network" if gain.high < 1 else "is open"
    return (
        f"{name} {advice}: {gain.change()}, as heads on these features showed. Pixels were not measured: "
        f"audit the result."
    )
