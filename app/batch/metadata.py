"""People's metadata from a source: consent and further columns of a CSV.

The first value wins; conflicts are reported. A list is often old or filled in by machine, so it
never replaces a stored value. A consent typed for one person does replace the stored one; see
:func:`app.usecases.enroll.store`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.batch.report import Line
from app.batch.sources import Item, Key
from index.crypto.keys import name_key
from index.gallery import Gallery


def joined(items: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """Give each item the metadata of all rows of its person; also returns conflict messages."""
    people: dict[str, dict[str, Any]] = {}
    told: list[str] = []
    for item in items:
        told += _add(people.setdefault(name_key(item.name), {}), item)
    complete = [_with_facts(item, people[name_key(item.name)]) for item in items]
    return complete, list(dict.fromkeys(told))


def fill(gallery: Gallery, items: Sequence[Item], lines: Mapping[Key, Line]) -> list[str]:
    """Add missing metadata to the people in the gallery.

    Args:
        items: From :func:`joined`.
        lines: Report lines of the items; only people with a stored photo are updated.

    Returns:
        One message for each value that differs from the stored one.
    """
    people = {
        lines[item.key].person_id: item
        for item in items
        if (item.consent or item.metadata) and item.key in lines and lines[item.key].stored
    }
    told: list[str] = []
    with gallery.batch():
        for person_id, person in gallery.reader.get_many(list(people)).items():
            facts = {"consent": person.consent, **person.metadata}
            before = dict(facts)
            told += _add(facts, people[person_id])
            if facts != before:
                consent = facts.pop("consent")
                gallery.update(person_id, metadata=facts, consent=consent)
    return told


def _add(known: dict[str, Any], item: Item) -> list[str]:
    """Add the item's metadata that ``known`` lacks; returns one message per conflict."""
    told = []
    for fact, value in {"consent": item.consent, **item.metadata}.items():
        known[fact] = known.get(fact) or value
        if value and known[fact] != value:
            told.append(f"{item.name} keeps the {fact} {known[fact]!r}, not {value!r}.")
    return told


def _with_facts(item: Item, facts: Mapping[str, str]) -> Item:
    others = {fact: value for fact, value in facts.items() if fact != "consent"}
    return replace(item, consent=facts["consent"], metadata=others)
