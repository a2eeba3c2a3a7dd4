#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokens/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "tokens/oniguruma.h"
#include "tokens/utf8.h"

namespace tenon::tokens {

namespace {

constexpr size_t kPatternLimit = 64 << 10;
constexpr uint32_t kStepsAtLeast = 10'000'000, kStepsAByte = 32, kDepth = 1'000'000, kHeapKilobytes = 256 << 10;

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
T* there(T* pointer) {
  if (!pointer) throw std::bad_alloc();
  return pointer;
}

}  // namespace

struct Regex::Code {
  CodeOwner code;
  std::string shown;
};

Regex Regex::compile(std::string_view pattern, uint32_t options, std::string_view shown) {
  if (pattern.size() > kPatternLimit) throw UserError(ErrorCode::tokenizer, "a regular expression of more than 64 KiB");
  CompileOwner context(there(pcre2_compile_context_create(nullptr)));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int code = 0;
  PCRE2_SIZE place = 0;
  CodeOwner owner(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | options, &code, &place, context.get()));
  if (!owner) throw UserError(ErrorCode::tokenizer, "regular expression '" + std::string(shown) + "': " + message(code));
  pcre2_jit_compile(owner.get(), PCRE2_JIT_COMPLETE);  // without a JIT the interpreter does the same
  return Regex(std::make_shared<Code>(Code{std::move(owner), std::string(shown)}));
}

Regex Regex::oniguruma(std::string_view pattern) {
  if (pattern.size() > kPatternLimit) throw UserError(ErrorCode::tokenizer, "a regular expression of more than 64 KiB");
  return compile(pcre2_from_oniguruma(pattern), PCRE2_UCP | PCRE2_MULTILINE, pattern);
}

Regex Regex::literal(std::string_view text) { return compile(text, PCRE2_LITERAL, text); }

Regex Regex::pcre2(std::string_view pattern) { return compile(pattern, PCRE2_UCP, pattern); }

void Regex::each_match(std::string_view text, const std::function<void(size_t, size_t)>& f) const {
  const pcre2_code* code = code_->code.get();
  DataOwner data(there(pcre2_match_data_create(1, nullptr)));
  MatchOwner context(there(pcre2_match_context_create(nullptr)));
  pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<size_t>(kStepsAtLeast + text.size() * kStepsAByte, UINT32_MAX)));
  pcre2_set_depth_limit(context.get(), kDepth);
  pcre2_set_heap_limit(context.get(), kHeapKilobytes);
  auto match = [&](size_t from, uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK | options, data.get(),
                       context.get());
  };
  size_t from = 0, last_end = std::string_view::npos;
  while (from <= text.size()) {
    int found = match(from, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(from, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0)
      throw UserError(ErrorCode::tokenizer, "regular expression '" + code_->shown + "': " + message(found) + " in a text of " +
                                                std::to_string(text.size()) + " bytes. Encode it in parts");
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    size_t begin = range[0], end = range[1];
    if (begin == end && end == last_end) {
      if (from == text.size()) return;
      next_character(text, from);
      continue;
    }
    f(begin, end);
    from = last_end = end;
  }
}

}  // namespace tenon::tokens
