// Models from Hugging Face directories (config.json and safetensors files), and back.
//
//   auto model  = tenon::load_model("llama/");         // model_type and architectures choose the family
//   auto fast   = tenon::compile(model);
//   auto logits = fast(ids);
//   tenon::save_model(*model, "copy/");
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tenon/compile.h>

namespace tenon {

// A tensor with its name; the members are named as in torch::OrderedDict::Item.
class NamedTensor {
 public:
  NamedTensor(std::string key, at::Tensor value) : key_(std::move(key)), value_(std::move(value)) {}
  const std::string& key() const { return key_; }
  const at::Tensor& value() const { return value_; }

 private:
  std::string key_;
  at::Tensor value_;
};

// The adapter of each batch row, made by Bank::rows. The ids of banks and adapters are never reused: a call throws UserError(adapter) if
// the bank no longer exists, belongs to another model, or no longer has the adapter.
struct Rows {
  explicit Rows(at::Tensor rows) : entries(std::move(rows)) {}
  at::Tensor entries;  // int64 [batch]: adapter ids.
  template <class F>
  auto visit(F&& f) {
    return f(entries);
  }
};

// The connection of a layer to a bank of adapters. Ids are integers because graphs hold them as constants.
struct AdapterSite {
  int64_t bank = 0, layer = 0;  // Bank 0 means that there is no bank.
  at::Tensor trained;           // Trainable parameters of this layer's adapters, concatenated.
  // Whether the layer is in training mode, in which adapters with dropout drop something. Empty means that it is not.
  std::function<bool()> is_training = {};
};

// A tree of layers with the names of Transformers. Concurrent reads are safe; changing parameters needs a lock of the caller's.
class TENON_API Module {
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

  // Used by Bank.
  void set_adapter_site(AdapterSite site) { adapter_site_ = std::move(site); }
  const AdapterSite& adapter_site() const { return adapter_site_; }

 protected:
  // Registers parameters, buffers and children. They are listed, saved and watched under these names, which are those of the file.
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
  AdapterSite adapter_site_;
};

// A model with its configuration. Parameters loaded from a file do not require gradients. forward() may be called from several threads.
class TENON_API Model : public Module {
 public:
  // Returns logits. For text, `input` is int64 ids [batch, length]; `mask` is [batch, length] and not 0 for tokens that count (all tokens
  // if undefined); `types` are BERT's token type ids. For images, `input` is pixels [batch, channels, height, width]. Throws
  // UserError(shape) that names the argument if it has the wrong type or shape or is empty, and UserError(adapter) for rows of another
  // model's bank.
  at::Tensor forward(const at::Tensor& input, const at::Tensor& mask = {}, const at::Tensor& types = {});
  at::Tensor forward(const at::Tensor& input, const Rows& rows, const at::Tensor& mask = {}, const at::Tensor& types = {});

  // The texts of config.json and generation_config.json (empty if there is none). save_model writes them with the weights.
  const std::string& config() const { return config_; }
  const std::string& generation_config() const { return generation_config_; }
  // The name in the file of the tensor called `name` in the tree. Empty if the tensor is not saved because it is tied to another one.
  virtual std::string file_name(const std::string& name) const { return name; }

  // Used by Bank: its id (0 for none), the rows of calls without Rows, and the trainable parameters of its adapters.
  void set_bank(int64_t id, at::Tensor rows, std::vector<at::Tensor> trained) {
    bank_ = id, rows_ = std::move(rows), trained_ = std::move(trained);
  }
  const int64_t* bank() const { return &bank_; }
  const std::vector<at::Tensor>& trained() const { return trained_; }

 protected:
  virtual at::Tensor compute(const at::Tensor& input, const at::Tensor& mask, const at::Tensor& types) = 0;
  // The rows of a call, or the default ones if the call has none.
  const at::Tensor& rows_or_default(const Rows* rows) const { return rows ? rows->entries : rows_; }

 private:
  friend TENON_API std::shared_ptr<Model> load_model(const std::string&, std::optional<at::ScalarType>);
  std::string config_, generation_config_;
  int64_t bank_ = 0;
  at::Tensor rows_;
  std::vector<at::Tensor> trained_;
};

// Loads a model. Weights are memory-mapped; `dtype` converts them. Throws UserError if the family is unknown, a field of config.json is
// not supported, or a tensor is missing, unexpected or of the wrong shape. May be called from any thread.
TENON_API std::shared_ptr<Model> load_model(const std::string& directory, std::optional<at::ScalarType> dtype = {});
// Writes config.json and safetensors files of at most `shard_bytes` that Transformers loads. Throws UserError(file) if it cannot.
TENON_API void save_model(const Model& model, const std::string& directory, int64_t shard_bytes = int64_t{5} << 30);

namespace detail {
// Throws UserError(shape).
TENON_API void check_not_null(bool is_null, const char* what);

// Models are pure, and depend on their bank besides their weights. P points to one.
template <class P>
void set_model_options(Options& options, const P& model) {
  options.trust = Trust::pure;
  options.watch.push_back(Watched(model->bank()));
  options.watch.push_back(Watched::with_gradients([model] { return model->trained(); }));
}
}  // namespace detail

// Compiles a model. Options::trust is always pure here, since models depend only on their arguments and weights. Throws UserError if the
// model is null.
template <std::derived_from<Model> M>
auto compile(std::shared_ptr<M> model, Options options = {}) {
  detail::check_not_null(model == nullptr, "the model");
  detail::set_model_options(options, model);
  return detail::compile_module(std::move(model), std::move(options));
}

}  // namespace tenon
