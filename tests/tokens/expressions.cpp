// Regular expressions: the same meaning as in Oniguruma, or a refusal.
#include "tokens/file.h"
#include "tokens/oniguruma.h"
#include "tokens/regex.h"

namespace tenon::test {

using tokens::Regex;

std::vector<std::string> matches(const Regex& regex, const std::string& text) {
  std::vector<std::string> found;
  regex.each_match(text, [&](size_t begin, size_t end) { found.push_back(text.substr(begin, end - begin)); });
  return found;
}

using Texts = std::vector<std::string>;

TEST(Expressions, Spaces) {
  Regex space = Regex::oniguruma("\\s"), other = Regex::oniguruma("\\S"), in_set = Regex::oniguruma("[^\\S]");
  for (const char* text : {" ", "\t", "\v", "\xC2\x85", "\xC2\xA0", "\xE2\x80\xA8", "\xE3\x80\x80"}) {
    EXPECT_EQ(matches(space, text), Texts{text});
    EXPECT_EQ(matches(in_set, text), Texts{text});
    EXPECT_EQ(matches(other, text), Texts{});
  }
  for (const char* text : {"\xE1\xA0\x8E", "\xE2\x80\x8B", "a"}) {  // U+180E and U+200B are none
    EXPECT_EQ(matches(space, text), Texts{});
    EXPECT_EQ(matches(other, text), Texts{text});
  }
}

TEST(Expressions, WordsCountMarksAndConnectors) {
  EXPECT_EQ(matches(Regex::oniguruma("\\w+"),
                    "a\xCC\x81_\xE2\x80\xBF"
                    "b-c"),
            (Texts{"a\xCC\x81_\xE2\x80\xBF"
                   "b",
                   "c"}));
  EXPECT_EQ(matches(Regex::oniguruma("\\W+"), "a--b"), Texts{"--"});
  EXPECT_EQ(matches(Regex::oniguruma("\\w"), "\u00B2\u00BD\u2074\u200D"), (Texts{"\u00B2", "\u00BD"}));
  EXPECT_EQ(matches(Regex::oniguruma("\\bb"), "ab b"), Texts{"b"});
  EXPECT_EQ(matches(Regex::oniguruma("\\Bb"), "ab b"), Texts{"b"});
}

TEST(Expressions, RubysQuantifiers) {
  EXPECT_EQ(matches(Regex::oniguruma("a{1,2}+b"), "aaaab"), Texts{"aaaab"});              // repeats, and is not possessive
  EXPECT_EQ(matches(Regex::oniguruma("a{,2}b"), "aaab"), Texts{"aab"});                   // no literal
  EXPECT_EQ(matches(Regex::oniguruma("(?:ab){2}?c"), "c ababc"), (Texts{"c", "ababc"}));  // optional, and not lazy
  EXPECT_EQ(matches(Regex::oniguruma("a{1,2}?"), "aa"), (Texts{"a", "a"}));
  EXPECT_EQ(matches(Regex::oniguruma("a++a"), "aaa"), Texts{});
}

TEST(Expressions, LinesAndCodes) {
  EXPECT_EQ(matches(Regex::oniguruma("^a$"), "a\nb\na"), (Texts{"a", "a"}));
  EXPECT_EQ(matches(Regex::oniguruma("."), "\r\n"), Texts{"\r"});
  EXPECT_EQ(matches(Regex::oniguruma("\\v"), "\n\v"), Texts{"\v"});
  EXPECT_EQ(matches(Regex::oniguruma("\\u00e9|\\x{20AC}|\\x41"),
                    "\xC3\xA9\xE2\x82\xAC"
                    "A"),
            (Texts{"\xC3\xA9", "\xE2\x82\xAC", "A"}));
  EXPECT_EQ(matches(Regex::oniguruma("\\p{^L}+"), "a12b"), Texts{"12"});
}

TEST(Expressions, ScriptsAreWithoutTheirExtensions) {
  EXPECT_EQ(matches(Regex::oniguruma("\\p{Han}"), "\xE6\xBC\xA2\xE3\x80\x82"),
            Texts{"\xE6\xBC\xA2"});  // an ideographic full stop is shared
}

TEST(Expressions, EmptyMatches) {
  EXPECT_EQ(matches(Regex::oniguruma("x*"), "axb"), (Texts{"", "x", ""}));
  EXPECT_EQ(matches(Regex::literal(""), "\xC3\xA9").size(), 2u);
  EXPECT_EQ(matches(Regex::literal("(a"), "(a(a"), (Texts{"(a", "(a"}));
}

TEST(Expressions, Refused) {
  for (auto [pattern, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"(?i)stra\xC3\x9F"
            "e",
            "letters that have a ligature"},
           {"(?i:\xC3\xA9)", "a character that is not ASCII"},
           {"(?i:\\p{L})", "a class of characters where case is ignored"},
           {"(?i:[^a])", "a negated set where case is ignored"},
           {"(?i:fi)", "letters that have a ligature"},
           {"[a&&b]", "an intersection of sets"},
           {"[a[b]]", "a set inside of a set"},
           {"[[:alpha:]]", "a set inside of a set"},
           {"[]a]", "a set that begins with ]"},
           {"[\\s-z]", "a range that begins with a class"},
           {"[!-\\s]", "a range that ends with a class"},
           {"\\p{Emoji}", "the property 'Emoji'"},
           {"\\pL", "a property without braces"},
           {"(?<name>a)", "a group of a sort that is not known"},
           {"a(?m)b", "a group of a sort that is not known"},
           {"(a)\\1", "the escape \\1"},
           {"\\K", "the escape \\K"},
           {"\\xe9", "a byte of UTF-8 by itself"},
           {"\\x{110000000}", "a code of a character that is none"},
           {"a{x}", "a brace that counts nothing"},
           {"(a", "a group that is not closed"},
           {"a)", "a parenthesis that nothing opens"},
           {"a\\", "an expression that ends early"},
           {"[a", "an expression that ends early"},
           {"(?<=a+)b", "lookbehind assertion is not fixed length"},
       })
    expect_refusal(says, [&, pattern = pattern] { Regex::oniguruma(pattern); });
  expect_refusal("more than 64 KiB", [] { Regex::oniguruma(std::string(70000, 'a')); });
  expect_refusal("more than 50 groups", [] { Regex::oniguruma(std::string(60, '(')); });
}

}  // namespace tenon::test
