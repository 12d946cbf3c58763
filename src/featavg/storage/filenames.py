"""Refuses names that no file can have, before anything is read or written."""

from __future__ import annotations

import os

from featavg.errors import InputError

_NAME, _PATH = 255, 4095  # bytes, on every file system in use


def check_file_name(argument: str, path: str | os.PathLike[str]) -> None:
    """Refuse a zero byte, and what is too long.

    >>> check_file_name("out", "a" * 300)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: out has a name that is too long: give a shorter one.
    """
    try:
        data = os.fsencode(path)
    except UnicodeEncodeError:
        raise InputError(
            argument, "has a letter that no file name can have", "give plain letters"
        ) from None
    if b"\0" in data:
        raise InputError(argument, "has a zero byte", "give the name of a file or folder")
    if len(data) > _PATH or max(map(len, data.split(b"/"))) > _NAME:
        raise InputError(argument, "has a name that is too long", "give a shorter one")
