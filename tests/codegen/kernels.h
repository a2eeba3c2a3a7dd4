// Hand-written kernels like those of fusion.
#pragma once

namespace tenon::test {

// Computes residual + gelu(x + bias) with the tanh approximation.
inline constexpr const char* kBiasGeluResidual =
    R"(kernel bias_gelu_residual(in p0: f32, in p1: f32, in p2: f32, out p3: f32; sizes n0 n1) {
  parallel i0 < n0 {
    vector i1 < n1 {
      %0 = load p0[i0*n1 + i1]
      %1 = load p1[i1]
      %2 = add f32 %0 %1
      %3 = mul f32 %2 %2
      %4 = constant f32 -0.0713548162726009
      %5 = constant f32 -1.5957691216057308
      %6 = fma f32 %3 %4 %5
      %7 = mul f32 %2 %6
      %8 = exp f32 %7
      %9 = constant f32 1.0
      %10 = add f32 %8 %9
      %11 = div f32 %2 %10
      %12 = load p2[i0*n1 + i1]
      %13 = add f32 %11 %12
      store p3[i0*n1 + i1] %13
    }
  }
})";

// Computes the layer norm of x + residual with weight and bias, and also the mean and 1/deviation of each row.
inline constexpr const char* kLayerNorm =
    R"(kernel layer_norm(in p0: f32, in p1: f32, in p2: f32, in p3: f32, out p4: f32, out p5: f32, out p6: f32; sizes n0 n1; scalars s0 s1) {
  parallel i0 < n0 {
    vector i1 < n1 {
      %0 = load p0[i0*n1 + i1]
      %1 = load p1[i0*n1 + i1]
      %2 = add f32 %0 %1
    } sum f32 %2 -> %3
    %4 = scalar f32 s0
    %5 = mul f32 %3 %4
    vector i2 < n1 {
      %6 = load p0[i0*n1 + i2]
      %7 = load p1[i0*n1 + i2]
      %8 = add f32 %6 %7
      %9 = sub f32 %8 %5
      %10 = mul f32 %9 %9
    } sum f32 %10 -> %11
    %12 = mul f32 %11 %4
    %13 = scalar f32 s1
    %14 = add f32 %12 %13
    %15 = sqrt f32 %14
    %16 = constant f32 1.0
    %17 = div f32 %16 %15
    store p5[i0] %5
    store p6[i0] %17
    vector i3 < n1 {
      %18 = load p0[i0*n1 + i3]
      %19 = load p1[i0*n1 + i3]
      %20 = add f32 %18 %19
      %21 = sub f32 %20 %5
      %22 = mul f32 %21 %17
      %23 = load p2[i3]
      %24 = load p3[i3]
      %25 = fma f32 %22 %23 %24
      store p4[i0*n1 + i3] %25
    }
  }
})";

// Computes the softmax of rows of scale * x + mask; the mask repeats every n2 rows.
inline constexpr const char* kSoftmax = R"(kernel softmax(in p0: f32, in p1: f32, out p2: f32; sizes n0 n1 n2 n3; scalars s0) {
  parallel i0 < n0, i1 < n2 {
    %0 = scalar f32 s0
    vector i2 < n1 {
      %1 = load p0[i0*n3 + i1*n1 + i2]
      %2 = load p1[i1*n1 + i2]
      %3 = fma f32 %1 %0 %2
    } max f32 %3 -> %4
    vector i3 < n1 {
      %5 = load p0[i0*n3 + i1*n1 + i3]
      %6 = load p1[i1*n1 + i3]
      %7 = fma f32 %5 %0 %6
      %8 = sub f32 %7 %4
      %9 = exp f32 %8
    } sum f32 %9 -> %10
    %11 = constant f32 1.0
    %12 = div f32 %11 %10
    vector i4 < n1 {
      %13 = load p0[i0*n3 + i1*n1 + i4]
      %14 = load p1[i1*n1 + i4]
      %15 = fma f32 %13 %0 %14
      %16 = sub f32 %15 %4
      %17 = exp f32 %16
      %18 = mul f32 %17 %12
      store p2[i0*n3 + i1*n1 + i4] %18
    }
  }
})";

// Transposes [n0, n1] into [n1, n0].
inline constexpr const char* kTranspose = R"(kernel transpose(in p0: f32, out p1: f32; sizes n0 n1) {
  parallel i0 < n1 {
    vector i1 < n0 {
      %0 = load p0[i1*n1 + i0]
      store p1[i0*n0 + i1] %0
    }
  }
})";

// Concatenates rows of 5 elements and rows of n1 - 5 elements.
inline constexpr const char* kCat = R"(kernel cat(in p0: bf16, in p1: bf16, out p2: bf16; sizes n0 n1 n2) {
  parallel i0 < n0 {
    vector i1 < n1 {
      %0 = index i1
      %1 = constant i64 5
      %2 = lt i64 %0 %1
      %3 = load p0[i0*5 + i1] if %2
      %4 = bit_not bool %2
      %5 = load p1[i0*n2 + i1 + -5] if %4
      %6 = cast f32 %3
      %7 = cast f32 %5
      %8 = select f32 %2 %6 %7
      %9 = cast bf16 %8
      store p2[i0*n1 + i1] %9
    }
  }
})";

// Computes column sums of the elements and of their squares.
inline constexpr const char* kColumnSums = R"(kernel column_sums(in p0: f32, out p1: f32, out p2: f32; sizes n0 n1) {
  parallel i0 < n1 {
    serial i1 < n0 {
      %0 = load p0[i1*n1 + i0]
      %1 = mul f32 %0 %0
    } sum f32 %0 -> %2, sum f32 %1 -> %3
    store p1[i0] %2
    store p2[i0] %3
  }
})";

// Computes the sum of all elements.
inline constexpr const char* kSum = R"(kernel sum(in p0: f32, out p1: f32; sizes n0) {
  parallel i0 < 1 {
    vector i1 < n0 {
      %0 = load p0[i1]
    } sum f32 %0 -> %1
    store p1[0] %1
  }
})";

}  // namespace tenon::test
