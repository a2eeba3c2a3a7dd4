// Hugging Face model directories: config.json and safetensors in, a model out that compiles.
//
//   auto model  = tenon::load_model("llama/");         // by model_type and architecture
//   auto fast   = tenon::compile(model);
//   auto logits = fast(ids);
//   tenon::save_model(*model, "copy/");
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenon/compile.h>

namespace tenon {

class NamedTensor {
 public:
  NamedTensor(std::string key, at::Tensor value) : key_(std::move(key)), value_(std::move(value)) {}
  const std::string& key() const { return key_; }
  const at::Tensor& value() const { return value_; }

 private:
  std::string key_;
  at::Tensor value_;
};

// Which adapter each row of a batch uses; tenon::Bank makes them. They know their bank and adapters by numbers that are never used again:
// a call throws UserError(adapter) if the bank no longer exists, is that of another model, or no longer has the adapter.
struct Rows {
  explicit Rows(at::Tensor rows) : entries(std::move(rows)) {}
  at::Tensor entries;  // int64 [batch]: 64-bit ids of entries of the bank
  template <class F>
  auto visit(F&& f) {
    return f(entries);
  }
};

// Where a layer meets a bank of adapters: numbers, since graphs hold them.
struct Seam {
  int64_t bank = 0, layer = 0;  // bank 0: none
  at::Tensor trained;           // parameters that train on this layer, one behind the other
};

// A tree of layers with the names that Transformers gives them.
class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  std::vector<NamedTensor> named_parameters() const;
  std::vector<NamedTensor> named_buffers() const;
  std::vector<at::Tensor> parameters() const;
  std::vector<const Module*> modules(bool include_self = true) const;
  const std::vector<std::pair<std::string, Module*>>& children() const { return children_; }

  bool is_training() const { return training_; }
  void train(bool on = true);
  void eval() { train(false); }

  void set_seam(Seam seam) { seam_ = std::move(seam); }
  const Seam& seam() const { return seam_; }

 protected:
  // What is put here is listed, saved and watched; the names are those of the file.
  at::Tensor& put_parameter(const std::string& name, at::Tensor value);
  at::Tensor& put_buffer(const std::string& name, at::Tensor value);
  void put_child(const std::string& name, Module& child) { children_.emplace_back(name, &child); }

 private:
  struct Own {
    std::string name;
    std::shared_ptr<at::Tensor> tensor;
    bool is_parameter;
  };
  std::vector<NamedTensor> named(bool parameters) const;

  std::vector<Own> own_;
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = false;
  Seam seam_;
};

// Parameters do not require gradients when they come from a file: what trains is said by the caller.
class Model : public Module {
 public:
  // Text: ids, int64 [batch, length]; mask, [batch, length], not 0 where a token counts (all, if undefined); types as BERT has
  // them. Images: pixels, [batch, channels, height, width]. Returns logits. Throws UserError(shape) that names the argument if one is of
  // another type or shape, or is empty; UserError(adapter) for rows that are not of this model's bank.
  at::Tensor forward(const at::Tensor& input, const at::Tensor& mask = {}, const at::Tensor& types = {});
  at::Tensor forward(const at::Tensor& input, const Rows& rows, const at::Tensor& mask = {}, const at::Tensor& types = {});

  // The text of config.json; saved with the weights.
  const std::string& config() const { return config_; }
  const std::string& generation_config() const { return generation_config_; }  // empty if the directory has none
  // The name in the file of what is called `name` in the tree; empty: not written, since it is another's.
  virtual std::string file_name(const std::string& name) const { return name; }

  // A bank's number, the rows of calls that are given none, and what trains on its layers; 0 and nothing take it off again.
  void set_bank(int64_t number, at::Tensor rows, std::vector<at::Tensor> trained) {
    bank_ = number, rows_ = std::move(rows), trained_ = std::move(trained);
  }
  const int64_t* bank() const { return &bank_; }
  const std::vector<at::Tensor>& trained() const { return trained_; }

 protected:
  virtual at::Tensor compute(const at::Tensor& input, const at::Tensor& mask, const at::Tensor& types) = 0;
  // Rows that a call is given, or those of calls that are given none.
  const at::Tensor& rows_or_standard(const Rows* rows) const { return rows ? rows->entries : rows_; }

 private:
  friend std::shared_ptr<Model> load_model(const std::string&, std::optional<at::ScalarType>);
  std::string config_, generation_config_;
  int64_t bank_ = 0;
  at::Tensor rows_;
  std::vector<at::Tensor> trained_;
};

// Throws UserError if a field of config.json is not supported, or a tensor is missing, unknown or of another shape. Weights are
// mapped, not read; `dtype` converts them.
std::shared_ptr<Model> load_model(const std::string& directory, std::optional<at::ScalarType> dtype = {});
void save_model(const Model& model, const std::string& directory, int64_t shard_bytes = int64_t{5} << 30);

namespace detail {
void check_not_null(bool is_null, const char* what);  // Throws UserError(shape).
}

// Models of this library depend on their arguments and weights alone. Throws UserError if the model is null.
template <std::derived_from<Model> M>
auto compile(std::shared_ptr<M> model, Options options = {}) {
  detail::check_not_null(model == nullptr, "the model");
  options.trust = Trust::pure;
  options.watch.push_back(Watched(model->bank()));
  options.watch.push_back(Watched::with_gradients([model] { return model->trained(); }));
  return detail::compile_module(std::move(model), std::move(options));
}

}  // namespace tenon
