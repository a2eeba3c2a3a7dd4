// A text while it is being encoded: segments that are added tokens already, and segments that the next step splits further.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tokens {

// The current text, and how many of its leading bytes stem from the first character of the user's text: Metaspace's prepend_scheme "first"
// depends on it.
struct Normalized {
  std::string text;
  size_t from_start = 0;
};

// Throws UserError(tokenizer) if a text has grown excessively: a malicious file may double it at every step.
void check_growth(size_t bytes, size_t bytes_before);

struct TextSegment {
  std::string_view text;
  size_t from_start = 0;
  int32_t id = -1;  // Id of an added token, or -1.

  TextSegment slice(size_t begin, size_t end) const {
    size_t rest = from_start > begin ? from_start - begin : 0;
    return {text.substr(begin, end - begin), rest < end - begin ? rest : end - begin, -1};
  }
  Normalized copy() const { return {std::string(text), from_start}; }
};

class TextSegments {
 public:
  explicit TextSegments(std::string_view text);  // `text` must outlive the segments.

  // Replaces every segment that is not an added token by the segments that f adds for it with add(). Empty segments are dropped.
  template <class F>
  void each(F&& f) {
    std::vector<TextSegment> before;
    before.swap(segments_);
    for (const TextSegment& segment : before)
      if (segment.id >= 0) segments_.push_back(segment);
      else f(segment);
  }
  void add(const TextSegment& segment) {
    if (!segment.text.empty()) segments_.push_back(segment);
  }
  // Takes ownership of a text, which lives as long as this object.
  TextSegment keep(Normalized text);

  auto begin() const { return segments_.begin(); }
  auto end() const { return segments_.end(); }

 private:
  std::vector<TextSegment> segments_;
  std::deque<std::string> texts_;
  size_t given_ = 0, kept_ = 0;  // Bytes of the original text, and of the texts in texts_.
};

}  // namespace tenon::tokens
