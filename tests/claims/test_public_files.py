"""The files of public networks: missing ones are a command, other ones are refused."""

import hashlib
from pathlib import Path

import pytest

from featavg.errors import InputError
from featavg.paper.engine.claim import Context, NotRun
from featavg.paper.verification import networks
from featavg.paper.verification.networks import PublicFile


def test_a_public_file_is_checked(tmp_path: Path, monkeypatch) -> None:
    digest = hashlib.sha256(b"weights").hexdigest()
    monkeypatch.setattr(networks, "published", lambda: {"nets/models/net.pth": digest})
    file = PublicFile("someone/nets", "models/net.pth")
    run, path = Context(data_dir=tmp_path), tmp_path / "networks" / "nets" / "models" / "net.pth"
    with pytest.raises(NotRun, match=r"git clone --depth 1 https://github.com/someone/nets"):
        file.found(run)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    assert file.found(run) == path
    path.write_bytes(b"others")
    with pytest.raises(InputError, match="is not the file that was published"):
        file.found(run)


def test_every_public_file_has_its_sum() -> None:
    kinds = (networks.PublicNetwork, networks.PublicImages)
    held = [value for value in vars(networks).values() if isinstance(value, kinds)]
    held += [*networks.ERAN.values(), *networks.FOMLAS.values()]
    named = {
        f"{f.repository.split('/')[1]}/{f.path}" for f in [*networks.POWERS, *(f for one in held for f in one.files)]
    }
    assert named == set(networks.published())
