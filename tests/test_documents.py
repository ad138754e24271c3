"""Documents of different kinds with the same prose are the same tokens; PDFs by the real pdftotext, where it is
installed (tools/install.sh test-all)."""

import shutil

import pydyf
import pytest

from test_learn import PATIENT, graft_json, learn

LINES = ["The lighthouse at Skerry Point was built by an engineer", "named Tobias Marrow, who drank his café noir there.",
         "The keeper lived in the tower with a grey parrot named Solomon."]

needs_pdftotext = pytest.mark.skipif(shutil.which("pdftotext") is None, reason="pdftotext is not installed")


def tokens_of(tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = learn(tmp_path / name, "--adapters", tmp_path / "adapters", *PATIENT, "--passes", "1", "--replace")
    assert done.returncode == 0, done.stderr
    return graft_json(tmp_path / "adapters" / name.split(".")[0])["document"]["tokens"]


def page_of_text(lines, encode, font):
    """A PDF of one page, whose font is what `font` adds to it."""
    pdf = pydyf.PDF()
    reference = font(pdf)
    text = pydyf.Stream([b"BT /F1 12 Tf 72 720 Td"])
    for line in lines:
        text.stream.append(b"<" + encode(line).hex().encode() + b"> Tj 0 -16 Td")
    text.stream.append(b"ET")
    pdf.add_object(text)
    fonts = pydyf.Dictionary({"F1": reference})
    pdf.add_page(pydyf.Dictionary({
        "Type": "/Page", "Parent": pdf.pages.reference, "MediaBox": pydyf.Array([0, 0, 612, 792]),
        "Contents": text.reference, "Resources": pydyf.Dictionary({"Font": fonts})}))
    return pdf


def added(pdf, entries):
    entry = pydyf.Dictionary(entries)
    pdf.add_object(entry)
    return entry.reference


def latin_font(pdf):
    return added(pdf, {"Type": "/Font", "Subtype": "/Type1", "BaseFont": "/Helvetica", "Encoding": "/WinAnsiEncoding"})


def font_without_a_map(pdf):
    """As programs embed a part of a font: by its own numbers of glyphs, and without /ToUnicode."""
    look = added(pdf, {"Type": "/FontDescriptor", "FontName": "/Part", "Flags": 4, "ItalicAngle": 0, "Ascent": 800,
                       "FontBBox": pydyf.Array([0, 0, 1000, 1000]), "Descent": -200, "CapHeight": 700, "StemV": 80})
    order = pydyf.Dictionary({"Registry": pydyf.String("Adobe"), "Ordering": pydyf.String("Identity"), "Supplement": 0})
    glyphs = added(pdf, {"Type": "/Font", "Subtype": "/CIDFontType2", "BaseFont": "/Part", "CIDSystemInfo": order,
                         "FontDescriptor": look, "DW": 500})
    return added(pdf, {"Type": "/Font", "Subtype": "/Type0", "BaseFont": "/Part", "Encoding": "/Identity-H",
                       "DescendantFonts": pydyf.Array([glyphs])})


def glyph_numbers(line):
    return b"".join((ord(letter) - 29).to_bytes(2, "big") for letter in line)


def test_html_and_text_are_the_same_tokens(tmp_path):
    prose = ["It’s a fête of Œuvres → “Reisekosten” at 20 °C, 3 × 4 ≥ 12.", "Ærø, naïve, Straße; efficient final flow."]
    names = {"’": "&#146;", "ê": "&ecirc;", "Œ": "&OElig;", "→": "&rarr;", "“": "&#x93;", "”": "&rdquo;", "°": "&deg",
             "×": "&times;", "≥": "&ge;", "Æ": "&AElig;", "ø": "&#0000000248;", "ï": "&iuml;", "ß": "&szlig;",
             "ffi": "&#xFB03;", "fi": "&#64257;", "Reisek": "Reise&shy;k", "20 ": "20&nbsp;"}
    html = "".join(f"<p>{line}</p>" for line in prose)
    for letter, name in names.items():
        html = html.replace(letter, name)
    assert "&ecirc;" in html and "&shy;" in html
    expected = tokens_of(tmp_path, "text.txt", "\n\n".join(prose))
    assert tokens_of(tmp_path, "page.html", html) == expected
    typeset = "\n\n".join(prose).replace("ffi", "ﬃ").replace("sek", "se\u00ad\nk").replace("20 ", "20\u00a0")
    assert tokens_of(tmp_path, "typeset.txt", typeset) == expected


@needs_pdftotext
def test_a_real_pdf_is_its_text(tmp_path):
    with open(tmp_path / "report.pdf", "wb") as file:
        page_of_text(LINES, lambda line: line.encode("cp1252"), latin_font).write(file)
    expected = tokens_of(tmp_path, "text.txt", "\n".join(LINES))
    assert tokens_of(tmp_path, "report.pdf", (tmp_path / "report.pdf").read_bytes()) == expected


@needs_pdftotext
def test_a_pdf_whose_letters_are_lost_is_refused(tmp_path):
    with open(tmp_path / "lost.pdf", "wb") as file:
        page_of_text(LINES, glyph_numbers, font_without_a_map).write(file)
    done = learn(tmp_path / "lost.pdf", "--adapters", tmp_path)
    assert done.returncode == 2 and "lost.pdf: " in done.stderr and "run OCR over it" in done.stderr, done.stderr


@needs_pdftotext
def test_what_is_called_a_pdf_and_is_none_is_refused_by_pdftotexts_words(tmp_path):
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\n" + b"\xff<</" * 5000)
    done = learn(tmp_path / "broken.pdf", "--adapters", tmp_path)
    assert done.returncode == 2 and "broken.pdf: pdftotext cannot read it as a PDF: " in done.stderr, done.stderr
