// Regular expressions have the same meaning as in Oniguruma, or are rejected.
#include "tokens/file.h"
#include "tokens/oniguruma.h"
#include "tokens/tokenizer_regex.h"

namespace tenon::test {

using tokens::TokenizerRegex;

std::vector<std::string> matches(const TokenizerRegex& regex, const std::string& text) {
  std::vector<std::string> found;
  regex.each_match(text, [&](size_t begin, size_t end) { found.push_back(text.substr(begin, end - begin)); });
  return found;
}

using Strings = std::vector<std::string>;

TEST(Expressions, Spaces) {
  TokenizerRegex space = TokenizerRegex::oniguruma("\\s"), other = TokenizerRegex::oniguruma("\\S"),
                 in_set = TokenizerRegex::oniguruma("[^\\S]");
  for (const char* text : {" ", "\t", "\v", "\xC2\x85", "\xC2\xA0", "\xE2\x80\xA8", "\xE3\x80\x80"}) {
    EXPECT_EQ(matches(space, text), Strings{text});
    EXPECT_EQ(matches(in_set, text), Strings{text});
    EXPECT_EQ(matches(other, text), Strings{});
  }
  for (const char* text : {"\xE1\xA0\x8E", "\xE2\x80\x8B", "a"}) {  // U+180E and U+200B are not spaces.
    EXPECT_EQ(matches(space, text), Strings{});
    EXPECT_EQ(matches(other, text), Strings{text});
  }
}

TEST(Expressions, WordsIncludeMarksAndConnectors) {
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\w+"),
                    "a\xCC\x81_\xE2\x80\xBF"
                    "b-c"),
            (Strings{"a\xCC\x81_\xE2\x80\xBF"
                     "b",
                     "c"}));
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\W+"), "a--b"), Strings{"--"});
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\w"), "\u00B2\u00BD\u2074\u200D"), (Strings{"\u00B2", "\u00BD"}));
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\bb"), "ab b"), Strings{"b"});
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\Bb"), "ab b"), Strings{"b"});
}

TEST(Expressions, QuantifiersOfRuby) {
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("a{1,2}+b"), "aaaab"), Strings{"aaaab"});              // The + repeats; it is not possessive.
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("a{,2}b"), "aaab"), Strings{"aab"});                   // The brace is not a literal.
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("(?:ab){2}?c"), "c ababc"), (Strings{"c", "ababc"}));  // The ? means optional, not lazy.
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("a{1,2}?"), "aa"), (Strings{"a", "a"}));
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("a++a"), "aaa"), Strings{});
}

TEST(Expressions, LinesAndCodes) {
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("^a$"), "a\nb\na"), (Strings{"a", "a"}));
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("."), "\r\n"), Strings{"\r"});
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\v"), "\n\v"), Strings{"\v"});
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\u00e9|\\x{20AC}|\\x41"),
                    "\xC3\xA9\xE2\x82\xAC"
                    "A"),
            (Strings{"\xC3\xA9", "\xE2\x82\xAC", "A"}));
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\p{^L}+"), "a12b"), Strings{"12"});
}

TEST(Expressions, ScriptsAreWithoutTheirExtensions) {
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("\\p{Han}"), "\xE6\xBC\xA2\xE3\x80\x82"),
            Strings{"\xE6\xBC\xA2"});  // The ideographic full stop belongs to several scripts.
}

TEST(Expressions, EmptyMatches) {
  EXPECT_EQ(matches(TokenizerRegex::oniguruma("x*"), "axb"), (Strings{"", "x", ""}));
  EXPECT_EQ(matches(TokenizerRegex::literal(""), "\xC3\xA9").size(), 2u);
  EXPECT_EQ(matches(TokenizerRegex::literal("(a"), "(a(a"), (Strings{"(a", "(a"}));
}

TEST(Expressions, Refused) {
  for (auto [pattern, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"(?i)stra\xC3\x9F"
            "e",
            "letters that have a ligature"},
           {"(?i:\xC3\xA9)", "a character that is not ASCII"},
           {"(?i:\\p{L})", "a class of characters where case is ignored"},
           {"(?i:[^a])", "a negated set where case is ignored"},
           {"(?i:fi)", "letters that have a ligature"},
           {"[a&&b]", "an intersection of sets"},
           {"[a[b]]", "a set inside a set"},
           {"[[:alpha:]]", "a set inside a set"},
           {"[]a]", "a set that begins with ]"},
           {"[\\s-z]", "a range that begins with a class"},
           {"[!-\\s]", "a range that ends with a class"},
           {"\\p{Emoji}", "the property 'Emoji'"},
           {"\\pL", "a property without braces"},
           {"(?<name>a)", "an unsupported kind of group"},
           {"a(?m)b", "an unsupported kind of group"},
           {"(a)\\1", "the escape \\1"},
           {"\\K", "the escape \\K"},
           {"\\xe9", "an escape of a single UTF-8 byte"},
           {"\\x{110000000}", "an escape of a character that does not exist"},
           {"a{x}", "a brace without a repeat count"},
           {"(a", "a group that is not closed"},
           {"a)", "an unmatched closing parenthesis"},
           {"a\\", "an incomplete expression"},
           {"[a", "an incomplete expression"},
           {"(?<=a+)b", "lookbehind assertion is not fixed length"},
       })
    expect_refusal(message, [&, pattern = pattern] { TokenizerRegex::oniguruma(pattern); });
  expect_refusal("more than 64 KiB", [] { TokenizerRegex::oniguruma(std::string(70000, 'a')); });
  expect_refusal("more than 50 nested groups", [] { TokenizerRegex::oniguruma(std::string(60, '(')); });
}

}  // namespace tenon::test
