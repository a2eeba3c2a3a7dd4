// A text on its way to ids: pieces that tokens were found in, and pieces that wait for the next step.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::tokens {

// Text as it is now, and how many of its first bytes stem from the very first character of the user's text: Metaspace's "first"
// depends on it.
struct Normalized {
  std::string text;
  size_t from_start = 0;
};

// A file may ask for texts that double at every step: throws UserError(tokenizer) where a text has grown beyond reason.
void check_growth(size_t bytes, size_t bytes_before);

struct Piece {
  std::string_view text;
  size_t from_start = 0;
  int32_t id = -1;  // of an added token

  Piece part(size_t begin, size_t end) const {
    size_t rest = from_start > begin ? from_start - begin : 0;
    return {text.substr(begin, end - begin), rest < end - begin ? rest : end - begin, -1};
  }
  Normalized copy() const { return {std::string(text), from_start}; }
};

class Pieces {
 public:
  explicit Pieces(std::string_view text);  // which must outlive the pieces

  // Replaces every piece that is not a token by what f adds for it with add(). Empty pieces are dropped.
  template <class F>
  void each(F&& f) {
    std::vector<Piece> before;
    before.swap(pieces_);
    for (const Piece& piece : before)
      if (piece.id >= 0) pieces_.push_back(piece);
      else f(piece);
  }
  void add(const Piece& piece) {
    if (!piece.text.empty()) pieces_.push_back(piece);
  }
  // The text stays alive as long as the pieces.
  Piece keep(Normalized text);

  auto begin() const { return pieces_.begin(); }
  auto end() const { return pieces_.end(); }

 private:
  std::vector<Piece> pieces_;
  std::deque<std::string> texts_;
  size_t given_ = 0, kept_ = 0;  // bytes
};

}  // namespace tenon::tokens
