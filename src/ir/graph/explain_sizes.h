// Finds expressions that explain integers which differ between graphs of one program at several sizes.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/graph/size.h"

namespace tenon::ir {

// The values of one integer in each graph.
using SizeSamples = std::vector<int64_t>;

class SizeExplainer {
 public:
  explicit SizeExplainer(size_t graphs) : graphs_(graphs) {}

  // A size of an input that differs is a new symbol, unless a known symbol or a
  // product of two has the same values. Returns nothing if it differs and is below kMinSymbol in a graph.
  std::optional<Size> input_size(const SizeSamples& samples);
  // Returns the simplest expression over the symbols that has these values; nothing if none is found.
  std::optional<Size> explain(const SizeSamples& samples);
  // The values of the symbols in the last graph.
  SymbolValues recorded() const;

 private:
  // An expression that other ones are made of: a symbol, or a size that was explained.
  struct Atom {
    Size size;
    SizeSamples samples;
  };
  std::optional<Size> find(const SizeSamples& samples) const;
  std::optional<Size> scaled_product(const SizeSamples& samples) const;
  std::optional<Size> linear(const SizeSamples& samples) const;
  std::optional<Size> quotient(const SizeSamples& samples) const;
  void add(const Size& size, const SizeSamples& samples);

  size_t graphs_;
  std::vector<SizeSamples> symbols_;
  std::vector<Atom> atoms_;
  std::map<SizeSamples, std::optional<Size>> known_;
};

}  // namespace tenon::ir
