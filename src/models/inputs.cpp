#include "models/inputs.h"

#include <c10/util/StringUtil.h>
#include <tenon/models.h>

#include "base/error.h"

namespace tenon {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw UserError(ErrorCode::shape, text); }

std::string described(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return std::string("a tensor of type ") + c10::toString(tensor.scalar_type()) + " and shape " + c10::str(tensor.sizes());
}

bool is_integer(const at::Tensor& tensor) { return tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt; }

}  // namespace

void detail::check_not_null(bool is_null, const char* what) {
  if (is_null) refuse(std::string(what) + " is null. Give one that load_model or your program made.");
}

namespace models {

void check_text(const at::Tensor& ids, const at::Tensor& mask, const at::Tensor& types) {
  if (!ids.defined() || ids.dim() != 2 || !is_integer(ids))
    refuse("input must be token ids, int64 [batch, length], and is " + described(ids) +
           ". Convert it with .to(at::kLong), and add the batch dimension with unsqueeze(0).");
  if (ids.numel() == 0) refuse("input is empty: " + described(ids) + ". Give at least one sample with at least one token.");
  if (mask.defined() && (mask.sizes() != ids.sizes() || mask.is_complex()))
    refuse("mask must have the shape " + c10::str(ids.sizes()) + " of the input, and is " + described(mask) +
           ". Give 1 for each token and 0 for padding.");
  if (types.defined() && (types.sizes() != ids.sizes() || !is_integer(types)))
    refuse("types must be int64 of the shape " + c10::str(ids.sizes()) + " of the input, and is " + described(types) +
           ". Give the segment of each token.");
}

void check_length(const at::Tensor& ids, int64_t positions) {
  if (ids.size(1) > positions)
    refuse("input has " + std::to_string(ids.size(1)) + " tokens per sample, and the model has " + std::to_string(positions) +
           " positions. Shorten the text.");
}

void check_pixels(const at::Tensor& pixels, int64_t channels) {
  if (!pixels.defined() || pixels.dim() != 4 || pixels.size(1) != channels || pixels.is_complex())
    refuse("input must be pixels, [batch, " + std::to_string(channels) + ", height, width], and is " + described(pixels) +
           ". Add the batch dimension with unsqueeze(0) if it is missing.");
  if (pixels.numel() == 0) refuse("input is empty: " + described(pixels) + ". Give at least one image.");
}

}  // namespace models
}  // namespace tenon
