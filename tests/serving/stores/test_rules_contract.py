"""What every store guarantees for rules: one document at a time, and a log of its changes."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores import cosmos_store, rules, sql_store
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.rules import RuleChange
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.upkeep.backup import restore_backup, write_backup
from tests.serving.stores.raises_fault import raises_fault

CHANGES = """
import sys
from lorentzrec.serving.stores.address import open_store

store = open_store(sys.argv[1])
for number in range(1, 10_000):
    print(store.set_rules(f'"{number}"' * 1_000, reason=f"number {number}").revision, flush=True)
"""


def test_a_new_store_has_no_rules(store: Store) -> None:
    assert store.rules() is None
    assert store.rules_log() == []
    assert store.state().rules_revision == 0
    with raises_fault(StoreFault.NO_RULES, "rules of revision 1"):
        store.rules(1)


def test_rules_are_replaced_and_every_change_is_kept(store: Store, url: str) -> None:
    first = store.set_rules('{"rules": 1}')
    second = store.set_rules('{"rules": "é😀"}', reason="spring", who="Ann")
    assert (first.revision, first.reason, first.who) == (1, "changed", None)
    assert (second.revision, second.reason, second.who) == (2, "spring", "Ann")
    assert second.time >= first.time
    with closing(open_store(url)) as other:
        assert other.rules() == second
        assert other.rules(1) == first
        assert other.rules_log() == [replace(second, document=None), replace(first, document=None)]
        assert other.state().rules_revision == 2
        with raises_fault(StoreFault.NO_RULES, "rules of revision 3"):
            other.rules(3)


def test_a_change_of_rules_that_were_changed_meanwhile_is_refused(store: Store) -> None:
    store.set_rules("1", instead_of=0)
    with raises_fault(StoreFault.OTHER_RULES, "the rules have revision 1 by now, not 0"):
        store.set_rules("2", instead_of=0)
    store.set_rules("2", instead_of=1)
    found = store.rules()
    assert found is not None
    assert (found.revision, found.document) == (2, "2")


def test_a_reason_or_a_name_that_cannot_be_kept_is_refused(store: Store) -> None:
    for reason, who in (("", None), ("two\nlines", None), ("spring", "x" * 201)):
        with pytest.raises(InputError):
            store.set_rules("1", reason=reason, who=who)
    assert store.rules() is None


def test_a_long_document_is_kept(store: Store) -> None:
    document = "".join(f'"é{number}"' for number in range(200_000))
    store.set_rules(document)
    found = store.rules()
    assert found is not None
    assert found.document == document


def test_old_documents_are_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rules, sql_store, cosmos_store):
        monkeypatch.setattr(module, "KEPT_DOCUMENTS", 2)
    for number in range(1, 5):
        store.set_rules(str(number))
    assert [change.revision for change in store.rules_log()] == [4, 3, 2, 1]
    assert [store.rules(number).document for number in (3, 4)] == ["3", "4"]  # type: ignore[union-attr]
    for number in (1, 2):
        with raises_fault(StoreFault.NO_RULES):
            store.rules(number)
    store.clean()
    assert store.rules(3) is not None


def test_changes_at_the_same_time_all_count(store: Store, url: str) -> None:
    def change(number: int) -> RuleChange:
        with closing(open_store(url)) as other:
            return other.set_rules(str(number), reason=f"number {number}")

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(change, range(12)))
    assert sorted(one.revision for one in made) == [*range(1, 13)]
    for one in made:
        assert store.rules(one.revision) == one


def test_rules_survive_the_death_of_the_process_that_changes_them(store: Store, url: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", CHANGES, url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(5):
        acknowledged = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    process.wait()
    process.stdout.close()
    found = store.rules()
    assert found is not None
    assert found.revision in (acknowledged, acknowledged + 1)
    assert found.document == f'"{found.revision}"' * 1_000
    assert len(store.rules_log()) == found.revision
    assert store.rules(acknowledged) is not None
    assert store.set_rules("1").revision == found.revision + 1


def test_a_backup_has_the_rules(store: Store, tmp_path: Path) -> None:
    store.set_rules("1", who="Ann")
    store.set_rules("2")
    write_backup(store, tmp_path / "backup")
    restored = f"file:{tmp_path / 'restored'}"
    restore_backup(tmp_path / "backup", restored)
    with closing(open_store(restored)) as other:
        assert [other.rules(number) for number in (1, 2)] == [store.rules(number) for number in (1, 2)]
        assert other.state().rules_revision == 2
