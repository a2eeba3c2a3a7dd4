#include "ir/graph/explain_sizes.h"

#include <algorithm>
#include <cstdlib>

#include "ir/graph/size_expression.h"

namespace tenon::ir {
namespace {

// Bounds the search: products of three atoms are tried, and programs have few different sizes.
constexpr size_t kMaxAtoms = 24;
// Divisors that are tried: strides of convolutions and poolings, numbers of heads and chunks.
constexpr int64_t kMaxDivisor = 16;

// Larger numbers are no sizes: ATen writes "to the end" as the largest integer.
constexpr int64_t kMaxExplained = int64_t{1} << 40;

// What larger products count as; sums of two such numbers do not overflow.
constexpr int64_t kMaxProduct = int64_t{1} << 60;

int64_t product(int64_t a, int64_t b) {
  int64_t out = 0;
  bool is_negative = (a < 0) != (b < 0);
  if (__builtin_mul_overflow(a, b, &out)) out = is_negative ? -kMaxProduct : kMaxProduct;
  return std::clamp(out, -kMaxProduct, kMaxProduct);
}

bool is_constant(const SizeSamples& samples) {
  return std::all_of(samples.begin(), samples.end(), [&](int64_t n) { return n == samples[0]; });
}

SizeSamples product(const SizeSamples& a, const SizeSamples& b) {
  SizeSamples out = a;
  for (size_t i = 0; i < out.size(); ++i) out[i] = product(a[i], b[i]);
  return out;
}

// Returns the integer c with samples = c * of.
std::optional<int64_t> ratio(const SizeSamples& samples, const SizeSamples& of) {
  if (of[0] == 0 || samples[0] % of[0] != 0) return std::nullopt;
  int64_t c = samples[0] / of[0];
  for (size_t i = 0; i < samples.size(); ++i)
    if (samples[i] != product(c, of[i])) return std::nullopt;
  return c == 0 ? std::nullopt : std::optional(c);
}

}  // namespace

std::optional<Size> SizeExplainer::input_size(const SizeSamples& samples) {
  if (is_constant(samples)) return samples[0];
  if (auto known = known_.find(samples); known != known_.end()) return known->second;
  if (*std::min_element(samples.begin(), samples.end()) < kMinSymbol) return std::nullopt;
  for (const Atom& a : atoms_)
    for (const Atom& b : atoms_)
      if (product(a.samples, b.samples) == samples) {
        known_[samples] = a.size * b.size;
        return a.size * b.size;
      }
  Size symbol = Size::symbol(static_cast<int32_t>(symbols_.size()));
  symbols_.push_back(samples);
  known_[samples] = symbol;
  add(symbol, samples);
  return symbol;
}

std::optional<Size> SizeExplainer::explain(const SizeSamples& samples) {
  if (is_constant(samples)) return samples[0];
  if (auto known = known_.find(samples); known != known_.end()) return known->second;
  bool is_bounded = std::all_of(samples.begin(), samples.end(), [](int64_t n) { return std::abs(n) <= kMaxExplained; });
  std::optional<Size> found = is_bounded ? find(samples) : std::nullopt;
  known_[samples] = found;
  // What is no product of atoms may itself be a factor of strides and element counts.
  if (found && !scaled_product(samples)) add(*found, samples);
  return found;
}

std::optional<Size> SizeExplainer::find(const SizeSamples& samples) const {
  if (auto found = scaled_product(samples)) return found;
  if (auto found = linear(samples)) return found;
  return quotient(samples);
}

std::optional<Size> SizeExplainer::scaled_product(const SizeSamples& samples) const {
  for (const Atom& a : atoms_)
    if (auto c = ratio(samples, a.samples)) return a.size * *c;
  for (size_t i = 0; i < atoms_.size(); ++i)
    for (size_t k = i; k < atoms_.size(); ++k)
      if (auto c = ratio(samples, product(atoms_[i].samples, atoms_[k].samples))) return atoms_[i].size * atoms_[k].size * *c;
  for (size_t i = 0; i < atoms_.size(); ++i)
    for (size_t k = i; k < atoms_.size(); ++k)
      for (size_t n = k; n < atoms_.size(); ++n)
        if (auto c = ratio(samples, product(product(atoms_[i].samples, atoms_[k].samples), atoms_[n].samples)))
          return atoms_[i].size * atoms_[k].size * atoms_[n].size * *c;
  return std::nullopt;
}

// c * atom + d, or c times a product of two atoms; c = 1 and c = -1 first, because two graphs are explained by many others.
std::optional<Size> SizeExplainer::linear(const SizeSamples& samples) const {
  auto fitted = [&](const SizeSamples& of, const Size& size, bool is_unit) -> std::optional<Size> {
    size_t other = 0;
    while (other < of.size() && of[other] == of[0]) ++other;
    if (other == of.size() || (samples[other] - samples[0]) % (of[other] - of[0]) != 0) return std::nullopt;
    int64_t c = (samples[other] - samples[0]) / (of[other] - of[0]), d = samples[0] - product(c, of[0]);
    if (c == 0 || (is_unit && c != 1 && c != -1)) return std::nullopt;
    for (size_t i = 0; i < samples.size(); ++i)
      if (samples[i] != product(c, of[i]) + d) return std::nullopt;
    return size * c + d;
  };
  for (bool is_unit : {true, false}) {
    for (const Atom& a : atoms_)
      if (auto found = fitted(a.samples, a.size, is_unit)) return found;
    for (const Atom& a : atoms_)
      for (const Atom& b : atoms_)
        if (auto found = fitted(product(a.samples, b.samples), a.size * b.size, is_unit)) return found;
  }
  return std::nullopt;
}

// (atom + a) // q + d, as convolutions, poolings and chunks give.
std::optional<Size> SizeExplainer::quotient(const SizeSamples& samples) const {
  for (const Atom& atom : atoms_)
    for (int64_t q = 2; q <= kMaxDivisor; ++q)
      for (int64_t a : {int64_t{0}, q - 1, int64_t{-1}, int64_t{1}, int64_t{2}, int64_t{-2}, int64_t{3}, int64_t{-3}}) {
        int64_t d = samples[0] - floor_quotient(atom.samples[0] + a, q);
        bool fits = true;
        for (size_t i = 0; i < samples.size(); ++i) fits &= samples[i] == floor_quotient(atom.samples[i] + a, q) + d;
        if (fits) return floor_divide(atom.size + a, q) + d;
      }
  return std::nullopt;
}

void SizeExplainer::add(const Size& size, const SizeSamples& samples) {
  if (atoms_.size() < kMaxAtoms) atoms_.push_back({size, samples});
}

SymbolValues SizeExplainer::recorded() const {
  SymbolValues out;
  for (const SizeSamples& samples : symbols_) out.push_back(samples[graphs_ - 1]);
  return out;
}

}  // namespace tenon::ir
