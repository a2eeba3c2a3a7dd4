// A family that the library does not have, OPT, in a user's program: own_family DIRECTORY ID... continues the token ids.
#include <tenon/causal.h>
#include <tenon/family.h>
#include <tenon/generate.h>

#include <iostream>

namespace {

using at::Tensor;
using tenon::Weights;

struct OptConfig {
  int64_t vocabulary, width, inner, layers, heads, positions;
  tenon::Activation act;
};

class OptAttention : public tenon::Module {
 public:
  OptAttention(const OptConfig& c, const Weights& from, size_t layer)
      : head_size_(c.width / c.heads),
        layer_(layer),
        q_(from / "q_proj", c.width, c.width, true),
        k_(from / "k_proj", c.width, c.width, true),
        v_(from / "v_proj", c.width, c.width, true),
        out_(from / "out_proj", c.width, c.width, true) {
    put_child("q_proj", q_), put_child("k_proj", k_), put_child("v_proj", v_), put_child("out_proj", out_);
  }
  Tensor forward(const Tensor& x, const tenon::AttentionContext& context) const {
    auto heads = [&](const tenon::Linear& product) { return tenon::split_heads(product.forward(x), head_size_); };
    return out_.forward(tenon::attend_with_cache(context, layer_, heads(q_), heads(k_), heads(v_)));
  }

 private:
  int64_t head_size_;
  size_t layer_;
  tenon::Linear q_, k_, v_, out_;
};

class OptLayer : public tenon::Module {
 public:
  OptLayer(const OptConfig& c, const Weights& from, size_t layer)
      : act_(c.act),
        attention_(c, from / "self_attn", layer),
        before_(from / "self_attn_layer_norm", c.width, 1e-5),
        after_(from / "final_layer_norm", c.width, 1e-5),
        fc1_(from / "fc1", c.width, c.inner, true),
        fc2_(from / "fc2", c.inner, c.width, true) {
    put_child("self_attn", attention_), put_child("self_attn_layer_norm", before_), put_child("final_layer_norm", after_);
    put_child("fc1", fc1_), put_child("fc2", fc2_);
  }
  Tensor forward(const Tensor& x, const tenon::AttentionContext& context) const {
    Tensor h = x + attention_.forward(before_.forward(x), context);
    return h + fc2_.forward(act_(fc1_.forward(after_.forward(h))));
  }

 private:
  tenon::Activation act_;
  OptAttention attention_;
  tenon::LayerNorm before_, after_;
  tenon::Linear fc1_, fc2_;
};

constexpr int64_t kFirstPosition = 2;  // the table of positions has two rows that no token uses

class OptDecoder : public tenon::Module {
 public:
  OptDecoder(const OptConfig& c, const Weights& from)
      : tokens(from / "embed_tokens", c.vocabulary, c.width),
        positions_(from / "embed_positions", c.positions + kFirstPosition, c.width),
        norm_(from / "final_layer_norm", c.width, 1e-5) {
    for (int64_t i = 0; i < c.layers; ++i) layers_.add(c, from / "layers" / i, static_cast<size_t>(i));
    put_child("embed_tokens", tokens), put_child("embed_positions", positions_);
    put_child("layers", layers_), put_child("final_layer_norm", norm_);
  }
  Tensor forward(const Tensor& ids, const tenon::AttentionContext& context) const {
    Tensor x = tokens.forward(ids) + positions_.forward(context.positions + kFirstPosition);
    for (const auto& layer : layers_) x = layer->forward(x, context);
    return norm_.forward(x);
  }
  tenon::Embedding tokens;

 private:
  tenon::Embedding positions_;
  tenon::ModuleList<OptLayer> layers_;
  tenon::LayerNorm norm_;
};

struct OptBody : tenon::Module {
  OptBody(const OptConfig& c, const Weights& from) : decoder(c, from / "decoder") { put_child("decoder", decoder); }
  OptDecoder decoder;
};

class Opt : public tenon::CausalModel {
 public:
  Opt(const OptConfig& c, const Weights& from)
      : CausalModel({c.layers, c.heads, c.width / c.heads, c.positions, c.vocabulary}),
        model_(c, from / "model"),
        head_(tenon::tied_or_own(true, model_.decoder.tokens, from / "lm_head")) {
    put_child("model", model_), put_child("lm_head", head_);
  }
  std::string file_name(const std::string& name) const override { return name == "lm_head.weight" ? "" : name; }

 protected:
  Tensor hidden(const Tensor& ids, const tenon::AttentionContext& context) override { return model_.decoder.forward(ids, context); }
  Tensor logits(const Tensor& hidden) override { return head_.forward(hidden); }

 private:
  OptBody model_;
  tenon::Linear head_;
};

std::shared_ptr<tenon::Model> make_opt(const tenon::Fields& fields, const Weights& weights) {
  OptConfig c{fields.integer("vocab_size"),
              fields.integer("hidden_size"),
              fields.integer("ffn_dim"),
              fields.integer("num_hidden_layers"),
              fields.integer("num_attention_heads"),
              fields.integer("max_position_embeddings"),
              tenon::activation(fields.text_or("activation_function", "relu"))};
  if (fields.integer_or("word_embed_proj_dim", c.width) != c.width) fields.refuse("word_embed_proj_dim", "is not hidden_size");
  for (const char* name : {"do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine"})
    if (!fields.boolean_or(name, true)) fields.refuse(name, "false is not supported");
  fields.ignore({"dropout", "attention_dropout", "layerdrop", "init_std"});  // of training
  return std::make_shared<Opt>(c, weights);
}

}  // namespace

int main(int count, char** arguments) try {
  tenon::register_family("opt", "OPTForCausalLM", make_opt);
  tenon::Generator generate(tenon::load_causal_model(arguments[1]));
  std::vector<int64_t> ids;
  for (int i = 2; i < count; ++i) ids.push_back(std::stoll(arguments[i]));
  auto rows = generate({ids}, {.max_new_tokens = 32, .stop = std::vector<int64_t>()});
  for (int64_t id : rows[0]) std::cout << id << " ";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
