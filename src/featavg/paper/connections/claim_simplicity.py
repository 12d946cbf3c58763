"""Shah et al. (2020): networks rely on the simplest feature alone, and ignore equally good ones."""

from __future__ import annotations

from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.paper.connections.mnist_cifar import PUBLISHED_AREAS as PUBLISHED_PICTURES
from featavg.paper.connections.mnist_cifar import SHUFFLED_AREAS, PairedPictures, paired_pictures
from featavg.paper.connections.slab_shuffling import SlabReliance, slab_reliance
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, NotRun, claim
from featavg.paper.engine.requirements import torch_needed
from featavg.progress import part

SOURCE = "Talks, 'Connection to simplicity bias'; Shah et al. 2020, sections 3 and 4"
# AUC of the paper's networks on LMS-5: as it is, linear block shuffled, slab blocks shuffled.
PUBLISHED_AREAS = (1.000, 0.507, 1.000)
HARD = {"d": 20, "n": 40_000, "steps": 2500, "lr": 0.1}


@claim(
    "connections-simplicity-lms5",
    "Simplicity bias on LMS-5: only the linear feature is used",
    theme="Connections",
    source=SOURCE,
    measured="AUC on 20,000 test points with blocks of coordinates shuffled; d = 50, random "
    "rotation, 20,000 training points, two hidden layers of 100, SGD",
    minutes=0.06,
    statements=("itcs-simplicity", "csml-simplicity"),
)
def lms5(settings: Context) -> Evidence:
    """A fully connected network trained on LMS-5 (one linear and many five-slab features, each
    predictive) relies on the linear one alone: AUC 1.000 as it is, 0.507 with the linear block
    shuffled, 1.000 with all slabs shuffled.
    """
    result = slab_reliance("lms-5", seeds=settings.seeds, progress=settings.progress)
    mean = result.mean
    names = ("as it is", "linear block shuffled", "slabs shuffled")
    lost, published = (areas[0] - areas[1] for areas in (mean, PUBLISHED_AREAS))
    checks: tuple[Check, ...] = (
        Check(
            "LMS-5: AUC lost when the linear coordinate is shuffled",
            lost,
            "within",
            (round(published - 0.02, 3), round(published + 0.02, 3)),
            note=f"published: {published:.3f}",
        ),
    )
    checks += tuple(
        Check(
            f"LMS-5, {names[i]}: mean AUC",
            mean[i],
            "within",
            (round(PUBLISHED_AREAS[i] - 0.02, 3), round(PUBLISHED_AREAS[i] + 0.02, 3)),
            note=f"published: {PUBLISHED_AREAS[i]:.3f}; seeds {result.aucs[:, i].min():.3f} to "
            f"{result.aucs[:, i].max():.3f}",
        )
        for i in range(3)
    )
    low, high = result.aucs.min(axis=0), result.aucs.max(axis=0)
    bars = (
        Bar("measured", mean, "neutral", low, high),
        Bar("published", PUBLISHED_AREAS, "published"),
    )
    figure = Figure(
        "lms5",
        "LMS-5: all eggs in the linear basket",
        "Area under the ROC curve of a fully connected network on one linear and 49 five-slab "
        "coordinates, each of which gives the label away. Shuffling the linear coordinate destroys "
        "it; shuffling all 49 others changes nothing.",
        (_bars(names, bars),),
    )
    finding = (
        f"With the linear coordinate shuffled the network is a coin (AUC {mean[1]:.3f}, published "
        f"{PUBLISHED_AREAS[1]}); with all 49 slab coordinates shuffled it does not notice "
        f"({mean[2]:.3f})."
    )
    headline = Headline(
        f"{mean[1]:.2f}", "AUC when one of 50 good features is shuffled", "averaged"
    )
    numbers = {"aucs": result.aucs.tolist(), "published": PUBLISHED_AREAS}
    return Evidence(
        *checks,
        headlines=(headline,),
        finding=finding,
        numbers=numbers,
        figure=figure,
    )


@claim(
    "connections-simplicity-slabs",
    "Simplicity bias on MS-(5,7) and on noisy LMS-7",
    theme="Connections",
    source=SOURCE,
    measured="the same on MS-(5,7) in d = 20 and on LMS-7 in d = 50, the linear coordinate "
    "without a label on 10% of the points; and five slabs alone as a control; one seed (five "
    "with --full)",
    minutes=0.08,
    statements=("itcs-simplicity", "csml-simplicity", "itcs-other-biases", "csml-other-biases"),
)
def others(settings: Context) -> Evidence:
    """The bias is towards the simplest feature whatever it is: five slabs before seven, and a noisy
    line before slabs that are always right, at the price of accuracy.
    """
    seeds = settings.seeds if settings.full else settings.seeds[:1]
    plans = {"ms-5-7": HARD, "lms-7": {}, "noisy-lms-7": {}, "slabs-5": HARD}
    results: dict[str, SlabReliance] = {}
    for i, (name, plan) in enumerate(plans.items()):
        settings.progress(i / len(plans), name)
        results[name] = slab_reliance(name, seeds=seeds, **plan)  # type: ignore[arg-type]
    mean = {name: result.mean for name, result in results.items()}
    accuracy = {name: float(result.accuracy.mean()) for name, result in results.items()}
    checks = (
        Check(
            "MS-(5,7): AUC lost when the 5-slab coordinate is shuffled",
            mean["ms-5-7"][0] - mean["ms-5-7"][1],
            ">=",
            0.43,
        ),
        Check(
            "MS-(5,7), 5-slab coordinate shuffled: mean AUC",
            mean["ms-5-7"][1],
            "within",
            (0.45, 0.55),
        ),
        Check("MS-(5,7), 7-slab coordinates shuffled: mean AUC", mean["ms-5-7"][2], ">=", 0.98),
        Check(
            "LMS-7, linear coordinate shuffled: mean AUC", mean["lms-7"][1], "within", (0.45, 0.55)
        ),
        Check(
            "noisy LMS-7, linear coordinate shuffled: mean AUC", mean["noisy-lms-7"][1], "<=", 0.6
        ),
        Check(
            "noisy LMS-7: test accuracy",
            accuracy["noisy-lms-7"],
            "<=",
            0.98,
            note="the linear coordinate allows 0.95, the slabs 1.00",
        ),
        Check(
            "5-slabs only: test accuracy",
            accuracy["slabs-5"],
            ">=",
            0.98,
            note="the slabs can be learnt when nothing simpler is there",
            role="note",
        ),
    )
    order = ("lms-7", "noisy-lms-7", "ms-5-7")
    bars = (
        Bar("as it is", [mean[n][0] for n in order], "neutral"),
        Bar("simplest shuffled", [mean[n][1] for n in order], "averaged"),
        Bar("all others shuffled", [mean[n][2] for n in order], "decoupled"),
    )
    figure = Figure(
        "slabs",
        "The simplest block takes it all",
        "AUC as it is, with the simplest coordinate shuffled, and with all others shuffled. In "
        "MS-(5,7) the simplest coordinate is itself a five-slab one; in noisy LMS-7 the linear "
        "coordinate is worth 95% and the slabs 100%.",
        (_bars(("LMS-7", "noisy LMS-7", "MS-(5,7)"), bars),),
    )
    finding = (
        f"On MS-(5,7) the network relies on the one five-slab coordinate (AUC {mean['ms-5-7'][1]:.3f} "
        f"without it) and ignores nineteen seven-slab ones; on noisy LMS-7 it stays at "
        f"{accuracy['noisy-lms-7']:.1%} test accuracy although the slabs would allow 100%, and with "
        f"nothing simpler around the same network learns five slabs to {accuracy['slabs-5']:.1%}."
    )
    numbers = {name: result.to_json() for name, result in results.items()}
    return Evidence(
        *checks,
        finding=finding,
        numbers=numbers,
        figure=figure,
    )


def _bars(names: tuple[str, ...], bars: tuple[Bar, ...]) -> Bars:
    coin = (Rule(0.5, label="a coin"),)
    return Bars(names, bars, Axis("AUC", range=(0.0, 1.05)), rules=coin)


@claim(
    "connections-simplicity-mnist-cifar",
    "Simplicity bias on MNIST above CIFAR-10: only the digit is used",
    theme="Connections",
    source=SOURCE,
    measured="AUC on 2000 test pictures of a ResNet-18 of width 8 trained on 10,000 for two epochs "
    "(published: convolutional networks, deeper and wider ones); as notes, of a fully "
    "connected network with two hidden layers of 100",
    tier="full",
    minutes=6,
    needs=("torch", "mnist", "cifar10"),
    statements=("itcs-simplicity", "csml-simplicity"),
)
def pictures(settings: Context) -> Evidence:
    """On pictures of a digit above a vehicle, both of which give the label away, a network relies on
    the digit alone: AUC 1.000 as it is, 0.494 with the digits shuffled, 1.000 with the vehicles
    shuffled.
    """
    torch_needed()
    results: dict[str, PairedPictures] = {}
    try:
        # A convolutional network takes minutes: three seeds. The dense one is shown beside it.
        for i, (network, seeds) in enumerate(
            {"convolutional": settings.seeds[:3], "dense": settings.seeds}.items()
        ):
            results[network] = paired_pictures(
                settings.data_dir,
                network=network,
                seeds=seeds,
                progress=part(settings.progress, 0.7 * i, 0.7 + 0.3 * i),
            )
    except InputError as error:
        raise NotRun(str(error)) from error
    conv, dense = results["convolutional"], results["dense"]
    # 2000 test pairs: a coin's AUC has standard deviation 0.013 on each seed.
    lost, published = (areas[0] - areas[1] for areas in (conv.mean, PUBLISHED_PICTURES))
    checks: tuple[Check, ...] = (
        Check(
            "AUC lost when the digits are shuffled",
            lost,
            "within",
            (round(published - 0.05, 3), round(published + 0.05, 3)),
            note=f"published: {published:.3f}",
        ),
    )
    for network, result in results.items():
        checks += tuple(
            Check(
                f"{network}, {SHUFFLED_AREAS[i]}: mean AUC",
                result.mean[i],
                "within",
                (round(PUBLISHED_PICTURES[i] - width, 3), round(PUBLISHED_PICTURES[i] + width, 3)),
                note=f"published: {PUBLISHED_PICTURES[i]:.3f}; seeds {result.aucs[:, i].min():.3f} to "
                f"{result.aucs[:, i].max():.3f}",
                role="essential" if network == "convolutional" else "note",
            )
            for i, width in enumerate((0.02, 0.05, 0.02))
        )
    trace = "" if checks[0].passed else ", but keeps more of a trace of the vehicle than published"
    finding = (
        f"With the digits shuffled the AUC of a convolutional network is {conv.mean[1]:.3f} (published "
        f"{PUBLISHED_PICTURES[1]}), with the vehicles shuffled {conv.mean[2]:.3f}: the network "
        f"relies on the digit{trace}. A fully connected one has {dense.mean[1]:.3f} and "
        f"{dense.mean[2]:.3f}."
    )
    numbers = {network: result.to_json() for network, result in results.items()}
    return Evidence(
        *checks,
        finding=finding,
        numbers=numbers,
        figure=conv.figure(),
    )
