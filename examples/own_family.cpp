// A family that the library does not have, GPT-Neo, in a user's program: own_family DIRECTORY ID... continues the token ids.
#include <tenon/causal.h>
#include <tenon/family.h>
#include <tenon/generate.h>

#include <iostream>

namespace {

using at::Tensor;
using tenon::Weights;

struct NeoConfig {
  int64_t vocabulary, width, inner, layers, heads, positions, window;
  double epsilon;
  tenon::Activation act;
  std::vector<std::string> attention;  // "local" layers attend to the window, "global" ones to all earlier tokens.
};

class NeoSelfAttention : public tenon::Module {
 public:
  NeoSelfAttention(const NeoConfig& c, const Weights& from, size_t layer)
      : head_size_(c.width / c.heads),
        layer_(layer),
        options_{.scale = 1, .windowed = c.attention[layer] == "local"},
        k_(from / "k_proj", c.width, c.width, false),
        v_(from / "v_proj", c.width, c.width, false),
        q_(from / "q_proj", c.width, c.width, false),
        out_(from / "out_proj", c.width, c.width, true) {
    put_child("k_proj", k_), put_child("v_proj", v_), put_child("q_proj", q_), put_child("out_proj", out_);
  }
  Tensor forward(const Tensor& x, const tenon::AttentionContext& context) const {
    auto heads = [&](const tenon::Linear& product) { return tenon::split_heads(product.forward(x), head_size_); };
    return out_.forward(tenon::attend_with_cache(context, layer_, heads(q_), heads(k_), heads(v_), options_));
  }

 private:
  int64_t head_size_;
  size_t layer_;
  tenon::AttentionOptions options_;
  tenon::Linear k_, v_, q_, out_;
};

// In files the layers of attention are one level deeper than those of the MLP.
struct NeoAttention : tenon::Module {
  NeoAttention(const NeoConfig& c, const Weights& from, size_t layer) : attention(c, from / "attention", layer) {
    put_child("attention", attention);
  }
  NeoSelfAttention attention;
};

class NeoMlp : public tenon::Module {
 public:
  NeoMlp(const NeoConfig& c, const Weights& from)
      : act_(c.act), fc_(from / "c_fc", c.width, c.inner, true), proj_(from / "c_proj", c.inner, c.width, true) {
    put_child("c_fc", fc_), put_child("c_proj", proj_);
  }
  Tensor forward(const Tensor& x) const { return proj_.forward(act_(fc_.forward(x))); }

 private:
  tenon::Activation act_;
  tenon::Linear fc_, proj_;
};

class NeoBlock : public tenon::Module {
 public:
  NeoBlock(const NeoConfig& c, const Weights& from, size_t layer)
      : ln_1_(from / "ln_1", c.width, c.epsilon),
        ln_2_(from / "ln_2", c.width, c.epsilon),
        attn_(c, from / "attn", layer),
        mlp_(c, from / "mlp") {
    put_child("ln_1", ln_1_), put_child("attn", attn_), put_child("ln_2", ln_2_), put_child("mlp", mlp_);
  }
  Tensor forward(const Tensor& x, const tenon::AttentionContext& context) const {
    Tensor h = x + attn_.attention.forward(ln_1_.forward(x), context);
    return h + mlp_.forward(ln_2_.forward(h));
  }

 private:
  tenon::LayerNorm ln_1_, ln_2_;
  NeoAttention attn_;
  NeoMlp mlp_;
};

class NeoTransformer : public tenon::Module {
 public:
  NeoTransformer(const NeoConfig& c, const Weights& from)
      : tokens(from / "wte", c.vocabulary, c.width),
        positions_(from / "wpe", c.positions, c.width),
        norm_(from / "ln_f", c.width, c.epsilon) {
    for (int64_t i = 0; i < c.layers; ++i) blocks_.add(c, from / "h" / i, static_cast<size_t>(i));
    put_child("wte", tokens), put_child("wpe", positions_), put_child("h", blocks_), put_child("ln_f", norm_);
  }
  Tensor forward(const Tensor& ids, const tenon::AttentionContext& context) const {
    Tensor x = tokens.forward(ids) + positions_.forward(context.positions);
    for (const auto& block : blocks_) x = block->forward(x, context);
    return norm_.forward(x);
  }
  tenon::Embedding tokens;

 private:
  tenon::Embedding positions_;
  tenon::ModuleList<NeoBlock> blocks_;
  tenon::LayerNorm norm_;
};

class Neo : public tenon::CausalModel {
 public:
  Neo(const NeoConfig& c, const Weights& from)
      : CausalModel({c.layers, c.heads, c.width / c.heads, c.positions, c.vocabulary, c.window, /*has_full_layers=*/true}),
        transformer_(c, from / "transformer"),
        head_(tenon::tied_or_own(true, transformer_.tokens, from / "lm_head")) {
    put_child("transformer", transformer_), put_child("lm_head", head_);
  }
  std::string file_name(const std::string& name) const override { return name == "lm_head.weight" ? "" : name; }

 protected:
  Tensor hidden(const Tensor& ids, const tenon::AttentionContext& context) override { return transformer_.forward(ids, context); }
  Tensor logits(const Tensor& hidden) override { return head_.forward(hidden); }

 private:
  NeoTransformer transformer_;
  tenon::Linear head_;
};

std::shared_ptr<tenon::Model> make_neo(const tenon::Fields& fields, const Weights& weights) {
  int64_t width = fields.integer("hidden_size"), layers = fields.integer("num_layers");
  NeoConfig c{.vocabulary = fields.integer("vocab_size"),
              .width = width,
              .inner = fields.integer_or("intermediate_size", 4 * width),
              .layers = layers,
              .heads = fields.integer("num_heads"),
              .positions = fields.integer("max_position_embeddings"),
              .window = fields.integer("window_size"),
              .epsilon = fields.number_or("layer_norm_epsilon", 1e-5, 0, 1),
              .act = tenon::activation(fields.text_or("activation_function", "gelu_new")),
              .attention = fields.texts("attention_layers")};
  if (c.attention.size() != static_cast<size_t>(layers)) fields.refuse("attention_layers", "does not have an entry for each layer");
  if (!fields.boolean_or("tie_word_embeddings", true)) fields.refuse("tie_word_embeddings", "false is not supported");
  fields.ignore({"attention_types", "attention_dropout", "embed_dropout", "resid_dropout", "classifier_dropout"});
  return std::make_shared<Neo>(c, weights);
}

}  // namespace

int main(int count, char** arguments) try {
  tenon::register_family("gpt_neo", "GPTNeoForCausalLM", make_neo);
  tenon::Generator generate(tenon::load_causal_model(arguments[1]));
  std::vector<int64_t> ids;
  for (int i = 2; i < count; ++i) ids.push_back(std::stoll(arguments[i]));
  auto rows = generate({ids}, {.max_new_tokens = 32, .stop = std::vector<int64_t>()});
  for (int64_t id : rows[0]) std::cout << id << " ";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
