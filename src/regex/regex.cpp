#define PCRE2_CODE_UNIT_WIDTH 8
#include "regex/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

namespace tenon::regex {

namespace {

// Safety limits for PCRE2, not measured: nested backtracking points, memory of a match, nested groups of a pattern (PCRE2's default).
constexpr uint32_t kMaxBacktrackDepth = 1'000'000, kMaxHeapKilobytes = 256 << 10, kMaxNesting = 250;

std::string message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

template <class T, void (*Free)(T*)>
struct Freed {
  void operator()(T* pointer) const { Free(pointer); }
};
using CodeOwner = std::unique_ptr<pcre2_code, Freed<pcre2_code, pcre2_code_free>>;
using DataOwner = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data, pcre2_match_data_free>>;
using MatchOwner = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context, pcre2_match_context_free>>;
using CompileOwner = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context, pcre2_compile_context_free>>;

template <class T>
T* non_null(T* pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

size_t next_character(std::string_view text, size_t at) {
  do ++at;
  while (at < text.size() && (text[at] & 0xC0) == 0x80);
  return at;
}

}  // namespace

struct Regex::CompiledPattern {
  CodeOwner code;
  RegexOptions options;
  std::string shown;

  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(options.code, options.name + " '" + shown + "': " + what + ". " + options.advice);
  }
};

Regex::Regex(std::string_view pattern, const RegexOptions& options, std::string_view shown) {
  auto code = std::make_shared<CompiledPattern>(CompiledPattern{nullptr, options, std::string(shown)});
  if (pattern.size() > options.max_pattern) {
    code->shown = code->shown.substr(0, 40) + "...";
    code->fail("the pattern has " + std::to_string(pattern.size()) + " bytes, and at most " + std::to_string(options.max_pattern) +
               " are allowed");
  }
  CompileOwner context(non_null(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxNesting);
  uint32_t flags = PCRE2_UTF | (options.is_literal ? PCRE2_LITERAL : PCRE2_UCP) | (options.is_multiline ? PCRE2_MULTILINE : 0);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), flags, &error, &offset, context.get()));
  if (!code->code) code->fail(message(error));
  pcre2_jit_compile(code->code.get(), PCRE2_JIT_COMPLETE);  // A failure is fine: PCRE2 then interprets the pattern.
  code_ = std::move(code);
}

// State of the search in one text.
class Regex::Matcher {
 public:
  Matcher(const CompiledPattern& code, std::string_view text)
      : code_(code),
        text_(text),
        data_(non_null(pcre2_match_data_create_from_pattern(code.code.get(), nullptr))),
        context_(non_null(pcre2_match_context_create(nullptr))) {
    uint64_t steps = code.options.min_steps + text.size() * uint64_t{code.options.steps_per_byte};
    pcre2_set_match_limit(context_.get(), static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
    pcre2_set_depth_limit(context_.get(), kMaxBacktrackDepth);
    pcre2_set_heap_limit(context_.get(), kMaxHeapKilobytes);
  }

  bool find(size_t from, uint32_t options) {
    int found = run(from, options);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = run(from, options | PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) code_.fail(message(found) + " in a text of " + std::to_string(text_.size()) + " bytes");
    return true;
  }
  size_t groups() const { return pcre2_get_ovector_count(data_.get()); }
  size_t begin(size_t group) const { return pcre2_get_ovector_pointer(data_.get())[2 * group]; }
  size_t end(size_t group) const { return pcre2_get_ovector_pointer(data_.get())[2 * group + 1]; }

 private:
  int run(size_t from, uint32_t options) {
    return pcre2_match(code_.code.get(), reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from, PCRE2_NO_UTF_CHECK | options,
                       data_.get(), context_.get());
  }

  const CompiledPattern& code_;
  std::string_view text_;
  DataOwner data_;
  MatchOwner context_;
};

void Regex::each_match(std::string_view text, const std::function<void(size_t, size_t)>& f) const {
  Matcher matcher(*code_, text);
  size_t from = 0, last_end = std::string_view::npos;
  while (from <= text.size() && matcher.find(from, 0)) {
    size_t begin = matcher.begin(0), end = matcher.end(0);
    if (begin == end && end == last_end) {
      if (from == text.size()) return;
      from = next_character(text, from);
      continue;
    }
    f(begin, end);
    from = last_end = end;
  }
}

std::optional<std::vector<std::string_view>> Regex::match(std::string_view text, MatchMode mode) const {
  Matcher matcher(*code_, text);
  if (!matcher.find(0, PCRE2_ANCHORED | (mode == MatchMode::whole ? PCRE2_ENDANCHORED : 0))) return {};
  std::vector<std::string_view> out;
  for (size_t i = 0; i < matcher.groups(); ++i)
    out.push_back(matcher.begin(i) == PCRE2_UNSET ? std::string_view() : text.substr(matcher.begin(i), matcher.end(i) - matcher.begin(i)));
  return out;
}

}  // namespace tenon::regex
