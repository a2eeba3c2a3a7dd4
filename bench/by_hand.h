// Hand-written AVX-512 versions of small networks, with which compiled ones are compared: constant sizes,
// weights transposed in advance, no allocations, one function per network.
#pragma once

#include <immintrin.h>
#include <torch/torch.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "bench/models/small.h"

namespace tenon::bench {

#define TENON_BY_HAND __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"), optimize("O3")))

// y = relu(x W + b) or x W + b; W is [in][out], and out is a multiple of 64.
template <int kIn, int kOut, bool kRelu>
TENON_BY_HAND inline void layer_by_hand(const float* x, const float* w, const float* b, float* y) {
  for (int n = 0; n < kOut; n += 64) {
    __m512 s0 = _mm512_loadu_ps(b + n), s1 = _mm512_loadu_ps(b + n + 16), s2 = _mm512_loadu_ps(b + n + 32),
           s3 = _mm512_loadu_ps(b + n + 48);
    __m512 t0 = _mm512_setzero_ps(), t1 = t0, t2 = t0, t3 = t0;
    for (int k = 0; k < kIn; k += 2) {
      __m512 a = _mm512_set1_ps(x[k]), c = _mm512_set1_ps(x[k + 1]);
      const float* p = w + k * kOut + n;
      s0 = _mm512_fmadd_ps(a, _mm512_loadu_ps(p), s0), s1 = _mm512_fmadd_ps(a, _mm512_loadu_ps(p + 16), s1);
      s2 = _mm512_fmadd_ps(a, _mm512_loadu_ps(p + 32), s2), s3 = _mm512_fmadd_ps(a, _mm512_loadu_ps(p + 48), s3);
      p += kOut;
      t0 = _mm512_fmadd_ps(c, _mm512_loadu_ps(p), t0), t1 = _mm512_fmadd_ps(c, _mm512_loadu_ps(p + 16), t1);
      t2 = _mm512_fmadd_ps(c, _mm512_loadu_ps(p + 32), t2), t3 = _mm512_fmadd_ps(c, _mm512_loadu_ps(p + 48), t3);
    }
    __m512 sums[] = {_mm512_add_ps(s0, t0), _mm512_add_ps(s1, t1), _mm512_add_ps(s2, t2), _mm512_add_ps(s3, t3)};
    for (int v = 0; v < 4; ++v) _mm512_storeu_ps(y + n + 16 * v, kRelu ? _mm512_max_ps(sums[v], _mm512_setzero_ps()) : sums[v]);
  }
}

inline Tensor turned(const torch::nn::Linear& layer) { return layer->weight.detach().t().contiguous(); }
inline const float* data(const Tensor& t) { return t.const_data_ptr<float>(); }

inline std::function<Tensor()> by_hand(Mlp model, const Tensor& x, const std::vector<int64_t>& widths) {
  std::vector<Tensor> w, b;
  for (auto& layer : *model->layers) {
    w.push_back(turned(torch::nn::Linear(std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer))));
    b.push_back(layer->as<torch::nn::Linear>()->bias.detach());
  }
  Tensor out = torch::empty({1, widths.back()}), one = torch::empty({256}), two = torch::empty({256});
  float *y = out.mutable_data_ptr<float>(), *p = one.mutable_data_ptr<float>(), *q = two.mutable_data_ptr<float>();
  if (widths.size() == 4)
    return [=, keep = std::array{one, two}] {
      layer_by_hand<128, 128, true>(data(x), data(w[0]), data(b[0]), p);
      layer_by_hand<128, 128, true>(p, data(w[1]), data(b[1]), q);
      layer_by_hand<128, 128, false>(q, data(w[2]), data(b[2]), y);
      return out;
    };
  return [=, keep = std::array{one, two}] {
    layer_by_hand<64, 256, true>(data(x), data(w[0]), data(b[0]), p);
    layer_by_hand<256, 256, true>(p, data(w[1]), data(b[1]), q);
    layer_by_hand<256, 256, true>(q, data(w[2]), data(b[2]), p);
    layer_by_hand<256, 256, true>(p, data(w[3]), data(b[3]), q);
    layer_by_hand<256, 256, true>(q, data(w[4]), data(b[4]), p);
    layer_by_hand<256, 64, false>(p, data(w[5]), data(b[5]), y);
    return out;
  };
}

TENON_BY_HAND inline __m512 exp_by_hand(__m512 x) {
  x = _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(88.0f)), _mm512_set1_ps(-87.0f));
  __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  __m512 p = _mm512_set1_ps(1.0f / 720);
  for (float c : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
  return _mm512_scalef_ps(p, n);
}
TENON_BY_HAND inline __m512 sigmoid_by_hand(__m512 x) {
  __m512 one = _mm512_set1_ps(1.0f);
  return _mm512_div_ps(one, _mm512_add_ps(one, exp_by_hand(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}
TENON_BY_HAND inline __m512 tanh_by_hand(__m512 x) {
  return _mm512_fmsub_ps(_mm512_set1_ps(2.0f), sigmoid_by_hand(_mm512_add_ps(x, x)), _mm512_set1_ps(1.0f));
}

TENON_BY_HAND inline void lstm_by_hand(const float* x, const float* h, const float* c, const float* wx, const float* wh, const float* bx,
                                       const float* bh, float* gates, float* more, float* out) {
  layer_by_hand<128, 512, false>(x, wx, bx, gates);
  layer_by_hand<128, 512, false>(h, wh, bh, more);
  for (int i = 0; i < 128; i += 16) {
    auto gate = [&](int which) TENON_BY_HAND {
      return _mm512_add_ps(_mm512_loadu_ps(gates + 128 * which + i), _mm512_loadu_ps(more + 128 * which + i));
    };
    __m512 cell = _mm512_mul_ps(sigmoid_by_hand(gate(1)), _mm512_loadu_ps(c + i));
    cell = _mm512_fmadd_ps(sigmoid_by_hand(gate(0)), tanh_by_hand(gate(2)), cell);
    _mm512_storeu_ps(out + i, _mm512_mul_ps(sigmoid_by_hand(gate(3)), tanh_by_hand(cell)));
    _mm512_storeu_ps(out + 128 + i, cell);
  }
}

inline std::function<Tensor()> by_hand(LstmStep model, const std::vector<Tensor>& in) {
  Tensor wx = turned(model->in), wh = turned(model->hidden), bx = model->in->bias.detach(), bh = model->hidden->bias.detach();
  Tensor gates = torch::empty({512}), more = torch::empty({512}), out = torch::empty({1, 256});
  return [=]() mutable {
    lstm_by_hand(data(in[0]), data(in[1]), data(in[2]), data(wx), data(wh), data(bx), data(bh), gates.mutable_data_ptr<float>(),
                 more.mutable_data_ptr<float>(), out.mutable_data_ptr<float>());
    return out;
  };
}

// A 3 x 3 convolution with 32 output channels and ReLU. Images are [rows][columns][channels] with a border of zeros; w is
// [3][3][in][32].
template <int kIn, int kStride, int kSize>
TENON_BY_HAND inline void conv_by_hand(const float* image, const float* w, const float* b, float* out, int out_row) {
  constexpr int kRow = (kSize * kStride + 2) * kIn;
  for (int y = 0; y < kSize; ++y)
    for (int x = 0; x < kSize; x += 8) {
      __m512 s[8], t[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) s[i] = _mm512_loadu_ps(b), t[i] = _mm512_loadu_ps(b + 16);
      for (int ky = 0; ky < 3; ++ky)
        for (int kx = 0; kx < 3; ++kx) {
          const float* p = image + (y * kStride + ky) * kRow + (x * kStride + kx) * kIn;
          const float* q = w + (ky * 3 + kx) * kIn * 32;
          for (int k = 0; k < kIn; ++k) {
            __m512 a = _mm512_loadu_ps(q + k * 32), c = _mm512_loadu_ps(q + k * 32 + 16);
#pragma GCC unroll 8
            for (int i = 0; i < 8; ++i) {
              __m512 pixel = _mm512_set1_ps(p[i * kStride * kIn + k]);
              s[i] = _mm512_fmadd_ps(pixel, a, s[i]), t[i] = _mm512_fmadd_ps(pixel, c, t[i]);
            }
          }
        }
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        float* o = out + y * out_row + (x + i) * 32;
        _mm512_storeu_ps(o, _mm512_max_ps(s[i], _mm512_setzero_ps())), _mm512_storeu_ps(o + 16, _mm512_max_ps(t[i], _mm512_setzero_ps()));
      }
    }
}

inline std::function<Tensor()> by_hand(SmallCnn model, const Tensor& image) {
  auto weight = [](const torch::nn::Conv2d& conv) { return conv->weight.detach().permute({2, 3, 1, 0}).contiguous(); };
  Tensor w1 = weight(model->conv1), w2 = weight(model->conv2), w3 = weight(model->conv3);
  Tensor b1 = model->conv1->bias.detach(), b2 = model->conv2->bias.detach(), b3 = model->conv3->bias.detach();
  Tensor first = torch::zeros({34, 34, 3}), second = torch::zeros({34, 34, 32}), third = torch::zeros({18, 18, 32}),
         last = torch::zeros({8, 8, 32});
  Tensor w = model->out->weight.detach(), b = model->out->bias.detach(), out = torch::empty({1, 10});
  return [=]() mutable {
    float* p = first.mutable_data_ptr<float>();
    const float* from = data(image);
    for (int y = 0; y < 32; ++y)
      for (int x = 0; x < 32; ++x)
        for (int c = 0; c < 3; ++c) p[((y + 1) * 34 + x + 1) * 3 + c] = from[(c * 32 + y) * 32 + x];
    float *q = second.mutable_data_ptr<float>(), *r = third.mutable_data_ptr<float>(), *s = last.mutable_data_ptr<float>();
    conv_by_hand<3, 1, 32>(p, data(w1), data(b1), q + 35 * 32, 34 * 32);
    conv_by_hand<32, 2, 16>(q, data(w2), data(b2), r + 19 * 32, 18 * 32);
    conv_by_hand<32, 2, 8>(r, data(w3), data(b3), s, 8 * 32);
    float mean[32] = {}, *y = out.mutable_data_ptr<float>();
    for (int i = 0; i < 64; ++i)
      for (int c = 0; c < 32; ++c) mean[c] += s[i * 32 + c];
    for (int n = 0; n < 10; ++n) {
      float sum = 0;
      for (int c = 0; c < 32; ++c) sum += mean[c] * data(w)[n * 32 + c];
      y[n] = sum / 64 + data(b)[n];
    }
    return out;
  };
}

}  // namespace tenon::bench
