"""The catalogue of operations is what the table says, and the table's words cover all of it."""

import importlib
import sys

from pages import ROOT

from pypto.language import ops
from pypto.language.ops import wording

sys.path.insert(0, str(ROOT / "tools"))
operations_doc = importlib.import_module("operations_doc")

SUPPORTED = [op for op in ops.ALL if op.supported]
USED = {(op.name, param.name) for op in SUPPORTED for form in op.forms.values() for param in form.params}


def test_the_catalogue_is_what_the_table_says() -> None:
    assert operations_doc.PAGE.read_text() == operations_doc.page(), "run tools/operations_doc.py"


def test_the_catalogue_has_each_spelling_of_each_operation() -> None:
    page = operations_doc.page()
    for op in ops.ALL:
        for form in op.forms.values():
            call = f"`{form.spelling}({form.text})`"
            prefix = f"`{form.spelling.removesuffix(form.name)}`"
            assert call in page or any(
                f"`{other.spelling}({form.text})` and" in line and prefix in line
                for other in op.forms.values()
                for line in page.splitlines()
            ), call


def test_there_are_words_for_each_rule_and_each_parameter_and_for_nothing_else() -> None:
    assert set(wording.SHAPES) == {op.rule for op in SUPPORTED}
    assert set(wording.OF_ONE) - USED == set()
    general = {name.strip("*") for op, name in USED if (op, name) not in wording.OF_ONE}
    assert set(wording.PARAMETERS) == general
