"""Mini-batch training: the same bits after a kill, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from featavg.data.image_sets.loading import load  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.nets.torch.architecture import Architecture, architecture  # noqa: E402
from featavg.nets.torch.image_nets import Block, public_cifar_resnet, read_tensors  # noqa: E402
from featavg.nets.torch.inference import frozen  # noqa: E402
from featavg.storage.cache import Checkpoint  # noqa: E402
from featavg.training.torch import module as training  # noqa: E402
from featavg.training.torch.batches import Batches  # noqa: E402
from featavg.training.torch.image_network import load_trained, train_images  # noqa: E402
from featavg.training.torch.module import arrays_of, train_module  # noqa: E402
from featavg.training.torch.recipe import ImageRecipe, image_presets, preset_for  # noqa: E402

torch.set_num_threads(1)
RECIPE = ImageRecipe(epochs=2, batch=64, rate=0.05, crop=1)


@pytest.fixture(scope="module")
def task():
    return load("digits")


def network(task, labels="fine", name="convnet"):
    return architecture(name, task, labels, 4).build(seed=0)


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_training_learns_with_either_label(task, labels, tmp_path):
    trained = train_images(
        task, labels, tmp_path / "net", "convnet", 8, ImageRecipe(epochs=8, batch=64, rate=0.05, crop=1)
    )
    assert trained.about["test_accuracy"][labels] > 0.85
    again = load_trained(tmp_path / "net")
    x = torch.from_numpy(task.test.unit[:8])
    assert torch.allclose(again.net(x), trained.net(x), atol=1e-5)
    assert not (tmp_path / "net.partial").exists()


def test_a_finished_run_is_not_repeated_and_another_is_not_mistaken_for_it(task, tmp_path):
    first = train_images(task, "fine", tmp_path / "net", "convnet", 4, RECIPE)
    again = train_images(task, "fine", tmp_path / "net", "convnet", 4, RECIPE)
    assert again.about["seconds"] == first.about["seconds"]
    with pytest.raises(InputError, match="another architecture"):
        train_images(task, "coarse", tmp_path / "net", "convnet", 4, RECIPE)


@pytest.mark.parametrize("name", ["convnet", "resnet18"])
def test_a_killed_run_ends_in_the_same_bits(task, tmp_path, name):
    few = replace(task, train=task.train[slice(0, 640)])
    recipe = ImageRecipe(epochs=3, batch=64, rate=0.05, crop=1, small=6 if name == "resnet18" else 0)

    def trained(*given, **named):
        return train_module(network(task, name=name), few, "fine", recipe, *given, **named)

    whole = trained()
    for stop in (5, 19, 25):
        folder = tmp_path / f"after {stop}"
        trained(Checkpoint(folder, seconds=0.0), stop_after=stop)
        resumed = trained(Checkpoint(folder))
        for key, value in arrays_of(whole.net).items():
            assert np.array_equal(value, arrays_of(resumed.net)[key]), (stop, key)
        assert [row["loss"] for row in whole.history] == [row["loss"] for row in resumed.history]


def test_the_checkpoint_of_another_run_is_refused(task, tmp_path):
    kept = Checkpoint(tmp_path / "state", seconds=0.0)
    train_module(network(task), task, "fine", RECIPE, kept, stop_after=3)
    with pytest.raises(InputError, match="another run"):
        train_module(network(task), task, "fine", ImageRecipe(epochs=5, batch=64), Checkpoint(tmp_path / "state"))


def test_same_seed_same_batches_and_another_seed_others(task):
    def first(seed):
        batches = Batches(task.train.pixels, task.train.fine, 32, seed, crop=1, flips=True)
        return next(iter(batches.epoch(0)))[0]

    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))


def test_without_augmentation_a_batch_is_the_images_themselves(task):
    batches = Batches(task.train.pixels, task.train.fine, 50, seed=0)
    x, y = next(iter(batches.epoch(0)))
    order = np.concatenate([b.numpy() for _, b in batches.epoch(0)])
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert set(map(bytes, x.numpy())) <= set(map(bytes, task.train.unit))
    assert len(order) == len(batches) * 50
    assert len(y) == 50


def test_a_network_of_another_width_is_refused(task):
    with pytest.raises(InputError, match="need 2 outputs"):
        train_module(network(task, "fine"), task, "coarse", RECIPE)


def test_a_size_that_the_network_cannot_take_is_refused(task):
    with pytest.raises(InputError, match="small is 6"):
        train_module(network(task), task, "fine", ImageRecipe(small=6))


@pytest.mark.parametrize("change", [{"epochs": 0}, {"rate": -1.0}, {"precision": "float8"}, {"warmup": 1.0}])
def test_bad_recipes_are_refused(change):
    with pytest.raises(InputError):
        ImageRecipe(**change)


@pytest.mark.parametrize(
    ("capabilities", "survives", "used", "said"),
    [
        ({}, True, "bfloat16", ""),
        ({"avx2": True}, True, "float32", "has no instructions for bfloat16"),
        ({"avx512_bf16": True}, True, "bfloat16", ""),
        ({"amx_bf16": True}, False, "float32", "that it does not carry out"),
    ],
    ids=["unknown", "without", "with", "listed and broken"],
)
def test_a_cpu_without_bfloat16_trains_in_float32_and_says_so(
    task, monkeypatch, caplog, capabilities, survives, used, said
):
    here = training.survives()
    monkeypatch.setattr(training, "_capabilities", lambda: capabilities)
    monkeypatch.setattr(training, "survives", lambda: survives)
    assert training.used_precision("bfloat16", "cuda") == "bfloat16"
    assert training.used_precision("bfloat16", "cpu") == used
    assert said in caplog.text
    assert bool(caplog.text) == bool(said)
    if used == "bfloat16" and not here:
        return  # the process would end with an illegal instruction
    recipe = ImageRecipe(epochs=1, batch=64, precision="bfloat16")
    trained = train_module(network(task), task, "fine", recipe, stop_after=1)
    assert trained.precision == used
    plain = train_module(network(task), task, "fine", replace(recipe, precision="float32"), stop_after=1)
    same = [np.array_equal(a, b) for a, b in zip(*(arrays_of(t.net).values() for t in (trained, plain)), strict=True)]
    assert all(same) == (used == "float32")


def test_an_illegal_instruction_is_met_in_a_process_of_its_own(monkeypatch):
    dies = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    monkeypatch.setattr(training, "TRIAL", dies)
    assert not training.survives.__wrapped__()


def test_narrow_shortcuts_leave_pixels_out_and_agree_with_the_plain_convolution():
    """As one convolution with a stride their backward pass corrupted memory on CPUs with AVX2."""
    torch.manual_seed(0)
    block = Block(4, 8, 2, option_a=False).eval()
    conv = block.shortcut[0]
    x = torch.rand(3, 4, 8, 8)
    plain = torch.nn.functional.conv2d(x, conv.weight, stride=2)
    assert conv.stride == (1, 1)
    assert torch.allclose(conv(x[:, :, ::2, ::2]), plain, atol=1e-6)
    main = block.bn2(block.conv2(torch.relu(block.bn1(block.conv1(x)))))
    expected = torch.relu(main + block.shortcut[1](plain))
    assert torch.allclose(block(x), expected, atol=1e-6)
    assert Block(16, 32, 2, option_a=False).shortcut[0].stride == (2, 2)


@pytest.mark.parametrize("name", ["resnet18", "convnet", "resnet20"])
def test_freezing_changes_no_output(name):
    channels = 3 if name == "resnet20" else 1
    net = Architecture(name, 10, 4, channels, (0.4,) * channels, (0.3,) * channels).build(3)
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.5, 2.0, generator=generator)
    net.eval()
    x = torch.rand(4, channels, 32, 32, generator=generator)
    assert torch.allclose(frozen(net)(x), net(x), atol=1e-4)


class Evil:
    def __reduce__(self):
        return print, ("this must not be printed",)


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path, capsys):
    path = tmp_path / "evil.th"
    torch.save({"state_dict": {"w": Evil()}}, path)
    with pytest.raises(InputError, match="perhaps code"):
        read_tensors(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(InputError, match="perhaps code"):
        read_tensors(path)
    assert "printed" not in capsys.readouterr().out


def test_safetensors_are_known_by_their_content(tmp_path):
    from safetensors.torch import save_file

    save_file({"w": torch.ones(2)}, tmp_path / "weights.pt")
    assert read_tensors(tmp_path / "weights.pt")["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"PK\x03\x04 not a zip", b"\x02" + bytes(7) + b"{]", b"\xff" * 8 + b"{"]
)
def test_a_damaged_weights_file_is_refused(tmp_path, content):
    path = tmp_path / "bad.th"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.th"):
        read_tensors(path)


def test_weights_of_another_network_are_refused(tmp_path):
    torch.save({"state_dict": {"module.conv1.weight": torch.zeros(16, 3, 3, 3)}}, tmp_path / "a.th")
    with pytest.raises(InputError):
        public_cifar_resnet(tmp_path / "a.th")


def test_weights_under_the_public_names_are_loaded(tmp_path):
    from featavg.nets.torch.image_nets import cifar_resnet

    net = cifar_resnet(20)
    renamed = {
        "module." + name.replace("stages.", "layer"): value
        for name, value in net.state_dict().items()
        if not name.startswith("normalise")
    }
    renamed = {_one_up(name): value for name, value in renamed.items()}
    torch.save({"state_dict": renamed}, tmp_path / "resnet20.th")
    x = torch.rand(2, 3, 32, 32)
    assert torch.allclose(public_cifar_resnet(tmp_path / "resnet20.th")(x), net.eval()(x), atol=1e-5)


def _one_up(name):
    import re

    return re.sub(r"layer(\d)", lambda found: f"layer{int(found[1]) + 1}", name)


def test_every_data_set_brings_its_presets(task):
    assert {preset.data for preset in image_presets().values()} == {"digits", "mnist", "cifar10"}
    assert preset_for("cifar10").width == 16
    assert preset_for("a folder of mine").name == "digits"


def test_the_preset_of_the_data_set_is_the_default(task):
    trained = train_images(task, "coarse", recipe=RECIPE)
    assert trained.about["architecture"]["name"] == "convnet"
    assert trained.about["architecture"]["width"] == image_presets()["digits"].width
    assert trained.about["threads"] == torch.get_num_threads()
    assert "convnet of width 16 on digits, coarse labels" in repr(trained)


def test_networks_of_recipes_with_a_retired_field_are_still_good(task, tmp_path):
    import json

    train_images(task, "fine", tmp_path / "net", "convnet", 4, RECIPE)
    path = tmp_path / "net" / "meta.json"
    about = json.loads(path.read_text())
    del about["sha256"]  # version 0.1, which had the field, signed nothing
    for smoothing, good in ((0.0, True), (0.1, False)):
        about["recipe"]["smoothing"] = smoothing
        path.write_text(json.dumps(about))
        if good:
            train_images(task, "fine", tmp_path / "net", "convnet", 4, RECIPE)
        else:
            with pytest.raises(InputError, match="another recipe"):
                train_images(task, "fine", tmp_path / "net", "convnet", 4, RECIPE)


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "tpu", ""])
def test_a_device_that_is_not_here_is_refused(task, device):
    if torch.cuda.is_available() and device.startswith("cuda"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(InputError, match="device is"):
        train_module(network(task), task, "fine", RECIPE, device=device)


def test_features_of_nothing_that_is_known_are_refused(task):
    from featavg.paper.images.features import embed

    with pytest.raises(InputError, match="features is 'nothing'"):
        embed("nothing", task)
