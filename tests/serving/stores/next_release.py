"""A release that does not exist yet: its stores have one more step in their schema."""

from __future__ import annotations

import pytest


def add_step(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, a store of this kind has one more step."""
    if url.startswith("file:"):
        from lorentzrec.serving.stores import file_store

        monkeypatch.setattr(file_store, "SCHEMA", (*file_store.SCHEMA, "CREATE TABLE later (number INTEGER)"))
    elif url.startswith("postgresql:"):
        from lorentzrec.serving.stores import postgres_schema

        step = "CREATE TABLE lorentzrec.later (number integer)"
        monkeypatch.setattr(postgres_schema, "MIGRATIONS", (*postgres_schema.MIGRATIONS, step))
    else:
        from lorentzrec.serving.stores import cosmos_store

        def add_document(store: cosmos_store.CosmosStore) -> None:
            store._catalogue.put({"id": "later", "place": "later"})

        monkeypatch.setattr(cosmos_store, "MIGRATIONS", (*cosmos_store.MIGRATIONS, add_document))
