// Convolutions of small images, computed directly: no library, no scratch memory but for the image's other layout.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon::runtime {

// f32. Images lie channel by channel (channels last); weights as [rows, columns, channels in, channels out], the last filled up to
// whole vectors.
struct SmallConv {
  int64_t images = 1, channels = 0, height = 0, width = 0;
  int64_t outputs = 0, out_height = 0, out_width = 0;  // of the result: channels, rows, columns
  int64_t rows = 1, columns = 1;                       // of the weight
  int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool has_relu = false;

  static constexpr int64_t kLanes = 16;
  int64_t padded_outputs() const { return (outputs + kLanes - 1) / kLanes * kLanes; }
  int64_t products() const { return images * out_height * out_width * outputs * rows * columns * channels; }
};

// `bias` has padded_outputs() elements; `other`, of the result's layout, is added before ReLU and may be null; `zeros` has at least
// as many elements as the image has channels.
void run_small_conv(const SmallConv& what, const float* image, const float* weight, const float* bias, const float* other,
                    const float* zeros, float* out);

}  // namespace tenon::runtime
