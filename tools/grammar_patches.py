#!/usr/bin/env python3
"""What Graft changes in XGrammar's sources before it builds them (tools/grammar.sh): grammar_patches.py FOLDER."""

import pathlib
import sys

INCLUDE = '#include "grammar/grammar_work.h"\n'
PATCHES = {
    # Strings of a given length may hold control characters as they are, which JSON forbids: they get the class that other
    # strings have. And a pattern that its automata cannot follow is an error, instead of being expanded with quotation
    # marks and all.
    "json_schema_converter.cc": [
        ("builder_.AddCharacterClass({{'\"', '\"'},", "builder_.AddCharacterClass({{0, 0x1f}, {'\"', '\"'},"),
        ("  // Keep regex conversion independent.",
         "  XGRAMMAR_CHECK(!json_string) << \"the pattern \" << regex << \" matches no JSON string\";\n\n"
         "  // Keep regex conversion independent."),
    ],
    # Surrogates are no characters: their bytes are no UTF-8.
    "fsm_builder.cc": [
        ("  // Ensure max and min are valid unicode value.\n",
         "  constexpr uint32_t kSurrogates[] = {0xEDA080, 0xEDBFBF};\n"
         "  if (min <= kSurrogates[1] && max >= kSurrogates[0]) {\n"
         "    if (min < kSurrogates[0]) AddPackedUTF8RangeEdges(fsm, from, to, min, 0xED9FBF);\n"
         "    if (max > kSurrogates[1]) AddPackedUTF8RangeEdges(fsm, from, to, 0xEE8080, max);\n"
         "    return;\n"
         "  }\n"
         "  // Ensure max and min are valid unicode value.\n"),
    ],
    # A range over characters of several lengths begins at the least of each length, so that no character is written in
    # more bytes than it needs, and ends at the last that there is.
    "fsm_builder.h": [
        ("kMin2BytesUnicode = 0xC080;", "kMin2BytesUnicode = 0xC280;"),
        ("kMin3BytesUnicode = 0xE08080;", "kMin3BytesUnicode = 0xE0A080;"),
        ("kMin4BytesUnicode = 0xF0808080;", "kMin4BytesUnicode = 0xF0908080;"),
        ("kMax4BytesUnicode = 0xF7BFBFBF;", "kMax4BytesUnicode = 0xF48FBFBF;"),
    ],
    # What a grammar may cost is counted.
    "fsm.cc": [
        ('#include "fsm.h"\n', '#include "fsm.h"\n' + INCLUDE),
        ("  int AddState() {\n    edges_.emplace_back();",
         "  int AddState() {\n    XGRAMMAR_CHECK(graft::GrammarWork::CountMade(64)) << graft::GrammarWork::Refusal();\n    edges_.emplace_back();"),
        ("  void AddEdge(int from, int to, int32_t min, int32_t max) {\n",
         "  void AddEdge(int from, int to, int32_t min, int32_t max) {\n    XGRAMMAR_CHECK(graft::GrammarWork::CountMade(32)) << graft::GrammarWork::Refusal();\n"),
    ],
    "earley_parser.cc": [
        ('#include "earley_parser.h"\n', '#include "earley_parser.h"\n' + INCLUDE),
        ("bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {\n",
         "bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {\n  XGRAMMAR_CHECK(graft::GrammarWork::Count()) << graft::GrammarWork::Refusal();\n"),
        ("void EarleyParser::Complete(const ParserState& state, bool debug_print, bool marker_present) {\n",
         "void EarleyParser::Complete(const ParserState& state, bool debug_print, bool marker_present) {\n"
         "  XGRAMMAR_CHECK(graft::GrammarWork::Count()) << graft::GrammarWork::Refusal();\n"),
        # Twice: the states that wait for a rule's end are kept beside those that go on.
        ("  // Check if the grammar is completed, and add the scannable states to the history.\n",
         "  XGRAMMAR_CHECK(graft::GrammarWork::CountKept(2 * sizeof(ParserState) * tmp_states_to_be_added_.size())) << graft::GrammarWork::Refusal();\n"
         "  // Check if the grammar is completed, and add the scannable states to the history.\n"),
    ],
    # A state's mask takes up to a bit for each token of the vocabulary.
    "grammar_compiler.cc": [
        ('#include "compiled_grammar_impl.h"\n', '#include "compiled_grammar_impl.h"\n' + INCLUDE),
        ("    auto cur_adaptive_token_mask_cache = grammar_matcher.GetAdaptiveTokenMask(is_root_rule);\n",
         "    auto cur_adaptive_token_mask_cache = grammar_matcher.GetAdaptiveTokenMask(is_root_rule);\n"
         "    XGRAMMAR_CHECK(graft::GrammarWork::CountMade(MemorySize(cur_adaptive_token_mask_cache))) << graft::GrammarWork::Refusal();\n"),
    ],
    "grammar_builder.cc": [
        ('#include "grammar_builder.h"\n', '#include "grammar_builder.h"\n' + INCLUDE),
        ("int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {\n",
         "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {\n  XGRAMMAR_CHECK(graft::GrammarWork::CountMade(64 + 4 * grammar_expr.data_len)) << graft::GrammarWork::Refusal();\n"),
    ],
}


def main():
    for name, patches in PATCHES.items():
        path = pathlib.Path(sys.argv[1]) / "cpp" / name
        text = path.read_text()
        for before, after in patches:
            if text.count(before) != 1:
                sys.exit(f"this XGrammar is another one: {name} has {text.count(before)} of {before!r}")
            text = text.replace(before, after)
        path.write_text(text)


if __name__ == "__main__":
    main()
