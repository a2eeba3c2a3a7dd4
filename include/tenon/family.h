// Building blocks for a model family: the fields of config.json, weights by name, layers, attention, and the registration. See
// docs/add-a-family.md for an example. Nothing here locks: a family is built on one thread.
#pragma once

#include <ATen/TensorOperators.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <tenon/models.h>

namespace tenon {

// The fields of config.json. A field that is missing, of the wrong type or out of range throws UserError(config) that names it. So do
// fields that were neither read nor ignored, once the model is built.
class TENON_API Fields {
 public:
  struct Impl;
  explicit Fields(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  // True if the field exists and is not null.
  bool has(const std::string& name) const;
  // True if the field exists and is null. This differs from a missing field if the default of a missing one is not null.
  bool is_null(const std::string& name) const;
  int64_t integer(const std::string& name, int64_t least = 1, int64_t most = int64_t{1} << 32) const;
  int64_t integer_or(const std::string& name, int64_t otherwise, int64_t least = 0, int64_t most = int64_t{1} << 32) const;
  double number(const std::string& name, double least, double most) const;
  double number_or(const std::string& name, double otherwise, double least, double most) const;
  bool boolean_or(const std::string& name, bool otherwise) const;
  std::string text_or(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;
  Fields object(const std::string& name) const;
  // Number of classes of a classifier: from id2label or num_labels, otherwise 2.
  size_t labels() const;
  // Accepts fields that do not change the result.
  void ignore(std::initializer_list<const char*> names) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

// The weights of a file below one path of the module tree.
class TENON_API Weights {
 public:
  struct TENON_API Source {
    virtual ~Source() = default;
    virtual bool has(const std::string& path) = 0;
    virtual at::Tensor take(const std::string& path, at::IntArrayRef sizes) = 0;
  };
  explicit Weights(std::shared_ptr<Source> source, std::string path = "") : source_(std::move(source)), path_(std::move(path)) {}

  Weights operator/(const std::string& name) const { return Weights(source_, path_.empty() ? name : path_ + "." + name); }
  Weights operator/(int64_t index) const { return *this / std::to_string(index); }
  bool has(const std::string& name) const { return source_->has((*this / name).path_); }
  // Returns a tensor. Throws UserError if it does not exist or has another shape.
  at::Tensor take(const std::string& name, at::IntArrayRef sizes) const { return source_->take((*this / name).path_, sizes); }
  // The same weights, with file names that `rename` computes from names in the tree.
  Weights renamed(std::string (*rename)(const std::string&)) const;

 private:
  std::shared_ptr<Source> source_;
  std::string path_;
};

// Layers. All products with weights go through these, so that banks can add adapters to them.
class TENON_API Linear : public Module {
 public:
  // Dimension order of the weight. GPT-2's Conv1D has input_first.
  enum class WeightLayout { output_first, input_first };
  Linear(const Weights& from, int64_t in, int64_t out, bool has_bias, WeightLayout layout = WeightLayout::output_first);
  // Shares the tensors of another layer.
  Linear(at::Tensor weight, at::Tensor bias);
  WeightLayout layout() const { return layout_; }
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor &weight, &bias;

 private:
  WeightLayout layout_ = WeightLayout::output_first;
};

class TENON_API Embedding : public Module {
 public:
  Embedding(const Weights& from, int64_t count, int64_t width);
  at::Tensor forward(const at::Tensor& ids) const;
  at::Tensor& weight;
};

// The output layer from hidden states to the vocabulary, with the embedding's weight if `tied`, otherwise with its own.
TENON_API Linear tied_or_own(bool tied, const Embedding& embedding, const Weights& from);

class TENON_API LayerNorm : public Module {
 public:
  LayerNorm(const Weights& from, int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;
  double epsilon() const { return epsilon_; }
  at::Tensor &weight, &bias;

 private:
  double epsilon_;
};

class TENON_API RmsNorm : public Module {
 public:
  // What a normalized element is multiplied by. Gemma has one_plus_weight, which is computed in f32.
  enum class Factor { weight, one_plus_weight };
  RmsNorm(const Weights& from, int64_t width, double epsilon, Factor factor = Factor::weight);
  at::Tensor forward(const at::Tensor& x) const;
  double epsilon() const { return epsilon_; }
  Factor factor() const { return factor_; }
  at::Tensor& weight;

 private:
  double epsilon_;
  Factor factor_;
};

class TENON_API Conv2d : public Module {
 public:
  Conv2d(const Weights& from, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, bool has_bias);
  at::Tensor forward(const at::Tensor& x) const;
  int64_t stride() const { return stride_; }
  int64_t padding() const { return padding_; }
  at::Tensor &weight, &bias;

 private:
  int64_t stride_, padding_;
};

class TENON_API BatchNorm : public Module {
 public:
  BatchNorm(const Weights& from, int64_t width);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor &weight, &bias, &mean, &variance, &batches;
};

// A list of modules of one type, named by their indices.
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

// Activation functions by Transformers' names: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, tanh. Throws UserError(config) for others.
using Activation = at::Tensor (*)(const at::Tensor&);
TENON_API Activation activation(const std::string& name);

// Converts [batch, length, heads * size] to [batch, heads, length, size] and back.
TENON_API at::Tensor split_heads(const at::Tensor& x, int64_t head_size);
TENON_API at::Tensor merge_heads(const at::Tensor& x);

// Attention of queries [batch, heads, queries, size] to keys and values [batch, kv heads, keys, size]. The mask is added to the scores.
// Without a mask each query attends to the keys up to its own position if `causal`, otherwise to all. `scale` is the factor of the scores,
// 1 / sqrt(size) if it is empty. If `softcap` is not 0, a score s becomes softcap * tanh(s / softcap) before the mask is added.
TENON_API at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask, bool causal,
                            double dropout = 0, std::optional<double> scale = {}, double softcap = 0);

// Masks for attend(): 0 where a query attends to a key and -inf elsewhere, [batch, 1, queries, keys].
TENON_API at::Tensor padding_mask(const at::Tensor& mask, at::ScalarType type);
// Queries are the last `length` of `first` + `length` tokens; `mask` is [batch, first + length] or undefined. A query that may attend to no
// key attends to itself, so that no softmax is over nothing.
TENON_API at::Tensor causal_mask(int64_t length, int64_t window, const at::Tensor& mask, at::ScalarType type, int64_t first = 0);

using ModelMaker = std::function<std::shared_ptr<Model>(const Fields& fields, const Weights& weights)>;
// Registers a family for load_model. `architecture` is an entry of "architectures" in config.json. A later registration replaces an
// earlier one. Register families before other threads load models.
TENON_API void register_family(const std::string& model_type, const std::string& architecture, ModelMaker make);

}  // namespace tenon
