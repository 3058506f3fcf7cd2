"""What the page's events answer, called without a browser."""

from __future__ import annotations

import csv
import re
import threading
from argparse import Namespace
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from app import auth
from app.auth import KeyStore
from app.service import FaceService
from app.ui.downloads import Downloads
from app.ui.tabs.enroll import EnrollTab
from app.ui.tabs.gallery import GalleryTab
from app.ui.tabs.model import ModelTab
from app.ui.tabs.pairs import PairsPart, plan
from app.ui.tabs.search import SearchTab
from app.ui.tabs.verify import VerifyTab
from app.ui.widgets.photo_picker import digest, picker_value, read_uploads
from app.usecases.progress import Cancelled
from app.usecases.results import Upload
from model.errors import FaceError
from tests.app.helpers import Photos, made_up_calibration

REQUEST = Namespace(username=None, session_hash="mine", query_params={})


def made(kind: type, *given: object) -> Any:
    """A tab on a page of its own."""
    with gr.Blocks() as page:
        if kind in (GalleryTab, ModelTab):
            with gr.Tab("its own") as own:
                return kind(page, own, *given)
        return kind(*given)


def clicked(**data: object) -> gr.EventData:
    return gr.EventData(None, {name: str(value) for name, value in data.items()})


def words(answer: dict[Any, Any]) -> str:
    return unescape(" ".join(map(str, answer.values())))


def test_an_enrollment_that_breaks_off_shows_what_it_has_stored(
    service: FaceService, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroll = FaceService.enroll

    def full(self: FaceService, name: str, uploads: list[Upload], **options: object) -> object:
        if uploads[0].name == "second.jpg":
            raise OSError("disk full")
        return enroll(self, name, uploads, **options)

    monkeypatch.setattr(FaceService, "enroll", full)
    tab = made(EnrollTab, service, service.settings)
    given = picker_value(
        [Upload("first.jpg", photos.hopper), Upload("second.jpg", photos.hopper_again)]
    )
    *_, last = tab.run("Grace", "", given, None, REQUEST)
    said = words(last)
    assert "Something went wrong" in said
    assert "first.jpg" in said
    assert "1 photo of 2 stored" in said
    assert "may be stored as well" in said
    assert [person.photos for person in service.named("Grace")] == [1]


def test_results_that_are_no_longer_kept_cannot_be_insisted_on(
    service: FaceService, photos: Photos
) -> None:
    tab = made(EnrollTab, service, service.settings)
    upload = Upload("a.jpg", photos.hopper)
    for act in ("insist", "face", "give", "leave"):
        event = clicked(act=act, photo=digest(upload), status="conflict", reason="x", face=1)
        assert "too old" in words(tab.act(picker_value([upload]), None, event, REQUEST))
    assert service.count() == 0


def enrolled(
    tab: EnrollTab, name: str, uploads: list[Upload], meant: str | None = None
) -> dict[Any, Any]:
    *_, last = tab.run(name, "", picker_value(uploads), meant, REQUEST)
    return last


def test_a_conflict_is_asked_twice_and_by_itself(service: FaceService, photos: Photos) -> None:
    tab = made(EnrollTab, service, service.settings)
    enrolled(tab, "Grace", [Upload("grace.jpg", photos.hopper)])
    clash, blank = Upload("clash.jpg", photos.hopper_again), Upload("blank.png", photos.nobody)
    first = enrolled(tab, "Eileen", [clash, blank])
    assert 'data-act="insist"' not in first[tab.result]
    assert tab.name not in first, "the name stays while a decision is open"
    # Only the photo that waits for a decision stays in the form.
    assert [each.name for each in read_uploads(first[tab.photos], service.settings)] == [
        "clash.jpg"
    ]
    value, photo = first[tab.photos], digest(clash)

    def act(answer: dict[Any, Any], **data: str) -> dict[Any, Any]:
        return tab.act(value, answer[tab.session], clicked(photo=photo, **data), REQUEST)

    forced = act(first, act="insist", status="conflict", reason="twins")
    assert service.named("Eileen") == [], "one click must not be enough"
    assert "twice" in words(forced)
    second = act(first, act="doubt")
    assert 'data-act="insist"' in second[tab.result]
    assert service.named("Eileen") == []
    assert "Give a reason" in words(act(second, act="insist", status="conflict", reason=" "))
    done = act(second, act="insist", status="conflict", reason="twins")
    assert service.named("Eileen")[0].photos == 1
    assert done[tab.name] == done[tab.photos] == "", "success empties the form"
    assert 'data-act="another"' in done[tab.result]
    note = service.photos(service.named("Eileen")[0].id)[0].note
    assert note == "conflict: twins"


def test_a_conflicting_photo_can_be_given_to_whom_it_shows(
    service: FaceService, photos: Photos
) -> None:
    tab = made(EnrollTab, service, service.settings)
    enrolled(tab, "Grace", [Upload("grace.jpg", photos.hopper)])
    (grace,) = service.named("Grace")
    clash = Upload("clash.jpg", photos.hopper_again)
    first = enrolled(tab, "Eileen", [clash])
    event = clicked(act="give", photo=digest(clash), person=grace.id)
    tab.act(first[tab.photos], first[tab.session], event, REQUEST)
    assert service.person(grace.id).photos == 2
    assert service.named("Eileen") == []


def test_a_photo_left_out_is_not_stored_and_not_asked_about_again(
    service: FaceService, photos: Photos
) -> None:
    tab = made(EnrollTab, service, service.settings)
    enrolled(tab, "Grace", [Upload("grace.jpg", photos.hopper)])
    clash = Upload("clash.jpg", photos.hopper_again)
    first = enrolled(tab, "Eileen", [clash])
    event = clicked(act="leave", photo=digest(clash))
    done = tab.act(first[tab.photos], first[tab.session], event, REQUEST)
    assert done[tab.photos] == ""
    assert "fv-decide" not in done[tab.result]
    assert service.count() == 1


def test_of_several_faces_the_clicked_one_is_stored(service: FaceService, photos: Photos) -> None:
    tab = made(EnrollTab, service, service.settings)
    both = Upload("both.jpg", photos.both)
    first = enrolled(tab, "Grace", [both])
    assert set(re.findall(r'data-face="(\d+)" data-act="face"', first[tab.result])) == {"1", "2"}
    event = clicked(act="face", photo=digest(both), face=1)
    done = tab.act(first[tab.photos], first[tab.session], event, REQUEST)
    assert done[tab.photos] == ""
    assert service.named("Grace")[0].photos == 1


def test_a_success_offers_more_photos_for_the_same_person_without_asking_who(
    service: FaceService, photos: Photos
) -> None:
    tab = made(EnrollTab, service, service.settings)
    done = enrolled(tab, "Grace", [Upload("grace.jpg", photos.hopper)])
    (grace,) = service.named("Grace")
    assert done[tab.same_name.group]["visible"] is False
    event = clicked(act="more", person=grace.id)
    more = tab.act("", done[tab.session], event, REQUEST)
    assert more[tab.name] == "Grace"
    assert more[tab.same_name.meant]["value"] == grace.id


def gallery_tab(service: FaceService, tmp_path: Path) -> GalleryTab:
    return made(GalleryTab, service, Downloads(tmp_path))


def test_renaming_to_a_name_that_exists_asks(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    for name, photo in (("Grace", photos.hopper), ("Eileen", photos.collins)):
        service.enroll(name, [Upload("a.jpg", photo)])
    (grace,) = service.named("Grace")
    tab = gallery_tab(service, tmp_path)
    asked = tab.act("", 120, grace.id, clicked(act="rename", name=" eileen "), REQUEST)
    assert service.person(grace.id).name == "Grace"
    assert 'data-act="do-rename"' in asked[tab.details]
    tab.act("", 120, grace.id, clicked(act="do-rename", value="Eileen"), REQUEST)
    assert service.person(grace.id).name == "Eileen"
    tab.act("", 120, grace.id, clicked(act="rename", name="Admiral"), REQUEST)
    assert service.person(grace.id).name == "Admiral"


def test_merging_shows_both_and_how_alike_they_are_first(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    ids = [
        service.enroll(name, [Upload("a.jpg", photo)], new_person=True).person_id
        for name, photo in (("Grace", photos.hopper), ("Eileen", photos.collins))
    ]
    tab = gallery_tab(service, tmp_path)
    found = tab.act("", 120, ids[0], clicked(act="find"), REQUEST)
    assert f'data-other="{ids[1]}"' in found[tab.details]
    asked = tab.act("", 120, ids[0], clicked(act="ask-merge", person=ids[0], other=ids[1]), REQUEST)
    assert asked[tab.details].count('class="fv-crop "') == 2
    assert "Different people" in asked[tab.details]
    assert service.count() == 2
    tab.act("", 120, ids[0], clicked(act="do-merge", person=ids[0], other=ids[1]), REQUEST)
    assert service.count() == 1
    # Now one of the two photos is unlike the other.
    shown = tab.show("", 120, ids[0], REQUEST)
    assert "Unlike the others" in shown[tab.details]
    *_, found = tab.look_over(REQUEST)
    assert "2 odd photos" in found[tab.notice]
    assert found[tab.notice].count('data-act="ask-remove"') == 2


def test_duplicates_in_the_gallery_are_found(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    overrides = {"conflict": "a test"}
    for name, photo in (("A", photos.hopper), ("B", photos.hopper_again), ("C", photos.collins)):
        service.enroll(name, [Upload("a.jpg", photo)], overrides=overrides)
    found = service.review()
    assert [{each.first.name, each.second.name} for each in found.duplicates] == [{"A", "B"}]
    assert found.duplicates[0].verdict.decision == "same"
    tab = gallery_tab(service, tmp_path)
    begun, *_, last = tab.look_over(REQUEST)
    assert "fv-progress" in begun[tab.notice]
    assert "1 possible duplicate" in last[tab.notice]


def test_a_review_can_be_stopped(service: FaceService, photos: Photos) -> None:
    service.enroll("Grace", [Upload("a.jpg", photos.hopper)])
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        service.review(cancel=stop)


def test_a_link_leads_to_a_person(service: FaceService, photos: Photos, tmp_path: Path) -> None:
    person = service.enroll("Grace", [Upload("a.jpg", photos.hopper)]).person_id
    tab = gallery_tab(service, tmp_path)
    linked = Namespace(username=None, session_hash="mine", query_params={"person": person})
    assert "Grace" in tab.arrive(linked)[tab.details]
    assert tab.arrive(REQUEST)[tab.details] == ""


def test_several_photos_give_one_table(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    service.enroll("Grace", [Upload("a.jpg", photos.hopper)])
    tab = made(SearchTab, service, service.settings, Downloads(tmp_path))
    given = [Upload("one.jpg", photos.both), Upload("two.jpg", photos.nobody)]
    *_, last = tab.run(picker_value(given), 0.01, REQUEST)
    said = last[tab.result]
    assert "2 photos, 1 known person" in said
    assert "No face was found" in said
    assert said.count("fv-search") == 1


def test_a_report_is_complete_in_itself(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    tab = made(VerifyTab, service, service.settings, Downloads(tmp_path))
    first, second = (
        picker_value([Upload("a.jpg", each)]) for each in (photos.hopper, photos.hopper_again)
    )
    event = clicked(act="report", note="Case <7>")
    (answer,) = tab.act(first, second, 1e-4, 0.0, (None, None), None, event, REQUEST)
    assert "data-fetch" in answer[tab.offered]
    (file,) = tmp_path.rglob("face-report.html")
    report = file.read_text()
    assert "Case &lt;7&gt;" in report
    assert "Same person" in report
    assert service.calibration().id in report
    assert not re.search(r'(src|href)="(?!data:)', report)


def pairs_part(service: FaceService, tmp_path: Path) -> PairsPart:
    return made(PairsPart, service, service.settings, Downloads(tmp_path), gr.Dropdown())


def test_many_pairs_give_one_table_a_csv_and_a_report(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    part = pairs_part(service, tmp_path)
    first = [Upload("=1.jpg", photos.hopper), Upload("b.jpg", photos.collins),
             Upload("alone.jpg", photos.hopper)]  # fmt: skip
    second = [Upload("=1.jpg", photos.hopper_again), Upload("b.jpg", photos.nobody)]
    *steps, last = part.run(picker_value(first), picker_value(second), "", 1e-4, REQUEST)
    assert "<progress" in steps[0][part.result]
    rows = last[part.rows]
    assert [row["decision"] or row["error"] for row in rows] == ["same", "no_face"]
    assert all(row["headline"] in unescape(last[part.result]) for row in rows)
    assert "alone.jpg" in last[part.result]
    for act in ("csv", "report"):
        assert "data-fetch" in part.act(rows, 1e-4, clicked(act=act, note="Case <7>"), REQUEST)
    (table,) = tmp_path.rglob("answers.csv")
    found = list(csv.DictReader(table.open(newline="")))
    assert [row["first"] for row in found] == ["'=1.jpg", "b.jpg"]
    assert [row["headline"] for row in found] == [row["headline"] for row in rows]
    (report,) = tmp_path.rglob("face-pairs.html")
    assert "Case &lt;7&gt;" in report.read_text()
    assert "no longer kept" in part.act(None, 1e-4, clicked(act="csv"), REQUEST)


def test_pairs_are_made_by_name_by_list_or_of_one_and_all() -> None:
    a, b, c = (Upload(name, name.encode()) for name in "abc")

    def shown(*given: object) -> list[tuple[str, str]]:
        return [(pair.first, pair.second) for pair in plan(*given)[1].values()]

    assert shown([a, b], [b, a, c]) == [("a", "a"), ("b", "b")]
    assert shown([a], [b, c]) == [("a", "b"), ("a", "c")]
    assert shown([a, b], [c], "first,second\na,c\nb,a\n") == [("a", "c"), ("b", "a")]
    for wrong in (([a, b], [c]), ([], [a]), ([a], []), ([a, a], [a]), ([a], [b], "a,d"),
                  ([a], [b], "a")):  # fmt: skip
        with pytest.raises(FaceError):
            plan(*wrong)


def test_pairs_stop_when_asked_and_show_what_is_answered(
    service: FaceService, photos: Photos, tmp_path: Path
) -> None:
    part = pairs_part(service, tmp_path)
    given = picker_value([Upload(f"{name}.jpg", photos.hopper) for name in "ab"])
    steps = part.run(given, given, "", 1e-4, REQUEST)
    next(steps)
    part.call_off(REQUEST)
    *_, last = steps
    assert "2 pairs are not answered" in last[part.result]
    assert last[part.rows] == []


def test_a_measurement_that_is_no_longer_kept_changes_nothing(service: FaceService) -> None:
    own = made_up_calibration(service.context.bundle, seed=1)
    service.activate(own)
    tab = made(ModelTab, service, service.settings)
    assert "Measure again" in words(tab.use_result(None, REQUEST))
    assert service.calibration().id == own.id
    assert "In use from now on" in words(tab.use_result(own.to_json(), REQUEST))
    tab.go_back(REQUEST)
    assert service.calibration().id == service.context.bundle.calibration.id


def test_folders_on_the_server_are_listed_for_admins_only(
    service: FaceService, tmp_path: Path
) -> None:
    (tmp_path / "own" / "Ann").mkdir(parents=True)
    tab = made(ModelTab, service, replace(service.settings, own_photos=tmp_path / "own"))
    keys = KeyStore(service.settings.keys_file)
    users = {scope: keys.login(scope, keys.add(scope, scope)) for scope in ("enroll", "admin")}

    def shown(scope: auth.Scope) -> dict:
        values = tab.show(Namespace(username=users[scope]))
        return {each.elem_id: value for each, value in values.items()}

    assert "choices" not in shown("enroll")["model-folder"]
    assert shown("enroll")["model-folder"]["visible"] is False
    assert shown("enroll")["model-own"]["visible"] is False
    assert shown("admin")["model-folder"]["choices"] == [("All of own", "."), "Ann"]
    assert shown("admin")["model-own"]["visible"] is True


def test_an_export_is_hidden_from_and_refused_to_all_but_admins(
    service: FaceService, tmp_path: Path
) -> None:
    tab = gallery_tab(service, tmp_path)
    keys = KeyStore(service.settings.keys_file)
    for scope, allowed in (("enroll", False), ("admin", True)):
        request = Namespace(username=keys.login(scope, keys.add(scope, scope)), query_params={})
        shown = tab.show("", 120, None, request)
        assert shown[tab.transfer.part]["visible"] is allowed
        said = unescape(tab.transfer.do_export(request))
        assert ("needs 'admin'" in said) is not allowed
