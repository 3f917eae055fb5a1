"""What of a docstring becomes the description, what belongs to parameters, and what is left out."""

from __future__ import annotations

import pytest

from surehand.tools._docstring import DocText, read_docstring


def test_a_docstring_in_no_known_style_stays_whole() -> None:
    text = "Do things:\n\n- one: a\n- two: b\n\nUsage:\n  call it\n\n:class:`Foo` and @somebody are mentioned."
    assert read_docstring(text) == DocText(text, {})


@pytest.mark.parametrize("heading", ["Args", "Arguments", "Parameters", "Params", "Other Parameters", "Keyword Args"])
def test_every_google_heading_about_parameters_is_read(heading: str) -> None:
    assert read_docstring(f"Do.\n\n{heading}:\n    a: One.\n") == DocText("Do.", {"a": "One."})


@pytest.mark.parametrize("heading", ["Parameters", "Other Parameters", "Parameters:"])
def test_every_numpy_heading_about_parameters_is_read(heading: str) -> None:
    text = f"Do.\n\n{heading}\n----------\na, b : int, optional\n    Both.\n**rest\n    More.\n"
    assert read_docstring(text) == DocText("Do.", {"a": "Both.", "b": "Both.", "rest": "More."})


@pytest.mark.parametrize(
    "line",
    [":param a: One.", ":param int a: One.", ":arg a: One.", ":keyword a: One.", "@param a: One.", "@keyword a: One."],
)
def test_every_field_about_parameters_is_read(line: str) -> None:
    assert read_docstring(f"Do.\n\n{line}\n:type a: int\n:rtype: int\n") == DocText("Do.", {"a": "One."})


@pytest.mark.parametrize(
    "line",
    [
        "a: One.", "a (int): One.", "a (dict[str, int], optional): One.", "*a: One.", "\\*\\*a: One.", "- a: One.",
    ],
)  # fmt: skip
def test_an_entry_of_a_google_section_may_be_written_in_many_ways(line: str) -> None:
    assert read_docstring(f"Do.\n\nArgs:\n    {line}\n") == DocText("Do.", {"a": "One."})


def test_a_description_keeps_colons_paragraphs_lists_and_indentation() -> None:
    text = """Do.

    Args:
        a: One of: these.

            - fast: quick
            - slow:
                careful
        b: Two.
    """
    assert read_docstring(text).parameters == {
        "a": "One of: these.\n\n- fast: quick\n- slow:\n    careful",
        "b": "Two.",
    }


@pytest.mark.parametrize("heading", ["Returns", "Yields", "Raises", "Examples"])
def test_sections_about_results_errors_and_examples_are_left_out(heading: str) -> None:
    text = f"Do.\n\n{heading}:\n    ValueError: Something.\n\nMore prose."
    assert read_docstring(text) == DocText("Do.\n\nMore prose.", {})
    assert read_docstring(f"Do.\n\n{heading}\n-------\nSomething\n    More.\n") == DocText("Do.", {})


def test_words_like_headings_in_prose_stay() -> None:
    text = "Do.\n\nReturns: the thing.\nExample: do it.\n\nNote:\n    It is slow.\n\nArgs:\n    a: One.\n"
    assert read_docstring(text) == DocText(
        "Do.\n\nReturns: the thing.\nExample: do it.\n\nNote:\n    It is slow.", {"a": "One."}
    )


def test_a_numpy_section_that_is_not_about_parameters_stays() -> None:
    text = "Do.\n\nNotes\n-----\nIt is slow.\n\nParameters\n----------\na\n    One.\n"
    assert read_docstring(text) == DocText("Do.\n\nNotes:\n    It is slow.", {"a": "One."})


def test_a_docstring_that_begins_with_a_section_has_no_description() -> None:
    def act(a: int) -> None:
        """Args:
        a: One.
            Still one.
        """

    assert read_docstring(act.__doc__) == DocText(None, {"a": "One.\nStill one."})


def test_the_continuation_of_a_field_need_not_be_indented() -> None:
    text = "Do.\n\n:param a: One,\ntwo.\n\n    Three.\n:raises ValueError: if not\n    so.\n"
    assert read_docstring(text) == DocText("Do.", {"a": "One,\ntwo.\n\n    Three."})


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing_is_described_by_nothing(text: str | None) -> None:
    assert read_docstring(text) == DocText(None, {})
