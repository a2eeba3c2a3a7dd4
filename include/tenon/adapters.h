// Adapters as data: PEFT directories on one base model. Which adapter acts on which batch row is an argument of a call, so switching,
// mixing, disabling, loading and removing adapters never recompile.
//
//   auto model = tenon::load_model("llama/");
//   tenon::Bank bank(model);
//   bank.load("legal", "adapters/legal");
//   bank.create("french", tenon::LoraConfig{.r = 16, .target_modules = {"q_proj", "v_proj"}});
//   auto run = tenon::compile(model);
//   run(ids, bank.rows({"legal", "french", tenon::kBase}));
//   bank.use("french");
//   run(ids);
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tenon/adapter_configs.h>
#include <tenon/models.h>

namespace torch::nn {
class Module;
}

namespace tenon {

namespace adapters {
class Host;
}
namespace models {
class PinScope;
}

// The name of the base model in Bank::rows: no adapter acts on that batch row.
inline constexpr const char* kBase = "__base__";

// What Bank::load and Bank::create do if an entry of target_modules, or a key of rank_pattern or alpha_pattern, matches no layer. PEFT
// ignores such entries, but they often mean that the adapter belongs to another model.
enum class Unmatched {
  refuse,  // Throws UserError(adapter) that names the entry.
  warn,    // Accepts the adapter and warns through libtorch's warning handler.
};

struct LoadOptions {
  Unmatched unmatched_patterns = Unmatched::refuse;
};

// One of the structs of tenon/adapter_configs.h.
template <class C>
concept AdapterConfig = requires(const C& config) {
  { to_json(config) } -> std::same_as<std::string>;
};

// How Bank::combine combines adapters. Names and values are those of PEFT's add_weighted_adapter.
struct Combination {
  // One of linear, cat, svd, ties, dare_linear, dare_ties, magnitude_prune; all but the first two also with the suffix _svd.
  std::string type = "svd";
  // Fraction of the values that ties, dare_* and magnitude_prune keep.
  double density = 1;
  // "total" or "frequency".
  std::string majority_sign = "total";
  // Rank of the result of svd; 0 takes the largest rank of the combined adapters.
  int64_t svd_rank = 0;
  // Quantile at which svd clamps the values of its factors.
  std::optional<double> svd_clamp;
};

struct TrainOptions {
  // Calls freeze_base(), as PEFT does: parameters of torch::nn modules require gradients by default. If this is false the base may
  // train too. DoRA, BOFT, LN tuning and modules_to_save need a frozen base weight: a call throws UserError(adapter) if a layer
  // under one of them requires grad.
  bool freeze_base = true;
};

// All adapters of one model: of a model from load_model, or of a tree of torch::nn modules, on its Linear, Embedding, LayerNorm and
// Conv2d layers. A model has at most one bank.
//
// All functions may be called from any thread while calls of the model run. A call of the model, and a scope of a tree, uses the
// adapters as they were when it began. Errors are UserError(adapter) with a text that says what to do instead; the bank is then
// unchanged.
class TENON_API Bank {
 public:
  // Each throws UserError if the model is null or has a bank already.
  explicit Bank(std::shared_ptr<Model> model);
  explicit Bank(std::shared_ptr<torch::nn::Module> tree);
  template <class H>
  requires requires(H& holder) {
    holder.ptr();
    holder.is_empty();
  }
  explicit Bank(H holder) : Bank(holder.is_empty() ? nullptr : std::shared_ptr<torch::nn::Module>(holder.ptr())) {}
  ~Bank();

  // Loads a PEFT directory. Loading a name again replaces its adapter, also for Rows that were made before.
  void load(const std::string& name, const std::string& directory, const LoadOptions& options = {});
  // Creates an adapter as PEFT's get_peft_model does: from the same seed (torch::manual_seed) its tensors have the same bits, and the
  // generator ends in the same state. All random numbers come from libtorch's default CPU generator, except VeRA's projections, which have
  // their own seed. Numbers that other threads draw at the same time change the values, so seed and create on one thread. `config` is a
  // struct, or the text of an adapter_config.json in which fields with default values may be missing. Throws for fields that the method
  // does not have, for initializations that need data or change the base, if the name is taken, and while adapters are merged. The new
  // adapter acts and is trained once use(), rows() or train() name it.
  void create(const std::string& name, const std::string& config, const LoadOptions& options = {});
  template <AdapterConfig C>
  void create(const std::string& name, const C& config, const LoadOptions& options = {}) {
    create(name, to_json(config), options);
  }
  // Writes a PEFT directory that PEFT loads.
  void save(const std::string& name, const std::string& directory) const;
  // Removes an adapter. Calls refuse Rows that name it from now on, even if the name is loaded again.
  void remove(const std::string& name);
  std::vector<std::string> names() const;
  // Multiplies an adapter's own scale by this factor. Throws for methods without a scale, and while the adapter is merged.
  void set_scale(const std::string& name, double factor);

  // Adds the adapter that is the weighted combination of others. Works for LoRA and IA3; throws for adapters that cannot be combined
  // (DoRA, lora_bias).
  void combine(const std::string& name, const std::vector<std::pair<std::string, double>>& of, const Combination& how = {});

  // Returns the assignment of adapters to batch rows, one name per row. Calls refuse Rows whose bank no longer exists.
  Rows rows(const std::vector<std::string>& names) const;
  // Makes calls of this thread use these rows until it is destroyed. Meant for trees, whose forward has no such argument:
  //
  //   auto run = tenon::compile([&](const at::Tensor& x, const tenon::Rows& rows) {
  //     auto scope = bank.scope(rows);
  //     return net->forward(x);
  //   });
  class TENON_API Scope {
   public:
    explicit Scope(std::unique_ptr<models::PinScope> pin);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::unique_ptr<models::PinScope> pin_;
  };
  [[nodiscard]] Scope scope(const Rows& rows) const;
  // Chooses the adapters of calls without Rows. Several adapters act together, in this order.
  void use(const std::string& name) { use(std::vector<std::string>{name}); }
  void use(const std::vector<std::string>& names);

  // Makes the parameters of these adapters, and of no others, require gradients. Until the next call of train() these adapters cannot be
  // loaded again or removed. Each batch row adds to the gradients of the adapter that it uses. Throws for adapters that are not f32.
  // Dropout acts in calls that record gradients while the layer is in training mode, as model->train() and net->train() set it; models of
  // load_model begin in evaluation mode. It draws from libtorch's default generator, with the masks of PEFT for one adapter.
  void train(const std::vector<std::string>& names, const TrainOptions& options = {});
  // Makes all parameters of the base not require gradients. train() calls it unless TrainOptions say otherwise.
  void freeze_base();
  // Returns what PEFT's print_trainable_parameters prints: "trainable params: 896 || all params: 20,512 || trainable%: 4.3682".
  std::string trainable_summary() const;
  // The trainable parameters, for an optimizer. Names are those in the adapter's file, without the common prefix. They are autograd
  // leaves: backward(), autograd::grad, hooks and vector_to_parameters work as usual. The next call copies data given by set_data.
  std::vector<NamedTensor> parameters(const std::string& name) const;
  // AdaLoRA only. penalty() is the orthogonality term to add to the loss. allocate_ranks() prunes ranks; call it after each optimizer
  // step, before gradients are cleared. save() writes the remaining ranks.
  at::Tensor penalty(const std::string& name) const;
  void allocate_ranks(const std::string& name, int64_t step);

  // Makes calls without Rows use the base alone until it is destroyed.
  class TENON_API Disabled {
   public:
    explicit Disabled(Bank& bank);
    ~Disabled();
    Disabled(const Disabled&) = delete;
    Disabled& operator=(const Disabled&) = delete;

   private:
    Bank& bank_;
  };
  [[nodiscard]] Disabled disable() { return Disabled(*this); }

  // merge() adds the adapters to the base's weights; unmerge() restores the old weights bit by bit. In between, Rows may only name
  // kBase. No call may run while either of them runs.
  void merge(const std::vector<std::string>& names);
  void unmerge();
  // Merges adapters permanently and removes all adapters.
  void merge_and_unload(const std::vector<std::string>& names);

 private:
  explicit Bank(std::unique_ptr<adapters::Host> host);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
