"""No garbage is looked for while packages are imported."""

from __future__ import annotations

import gc

import pytest

from pipeline.models.factory import pause_collection


def test_collection_goes_on_after_an_import_also_where_it_fails() -> None:
    with pause_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), pause_collection():
        raise ImportError
    assert gc.isenabled()


def test_who_has_switched_collection_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with pause_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
