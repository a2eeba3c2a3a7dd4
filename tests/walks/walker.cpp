#include "walks/walker.h"

namespace tenon::walks {
namespace {

constexpr int64_t kWidth = 6;

int64_t below(Random& random, int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); }

}  // namespace

Layer::Layer(Kind k, Random& random) : kind(k) {
  if (kind == Kind::linear || kind == Kind::repeat || kind == Kind::norm) {
    linear = torch::nn::Linear(kWidth, kWidth);
  } else if (kind == Kind::batch_norm) {
    batch_norm = torch::nn::BatchNorm1d(kWidth);
  } else if (kind == Kind::counter || kind == Kind::cache || kind == Kind::pointer) {
    buffer = torch::zeros({kWidth});
  } else if (kind == Kind::choice) {
    for (int i = 0; i < 3; ++i) choices.push_back(torch::randn({kWidth}));
  }
  times = 1 + static_cast<int>(below(random, 3));
}

Tensor Layer::forward(Tensor x) {
  ++runs;
  auto type = x.scalar_type();
  switch (kind) {
    case Kind::linear:
      return linear(x);
    case Kind::norm:
      return torch::layer_norm(x, {kWidth}, linear->bias);
    case Kind::batch_norm:
      return batch_norm(x);
    case Kind::dropout:
      return torch::dropout(x, 0.4, training);
    case Kind::scale:
      return x * factor;
    case Kind::branch:
      return flag ? x.relu() : x.tanh() + 1;
    case Kind::repeat:
      for (int i = 0; i < times; ++i) x = linear(x).tanh();
      return x;
    case Kind::counter:
      buffer.add_(1);
      if (flag) buffer.narrow(0, 0, 3).mul_(0.5);
      return x + buffer.to(type);
    case Kind::cache: {
      Tensor now = x.detach().mean(0).to(buffer.scalar_type());
      Tensor old = kept.defined() && kept.scalar_type() == now.scalar_type() ? kept : buffer;
      kept = now;
      return x + old.to(type);
    }
    case Kind::pointer: {
      Tensor flat = x.detach().to(torch::kFloat).contiguous();
      if (flat.data_ptr<float>()[0] > 0) x = x * 2;
      if (flag && !buffer.is_inference() && buffer.scalar_type() == torch::kFloat) buffer.data_ptr<float>()[1] += 1;
      return x - buffer.to(type);
    }
    case Kind::item:
      return x.sum().item<double>() > factor ? x - 1 : x + 1;
    case Kind::choice:
      return x + choices[times % 3].to(type);
    case Kind::count:
      break;
  }
  return x;
}

Tensors Layer::tensors() const {
  Tensors out;
  if (linear) out = {linear->weight, linear->bias};
  if (batch_norm)
    for (const auto& list : {batch_norm->parameters(), batch_norm->buffers()}) out.insert(out.end(), list.begin(), list.end());
  if (buffer.defined()) out.push_back(buffer);
  if (kept.defined()) out.push_back(kept);
  return out;
}

Walker::Walker(Random& random) {
  int64_t depth = 3 + below(random, 4);
  for (int64_t i = 0; i < depth; ++i)
    layers.emplace_back(static_cast<Layer::Kind>(below(random, static_cast<int64_t>(Layer::Kind::count))), random);
}

Tensor Walker::forward(const Tensor& x) {
  Tensor h = x;
  for (Layer& layer : layers) h = layer.forward(h);
  return h;
}

Tensors Walker::parameters() const {
  Tensors out;
  for (const Layer& layer : layers)
    for (const Tensor& t : layer.tensors())
      if (t.is_leaf() && t.requires_grad()) out.push_back(t);
  return out;
}

Tensors Walker::state() const {
  Tensors out;
  for (const Layer& layer : layers) {
    for (const Tensor& t : layer.tensors()) out.push_back(t);
    out.push_back(torch::tensor(layer.runs));
  }
  return out;
}

std::string act(Random& random, Walker& a, Walker& b, CallContext& context) {
  uint64_t seed = random();
  auto both = [&](auto&& f) {
    for (Walker* w : {&a, &b}) {
      torch::manual_seed(seed);
      Random same(seed);
      f(*w, same);
    }
  };
  auto on_layer = [&](auto&& f) {
    both([&](Walker& w, Random& r) { f(w.layers[static_cast<size_t>(below(r, static_cast<int64_t>(w.layers.size())))], r); });
  };
  switch (below(random, 19)) {
    case 0:
      on_layer([](Layer& l, Random&) { l.flag = !l.flag; });
      return "a flag flips";
    case 1:
      on_layer([](Layer& l, Random&) { l.factor *= 0.75; });
      return "a factor changes";
    case 2:
      on_layer([](Layer& l, Random& r) { l.times = 1 + static_cast<int>(below(r, 3)); });
      return "a count changes";
    case 3:
      both([](Walker& w, Random&) {
        for (Layer& l : w.layers) {
          l.training = !l.training;
          if (l.batch_norm) l.batch_norm->train(l.training);
        }
      });
      return "train or eval";
    case 4:
      on_layer([](Layer& l, Random& r) { l = Layer(l.kind, r); });
      return "a layer is replaced";
    case 5:
      on_layer([](Layer& l, Random&) {
        torch::NoGradGuard off;
        for (const Tensor& t : l.tensors())
          if (t.is_floating_point() && !t.is_inference()) t.data().mul_(0.9);
      });
      return "tensors change through data()";
    case 6:
      on_layer([](Layer& l, Random&) {
        if (l.linear) l.linear->weight.set_data(torch::randn({kWidth, kWidth}, l.linear->weight.options().requires_grad(false)));
      });
      return "a weight gets another storage";
    case 7:
      on_layer([](Layer& l, Random&) {
        if (l.linear) l.linear->weight.set_requires_grad(!l.linear->weight.requires_grad());
      });
      return "a weight is frozen or unfrozen";
    case 8:
      both([](Walker& w, Random&) {
        torch::NoGradGuard off;
        for (Tensor& p : w.parameters())
          if (p.grad().defined() && p.grad().scalar_type() == p.scalar_type()) p.sub_(p.grad(), 0.05);
      });
      return "a step of gradient descent";
    case 9:
      context.grad = !context.grad;
      return "grad mode";
    case 10:
      context.autocast = !context.autocast;
      return "autocast";
    case 11:
      context.inference = !context.inference;
      return "inference mode";
    case 12:
      context.wide = !context.wide;
      return "another batch size";
    case 13:
      context.transposed = !context.transposed;
      return "another layout";
    case 14:
      context.offset = !context.offset;
      context.requires_grad = !context.requires_grad;
      return "another storage offset of the argument";
    case 15:
      context.backward_inside = !context.backward_inside;
      return "backward inside or outside the function";
    case 16:
      context.keep_gradients = !context.keep_gradients;
      return "gradients are kept or not";
    case 17:
      both([](Walker& w, Random& r) {
        if (w.layers.size() > 2) w.layers.erase(w.layers.begin() + below(r, static_cast<int64_t>(w.layers.size())));
        else w.layers.emplace_back(Layer::Kind::repeat, r);
      });
      return "a layer is added or removed";
    default:
      on_layer([](Layer& l, Random&) { std::reverse(l.choices.begin(), l.choices.end()); });
      return "choices are reordered";
  }
}

}  // namespace tenon::walks
