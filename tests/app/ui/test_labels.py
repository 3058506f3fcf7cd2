"""Labels on a picture: always readable, however many faces there are."""

from __future__ import annotations

import itertools

from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.ui.cards.labels import Area, arrange

WIDTH, HEIGHT = 1200, 500


@st.composite
def box(draw: st.DrawFn) -> Area:
    left, top = draw(st.floats(0, WIDTH - 2)), draw(st.floats(0, HEIGHT - 2))
    right, bottom = draw(st.floats(left + 1, WIDTH)), draw(st.floats(top + 1, HEIGHT))
    return left, top, right, bottom


def names(count: int) -> list[tuple[str, ...]]:
    """As a search gives them; every fifth face is a doubtful one that needs no label."""
    return [
        (f"{n} Maximiliane Wintermantel", f"{n} Maximilia…", str(n)) if n % 5 else ("?", "")
        for n in range(1, count + 1)
    ]


@given(st.lists(box(), max_size=40))
@example([(500.0, 200.0, 560.0, 270.0)] * 40)
@example([(0.0, 0.0, float(WIDTH), float(HEIGHT))] * 12)
@settings(max_examples=60, deadline=None)
def test_labels_never_meet_nor_leave_the_picture_and_every_number_is_shown(
    boxes: list[Area],
) -> None:
    texts = names(len(boxes))
    found = arrange(boxes, texts, WIDTH, HEIGHT, 25)
    for label, possible in zip(found.labels, texts, strict=True):
        assert label.text in possible
        left, top, right, bottom = label.area
        assert 0 <= left <= right <= WIDTH
        assert 0 <= top <= bottom <= HEIGHT
    shown = [label.area for label in found.labels if label.text]
    for one, other in itertools.combinations(shown, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert found.height == 25, "forty numbers have room at full size"


def test_twenty_faces_of_a_group_keep_their_names_and_their_faces_free() -> None:
    boxes = [
        (60.0 + 230 * (n % 5), 30.0 + 120 * (n // 5), 120.0 + 230 * (n % 5), 100.0 + 120 * (n // 5))
        for n in range(20)
    ]
    texts = [(f"{n} Ada Lovelace", f"{n} Ada", str(n)) for n in range(1, 21)]
    found = arrange(boxes, texts, WIDTH, HEIGHT, 25)
    assert [label.text for label in found.labels] == [each[0] for each in texts]
    for label, (left, top, right, bottom) in itertools.product(found.labels, boxes):
        x, y, until, low = label.area
        covered = max(0, min(until, right) - max(x, left)) * max(0, min(low, bottom) - max(y, top))
        assert covered < 0.25 * (right - left) * (bottom - top)


def test_a_name_without_room_is_shortened_before_it_is_hidden() -> None:
    boxes = [(100.0 * n, 100.0, 100.0 * n + 96, 196.0) for n in range(12)]
    texts = [(f"{n} Bartholomew Featherstone", f"{n} Bart", str(n)) for n in range(1, 13)]
    found = arrange(boxes, texts, WIDTH, 200, 25)
    used = {label.text for label in found.labels}
    assert used & {each[1] for each in texts}
    assert all(label.text.split()[0] == str(n) for n, label in enumerate(found.labels, 1))


def test_a_full_picture_has_smaller_labels() -> None:
    boxes = [(10.0, 10.0, 60.0, 60.0)] * 40
    texts = [(str(n),) for n in range(1, 41)]
    found = arrange(boxes, texts, 120, 120, 25)
    assert 0 < found.height < 25
    assert [label.text for label in found.labels] == [each[0] for each in texts]


def test_a_picture_thinner_than_a_label_has_one_all_the_same() -> None:
    found = arrange([(0.0, 0.0, 10.0, 20.0)], [("12",)], 4000, 20, 90)
    assert found.height <= 20
    assert found.labels[0].text == "12"
    assert arrange([], [], 100, 100, 10).labels == ()
