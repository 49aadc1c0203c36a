"""The tables that pages have from code are as the code says; what people wrote beside them is short."""

import pytest

from docs.tables import BLOCK, CODE, MADE, NO_PAGES, TABLES, meanings, with_tables, words
from tests.house.sources import FILES, text
from tests.house.test_links import DOCUMENTS

PAGES = {file: file.read_text(encoding="utf-8") for file in DOCUMENTS if file not in MADE | NO_PAGES}


@pytest.mark.requirement("N30")
def test_pages_have_the_tables_of_the_code():
    wrong = [file.name for file, page in PAGES.items() if with_tables(page) != page]
    assert wrong == [], "run: python -m docs.tables"
    assert sorted(found[2] for page in PAGES.values() for found in BLOCK.finditer(page)) == sorted(TABLES)


def test_each_code_of_an_error_has_a_meaning():
    written = {code for file in FILES for code in CODE.findall(text(file)) if f'"{code}"' in text(file)}
    assert written == meanings().keys()
    assert [code for code, meaning in meanings().items() if len(meaning.split()) < 3] == []


def test_what_people_wrote_can_be_read():
    assert sum(map(words, PAGES.values())) <= 15_000, "python -m docs.tables --words"
