// Adapters as data: PEFT directories on one base model. Which row of a batch uses which adapter is an argument of a call, so that
// switching, mixing, disabling, loading and deleting compile nothing.
//
//   auto model = tenon::load_model("llama/");
//   tenon::Bank bank(model);
//   bank.load("legal", "adapters/legal");
//   bank.load("french", "adapters/french");
//   auto run = tenon::compile(model);
//   run(ids, bank.rows({"legal", "french", tenon::kBase}));
//   bank.use("french");
//   run(ids);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

inline constexpr const char* kBase = "__base__";  // a row without an adapter

// What happens if a name in target_modules, or a key of rank_pattern or alpha_pattern, matches no layer. PEFT passes over it; here it is
// refused, since the adapter may belong to another model, or warned of through libtorch's warning handler.
enum class Unmatched { refuse, warn };

struct LoadOptions {
  Unmatched unmatched_patterns = Unmatched::refuse;
};

// How adapters are put together; the names are PEFT's.
struct Combination {
  std::string type = "svd";             // linear, cat, svd, ties, dare_linear, dare_ties, magnitude_prune, or one of these and _svd
  double density = 1;                   // of what ties, dare and magnitude_prune keep
  std::string majority_sign = "total";  // or frequency
  int64_t svd_rank = 0;                 // 0: the largest of theirs
  std::optional<double> svd_clamp;      // a quantile
};

struct TrainOptions {
  // The parameters of the base stop requiring gradients, as in PEFT: those of torch::nn modules require them by default. Without it the
  // base may train too; then a call throws UserError if a layer's own weight requires grad under DoRA, BOFT, LN tuning or a copy of the
  // layer, which need a frozen one.
  bool freeze_base = true;
};

// Sits on a model of load_model, or on a tree of torch::nn modules: on its Linear, Embedding, LayerNorm and Conv2d layers, by the paths
// that they have in the tree. Several banks may exist, one a model. All of it may be called from any thread, while calls run: a call of a
// model, and a scope of a tree, sees the adapters as they were when it began. What is refused throws UserError(adapter), whose text says
// what to do instead, and leaves all as it was.
class Bank {
 public:
  // Each throws UserError if it is null, or has a bank already.
  explicit Bank(std::shared_ptr<Model> model);
  explicit Bank(std::shared_ptr<torch::nn::Module> tree);
  template <class H>
  requires requires(H& holder) {
    holder.ptr();
    holder.is_empty();
  }
  explicit Bank(H holder) : Bank(holder.is_empty() ? nullptr : std::shared_ptr<torch::nn::Module>(holder.ptr())) {}
  ~Bank();

  // A directory of PEFT's. Loading a name again replaces its adapter, also for rows that were made before.
  void load(const std::string& name, const std::string& directory, const LoadOptions& options = {});
  void save(const std::string& name, const std::string& directory) const;
  void remove(const std::string& name);  // Rows that name it are refused from now on, even if the name is loaded again.
  std::vector<std::string> names() const;
  // How strong an adapter is: its own scale times this. Throws UserError for methods that have no scale, and for an adapter that is merged.
  void set_scale(const std::string& name, double factor);

  // A new adapter that is their weighted sum, for LoRA and IA3. Refused for those that have none (DoRA, lora_bias).
  void combine(const std::string& name, const std::vector<std::pair<std::string, double>>& of, const Combination& how = {});

  // One name for each row of the batch. Rows may outlive the bank: calls then refuse them.
  Rows rows(const std::vector<std::string>& names) const;
  // Until it is destroyed, calls on this thread use these rows. For trees, whose forward takes none:
  //
  //   auto run = tenon::compile([&](const at::Tensor& x, const tenon::Rows& rows) {
  //     auto scope = bank.scope(rows);
  //     return net->forward(x);
  //   });
  class Scope {
   public:
    explicit Scope(std::unique_ptr<models::PinScope> pin);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::unique_ptr<models::PinScope> pin_;
  };
  [[nodiscard]] Scope scope(const Rows& rows) const;
  // For calls that are given no rows; several at once act together, in this order.
  void use(const std::string& name) { use(std::vector<std::string>{name}); }
  void use(const std::vector<std::string>& names);

  // These adapters train from now on, and no others; until the next call of it they cannot be loaded again or removed. Every row of a
  // batch that uses one of them adds to its gradients. Throws UserError for an adapter that asks for dropout or is not f32.
  void train(const std::vector<std::string>& names, const TrainOptions& options = {});
  // No parameter of the base requires gradients any longer. `train` does it unless it is told otherwise.
  void freeze_base();
  // What an optimizer is given; by the names of the file, without the prefix that all have. They are leaves of autograd: backward(),
  // autograd::grad, hooks and vector_to_parameters work as with any others. Data that set_data gives them is copied by the next call.
  std::vector<NamedTensor> parameters(const std::string& name) const;
  // Of an AdaLoRA adapter that trains: what is added to the loss; and which ranks are left after a step of the optimizer, before gradients
  // are cleared. Saved are those that are left.
  at::Tensor penalty(const std::string& name) const;
  void allocate_ranks(const std::string& name, int64_t step);

  // Until it is destroyed, calls that are given no rows use none.
  class Disabled {
   public:
    explicit Disabled(Bank& bank);
    ~Disabled();
    Disabled(const Disabled&) = delete;
    Disabled& operator=(const Disabled&) = delete;

   private:
    Bank& bank_;
  };
  [[nodiscard]] Disabled disable() { return Disabled(*this); }

  // Writes the adapters into the base's weights; unmerge puts the old bits back. Meanwhile rows may name the base alone. No call may
  // run while weights change.
  void merge(const std::vector<std::string>& names);
  void unmerge();
  // Writes them into the weights for good, and takes all adapters away.
  void merge_and_unload(const std::vector<std::string>& names);

 private:
  explicit Bank(std::unique_ptr<adapters::Host> host);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon
