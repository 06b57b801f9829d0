"""Model files that are damaged, forged or worse are refused by name, and nothing in them runs."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from models.promotion import promote, quarantine, rollback
from models.store import ModelStore, write_whole
from models.store_files import FILE_BYTES, files_in, read_npz, write_npz
from models.store_recipes import load_champion
from models.store_records import Event
from models.store_trees import check_trees
from telemetry.errors import IncompatibleModel
from tests.kit.trained_models import NAME, booster, context, losses, publish

RAN: list[str] = []


class _Bomb:
    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return RAN.append, ("ran",)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return booster(tmp_path_factory.mktemp("fitted") / "gbdt")


@pytest.fixture
def promoted(tmp_path: Path, fitted: Path) -> tuple[ModelStore, Path]:
    store = ModelStore(tmp_path / "models")
    version = publish(store, losses(0.5, 0.6), fitted)
    promote(store, NAME, version, now_s=1.0)
    return store, store.folder(NAME, version)


def _forge(store: ModelStore, folder: Path) -> None:
    """Make manifest and pointer agree with what lies there, as somebody who may write the folder could."""
    from models.store_files import digest

    told = json.loads((folder / "manifest.json").read_text())
    told["files"] = {name: {"sha256": sha, "bytes": size} for name, (sha, size) in files_in(folder).items()}
    (folder / "manifest.json").write_text(json.dumps(told))
    pointer = json.loads((folder.parent / "champion.json").read_text())
    pointer["manifest_sha256"] = digest(folder / "manifest.json")
    write_whole(folder.parent / "champion.json", json.dumps(pointer))


def test_a_good_one_loads_and_answers(promoted: tuple[ModelStore, Path]) -> None:
    """The champion comes to life and keeps the laws of a forecast."""
    champion = load_champion(promoted[0], NAME)

    assert champion is not None
    cube = champion.served.predict(context(), 12)
    assert np.isfinite(cube).all()
    assert (np.diff(cube, axis=-1) >= 0).all()


def _damage(folder: Path) -> None:
    with (folder / "gbdt" / "q0.5.txt").open("a") as stream:
        stream.write(" ")


def _foreign(folder: Path) -> None:
    (folder / "gbdt" / "more.txt").write_text("tree\n")


def _missing(folder: Path) -> None:
    (folder / "gbdt" / "q0.5.txt").unlink()


def _link(folder: Path) -> None:
    (folder / "gbdt" / "q0.5.txt").unlink()
    (folder / "gbdt" / "q0.5.txt").symlink_to("/etc/hostname")


def _oversized(folder: Path) -> None:
    with (folder / "gbdt" / "q0.5.txt").open("r+b") as stream:
        stream.truncate(FILE_BYTES + 1)


def _forged_manifest(folder: Path) -> None:
    told = json.loads((folder / "manifest.json").read_text())
    told["seed"] = 5
    (folder / "manifest.json").write_text(json.dumps(told))


def _newer(folder: Path) -> None:
    told = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**told, "format": 2}))


def _pickled_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(pickle.dumps(_Bomb()))


def _deep(folder: Path) -> None:
    (folder / "manifest.json").write_text("[" * 100_000)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_damage, "q0.5.txt was changed"),
        (_foreign, "more.txt is foreign"),
        (_missing, "q0.5.txt is missing"),
        (_link, "q0.5.txt is foreign"),
        (_oversized, "q0.5.txt has 33554433 bytes"),
        (_forged_manifest, "manifest.json was changed since"),
        (_newer, "is of format 2, this gpucast reads 1"),
        (_pickled_manifest, "manifest.json is a pickle"),
        (_deep, "manifest.json is not JSON"),
    ],
)
def test_refused_by_name(promoted: tuple[ModelStore, Path], harm: Callable[[Path], None], words: str) -> None:
    """Each kind of harm is refused with the file's name and what is wrong."""
    store, folder = promoted
    harm(folder)

    with pytest.raises(IncompatibleModel, match=words):
        load_champion(store, NAME)
    assert RAN == []


def _pickled(folder: Path) -> None:
    (folder / "gbdt" / "q0.5.txt").write_bytes(pickle.dumps(_Bomb()))


def _round(folder: Path) -> None:
    text = (folder / "gbdt" / "q0.5.txt").read_text()
    line = next(line for line in text.splitlines() if line.startswith("left_child="))
    (folder / "gbdt" / "q0.5.txt").write_text(text.replace(line, "left_child=0" + line[len("left_child=1") :], 1))


def _outside(folder: Path) -> None:
    text = (folder / "gbdt" / "q0.5.txt").read_text()
    line = next(line for line in text.splitlines() if line.startswith("split_feature="))
    (folder / "gbdt" / "q0.5.txt").write_text(text.replace(line, "split_feature=999" + line[line.index(" ") :], 1))


def _other_kind(folder: Path) -> None:
    (folder / "gbdt" / "q0.5.txt").rename(folder / "gbdt" / "q0.5.pkl")


def _far(folder: Path) -> None:
    told = json.loads((folder / "gbdt" / "model.json").read_text())
    told["state"]["horizon"] = 10**9
    (folder / "gbdt" / "model.json").write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (_pickled, "is a pickle"),
        (_round, "goes round or outside|lacks splits"),
        (_outside, "does not exist"),
        (_other_kind, "no artefact of ours"),
        (_far, "changed since it was saved|anchors"),
    ],
)
def test_refused_though_every_digest_fits(
    promoted: tuple[ModelStore, Path], harm: Callable[[Path], None], words: str
) -> None:
    """Somebody who can forge digests still cannot make the service run or walk outside of anything."""
    store, folder = promoted
    harm(folder)
    if harm not in (_far,):
        told = json.loads((folder / "gbdt" / "model.json").read_text())
        own = {
            name.removeprefix("gbdt/"): sha for name, (sha, _) in files_in(folder).items() if name.startswith("gbdt/q")
        }
        (folder / "gbdt" / "model.json").write_text(json.dumps({**told, "sha256": own}))
    _forge(store, folder)

    with pytest.raises(IncompatibleModel, match=words):
        load_champion(store, NAME)
    assert RAN == []


def test_an_npz_of_objects_is_refused(tmp_path: Path) -> None:
    """Arrays of Python objects would be pickles."""
    path = tmp_path / "x.npz"
    np.savez(path, a=np.array([_Bomb()], dtype=object))

    with pytest.raises(IncompatibleModel, match=r"x\.npz cannot be read"):
        read_npz(path)
    assert RAN == []


def test_an_npz_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    """A small file may hold a large one; its size is told before it is read."""
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed, packed.open("a.npy", "w") as stream:
        for _ in range(65):
            stream.write(bytes(1 << 20))

    assert path.stat().st_size < 1 << 20
    with pytest.raises(IncompatibleModel, match="unpacks to more"):
        read_npz(path)


def test_npz_bytes_repeat(tmp_path: Path) -> None:
    """The same arrays give the same file, and come back."""
    arrays = {"b": np.arange(5.0), "a": np.eye(2)}
    for name in ("x", "y"):
        write_npz(tmp_path / f"{name}.npz", arrays)

    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    np.testing.assert_array_equal(read_npz(tmp_path / "x.npz")["a"], np.eye(2))


def test_cut_text_of_trees_is_refused(fitted: Path, tmp_path: Path) -> None:
    """A text cut anywhere inside its trees is never handed to LightGBM."""
    text = (fitted / "q0.5.txt").read_text()
    check_trees(fitted / "q0.5.txt")
    for share in (0.02, 0.2, 0.4, 0.6):
        cut = tmp_path / "cut.txt"
        cut.write_text(text[: int(share * text.index("end of trees"))])
        with pytest.raises(IncompatibleModel, match=r"cut\.txt"):
            check_trees(cut)
    assert io.StringIO(text).readline() == "tree\n"


@pytest.mark.parametrize(
    "change",
    [
        {"seed": float("inf")},
        {"created_s": 10**400},
        {"created_s": float("nan")},
        {"created_s": 1e15},
        {"files": {"a.txt": {"sha256": "", "bytes": float("inf")}}},
        {"figures": {}},
    ],
)
def test_a_manifest_of_absurd_numbers_is_named(promoted: tuple[ModelStore, Path], change: dict[str, object]) -> None:
    """Numbers that no clock or count gives make a version unreadable, and nothing else fails."""
    store, folder = promoted
    told = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**told, **change}))

    shelf = store.shelf(NAME)
    assert shelf.versions == ()
    assert "is no manifest" in shelf.unreadable[folder.name]


@pytest.mark.parametrize("since", [10**400, float("nan"), -1.0, "now"])
def test_a_pointer_of_an_absurd_time_is_named(promoted: tuple[ModelStore, Path], since: object) -> None:
    """The champion's file is at fault and is said to be."""
    store, folder = promoted
    path = folder.parent / "champion.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "since_s": since}))

    with pytest.raises(IncompatibleModel, match=r"champion\.json is no pointer"):
        load_champion(store, NAME)


def test_links_are_no_versions_and_no_pointers(promoted: tuple[ModelStore, Path], tmp_path: Path) -> None:
    """A link among the versions, dangling or out of the store, is named; one in place of the pointer is refused."""
    store, folder = promoted
    outside = folder.rename(tmp_path / folder.name)
    folder.symlink_to(outside)
    (folder.parent / ("1" * 16)).symlink_to(tmp_path / "nothing")

    shelf = store.shelf(NAME)
    assert set(shelf.unreadable) == {folder.name, "1" * 16}
    assert all("is a link" in why for why in shelf.unreadable.values())
    with pytest.raises(IncompatibleModel, match="is a link"):
        load_champion(store, NAME)
    (folder.parent / "champion.json").unlink()
    (folder.parent / "champion.json").symlink_to(tmp_path / "nothing")
    with pytest.raises(IncompatibleModel, match=r"champion\.json is missing or no plain file"):
        load_champion(store, NAME)


def test_a_torn_line_takes_no_other_event_with_it(tmp_path: Path) -> None:
    """A crash in the middle of an event loses that event alone; lines that are no events are left out."""
    store = ModelStore(tmp_path)
    store.tell(NAME, Event(1.0, "trained", "a", "first"))
    path = tmp_path / NAME / "events.jsonl"
    bad = (b"[" * 100_000, b'{"at_s": NaN, "kind": "trained", "version": "a", "reason": "b"}', b'{"at_s": 1}', b"\xff")
    path.write_bytes(path.read_bytes() + b"\n".join(bad) + b'\n{"at_s": 2, "ki')
    store.tell(NAME, Event(3.0, "promoted", "a", "third"))

    assert [event.at_s for event in store.events(NAME)] == [1.0, 3.0]
    assert path.read_bytes().endswith(b'"version": "a"}\n')


def test_a_damaged_list_of_the_barred_bars_all(promoted: tuple[ModelStore, Path]) -> None:
    """Nobody knows which versions may not serve, so none does and none is promoted; the built-in models may."""
    store, folder = promoted
    (folder.parent / "quarantined.json").write_text('{"a')

    assert "quarantined.json is not JSON" in store.shelf(NAME).unreadable["quarantined.json"]
    for refused in (
        lambda: load_champion(store, NAME),
        lambda: promote(store, NAME, folder.name, now_s=2.0),
        lambda: quarantine(store, NAME, folder.name, now_s=2.0, why="test"),
    ):
        with pytest.raises(IncompatibleModel, match="which versions may not serve is unknown"):
            refused()
    assert (folder.parent / "quarantined.json").read_text() == '{"a'
    assert rollback(store, NAME, now_s=2.0, why="test") == ""


@pytest.mark.parametrize("harm", [_damage, _missing, _deep, lambda folder: (folder / "manifest.json").unlink()])
def test_training_again_mends_a_damaged_version(
    promoted: tuple[ModelStore, Path], fitted: Path, harm: Callable[[Path], None]
) -> None:
    """What a person is told to do helps: the same version is published whole in place of the damaged one."""
    store, folder = promoted
    harm(folder)
    publish(store, losses(0.5, 0.6), fitted)

    assert store.checked(NAME, folder.name)[0] == folder
