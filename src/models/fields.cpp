#include "models/fields.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tenon {

bool Fields::has(const std::string& name) const { return impl_->config.has(name); }

bool Fields::is_null(const std::string& name) const { return impl_->config.is_null(name); }

int64_t Fields::integer(const std::string& name, int64_t least, int64_t most) const { return impl_->config.integer(name, least, most); }

int64_t Fields::integer_or(const std::string& name, int64_t otherwise, int64_t least, int64_t most) const {
  return impl_->config.integer_or(name, otherwise, least, most);
}

double Fields::number(const std::string& name, double least, double most) const { return impl_->config.number(name, least, most); }

double Fields::number_or(const std::string& name, double otherwise, double least, double most) const {
  return impl_->config.number_or(name, otherwise, least, most);
}

bool Fields::boolean_or(const std::string& name, bool otherwise) const { return impl_->config.boolean_or(name, otherwise); }

std::string Fields::text_or(const std::string& name, const std::string& otherwise) const { return impl_->config.text_or(name, otherwise); }

std::vector<int64_t> Fields::integers(const std::string& name) const { return impl_->config.integers(name, 1, int64_t{1} << 32); }

std::vector<std::string> Fields::texts(const std::string& name) const { return impl_->config.texts(name); }

Fields Fields::object(const std::string& name) const {
  return Fields(std::make_shared<const Impl>(Impl{impl_->config.object(name), impl_->ignored, impl_->path + name + "."}));
}

size_t Fields::labels() const {
  if (!has("id2label")) return static_cast<size_t>(integer_or("num_labels", 2, 1));
  const auto& names = impl_->config.any("id2label");
  if (!names.is_object() || names.empty()) refuse("id2label", "is not an object of labels");
  if (has("num_labels") && integer("num_labels") != static_cast<int64_t>(names.size()))
    refuse("num_labels", "is not the number of labels in id2label");
  return names.size();
}

void Fields::ignore(std::initializer_list<const char*> names) const {
  for (const char* name : names) impl_->ignored->insert(impl_->path + name);
}

void Fields::refuse(const std::string& name, const std::string& why) const { impl_->config.fail(name, why); }

namespace models {

namespace {

// Fields that do not change what a forward pass computes, for all families.
constexpr const char* kHarmless[] = {"_attn_implementation_autoset",
                                     "_from_model_config",
                                     "_name_or_path",
                                     "architectures",
                                     "bos_token_id",
                                     "dtype",
                                     "eos_token_id",
                                     "finetuning_task",
                                     "gradient_checkpointing",
                                     "id2label",
                                     "initializer_range",
                                     "label2id",
                                     "language",
                                     "model_type",
                                     "name_or_path",
                                     "num_labels",
                                     "pad_token_id",
                                     "problem_type",
                                     "task_specific_params",
                                     "tie_word_embeddings",
                                     "tokenizer_class",
                                     "torch_dtype",
                                     "transformers_version",
                                     "unsloth_version",
                                     "use_cache"};

bool says_nothing(const nlohmann::json& value) {
  return value.is_null() || value == false || ((value.is_array() || value.is_object() || value.is_string()) && value.empty());
}

}  // namespace

std::shared_ptr<const Fields::Impl> make_fields(formats::Config config) {
  auto impl = std::make_shared<const Fields::Impl>(Fields::Impl{std::move(config), std::make_shared<std::set<std::string>>(), ""});
  ignore_harmless(Fields(impl));
  return impl;
}

void ignore_harmless(const Fields& fields) {
  for (const char* name : kHarmless) fields.ignore({name});
}

void refuse_unread(const Fields::Impl& impl) {
  for (const formats::Config::Field& field : impl.config.unread())
    if (!says_nothing(*field.value) && !impl.ignored->contains(field.name))
      throw UserError(ErrorCode::config,
                      "config.json: field \"" + field.name +
                          "\" is not supported for this family and may change what the model computes. Remove it if it does not.");
}

}  // namespace models
}  // namespace tenon
