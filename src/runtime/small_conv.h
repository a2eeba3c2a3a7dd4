// Direct convolutions of small images: no library, no scratch buffer except for a channels-last copy of the image.
#pragma once

#include <cstdint>
#include <vector>

namespace tenon::runtime {

// All tensors are f32. Images are channels-last; weights are [rows, columns, input channels, output channels], with the output
// channels padded to whole vectors.
struct SmallConv {
  int64_t images = 1, channels = 0, height = 0, width = 0;
  int64_t outputs = 0, out_height = 0, out_width = 0;  // Channels, rows and columns of the result.
  int64_t rows = 1, columns = 1;                       // Size of the filter.
  int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool has_relu = false;

  static constexpr int64_t kLanes = 16;
  int64_t padded_outputs() const { return (outputs + kLanes - 1) / kLanes * kLanes; }
  int64_t multiply_adds() const { return images * out_height * out_width * outputs * rows * columns * channels; }
};

// `bias` has padded_outputs() elements. `other` has the layout of the result, is added before ReLU, and may be null. `zeros` has at
// least as many elements as the image has channels.
void run_small_conv(const SmallConv& what, const float* image, const float* weight, const float* bias, const float* other,
                    const float* zeros, float* out);

}  // namespace tenon::runtime
