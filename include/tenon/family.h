// What a family of models is written with: the fields of config.json, the weights by name, layers, attention, and a row in the
// list of families. docs/add-a-family.md shows one.
#pragma once

#include <ATen/TensorOperators.h>

#include <functional>
#include <string>
#include <vector>

#include <tenon/models.h>

namespace tenon {

// The fields of config.json. What is missing, of another type or out of range is refused by name, and so is at the end what was
// neither read nor ignored.
class Fields {
 public:
  struct Impl;
  explicit Fields(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  bool has(const std::string& name) const;  // and is not null
  int64_t integer(const std::string& name, int64_t least = 1, int64_t most = int64_t{1} << 32) const;
  int64_t integer_or(const std::string& name, int64_t otherwise, int64_t least = 0, int64_t most = int64_t{1} << 32) const;
  double number(const std::string& name, double least, double most) const;
  double number_or(const std::string& name, double otherwise, double least, double most) const;
  bool boolean_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  Fields object(const std::string& name) const;
  size_t labels() const;  // of a classifier: id2label, num_labels, or 2
  // For fields that do not change what is computed.
  void ignore(std::initializer_list<const char*> names) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

// Where weights come from, at one path of the tree.
class Weights {
 public:
  struct Source {
    virtual ~Source() = default;
    virtual bool has(const std::string& path) = 0;
    virtual at::Tensor take(const std::string& path, at::IntArrayRef sizes) = 0;
  };
  explicit Weights(std::shared_ptr<Source> source, std::string path = "") : source_(std::move(source)), path_(std::move(path)) {}

  Weights operator/(const std::string& name) const { return Weights(source_, path_.empty() ? name : path_ + "." + name); }
  Weights operator/(int64_t index) const { return *this / std::to_string(index); }
  bool has(const std::string& name) const { return source_->has((*this / name).path_); }
  // Throws if there is none of that name, or it has another shape.
  at::Tensor take(const std::string& name, at::IntArrayRef sizes) const { return source_->take((*this / name).path_, sizes); }
  // The same weights under the names that `rename` makes of the tree's.
  Weights renamed(std::string (*rename)(const std::string&)) const;

 private:
  std::shared_ptr<Source> source_;
  std::string path_;
};

// Layers. All products with weights go through these: where a bank of adapters will sit.
class Linear : public Module {
 public:
  enum class Stored { output_first, input_first };  // input_first is GPT-2's Conv1D
  Linear(const Weights& from, int64_t in, int64_t out, bool has_bias, Stored stored = Stored::output_first);
  Linear(at::Tensor weight, at::Tensor bias);  // another layer's
  Stored stored() const { return stored_; }
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor &weight, &bias;

 private:
  Stored stored_ = Stored::output_first;
};

class Embedding : public Module {
 public:
  Embedding(const Weights& from, int64_t count, int64_t width);
  at::Tensor forward(const at::Tensor& ids) const;
  at::Tensor& weight;
};

// A head from hidden states to the vocabulary: with the embedding's weight, or with one of its own.
Linear tied_or_own(bool tied, const Embedding& embedding, const Weights& from);

class LayerNorm : public Module {
 public:
  LayerNorm(const Weights& from, int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;
  double epsilon() const { return epsilon_; }
  at::Tensor &weight, &bias;

 private:
  double epsilon_;
};

class RmsNorm : public Module {
 public:
  RmsNorm(const Weights& from, int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;
  double epsilon() const { return epsilon_; }
  at::Tensor& weight;

 private:
  double epsilon_;
};

class Conv2d : public Module {
 public:
  Conv2d(const Weights& from, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool has_bias);
  at::Tensor forward(const at::Tensor& x) const;
  int64_t stride() const { return stride_; }
  int64_t padding() const { return padding_; }
  at::Tensor &weight, &bias;

 private:
  int64_t stride_, padding_;
};

class BatchNorm : public Module {
 public:
  BatchNorm(const Weights& from, int64_t width);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor &weight, &bias, &mean, &variance, &batches;
};

// A list of equal modules, named by their places.
template <class M>
class ModuleList : public Module {
 public:
  template <class... Args>
  void add(Args&&... args) {
    items_.push_back(std::make_unique<M>(std::forward<Args>(args)...));
    put_child(std::to_string(items_.size() - 1), *items_.back());
  }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  std::vector<std::unique_ptr<M>> items_;
};

// By Transformers' names: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, tanh; another name is refused.
using Activation = at::Tensor (*)(const at::Tensor&);
Activation activation(const std::string& name);

// [batch, length, heads * size] to [batch, heads, length, size] and back.
at::Tensor split_heads(const at::Tensor& x, int64_t head_size);
at::Tensor merge_heads(const at::Tensor& x);

// Queries [batch, heads, queries, size], keys and values [batch, kv heads, keys, size]. The mask is added to the scores; without
// one each query sees the keys up to its own place if `causal`, else all.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, bool causal, double dropout = 0);

// 0 where a key counts and -inf where not, [batch, 1, queries, keys]. Each query sees itself, so that no row is empty.
at::Tensor padding_mask(const at::Tensor& mask, at::ScalarType type);
// Queries are the last `length` of all tokens, `first` stand before them; the mask is [batch, first + length] or undefined.
at::Tensor causal_mask(int64_t length, int64_t window, const at::Tensor& mask, at::ScalarType type, int64_t first = 0);

using ModelMaker = std::function<std::shared_ptr<Model>(const Fields& fields, const Weights& weights)>;
// `architecture` is what config.json names under "architectures". A later entry replaces an earlier one.
void register_family(const std::string& model_type, const std::string& architecture, ModelMaker make);

}  // namespace tenon
