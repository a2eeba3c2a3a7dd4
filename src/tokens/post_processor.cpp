#include "tokens/post_processor.h"

#include "base/error.h"

namespace tenon::tokens {

namespace {

constexpr size_t kMaxEncodedIds = size_t{1} << 31;  // Safety limit, not measured: a malicious template may repeat the text many times.

// Ids before the text, then the ids after each copy of it.
using Template = std::vector<std::vector<int64_t>>;

class TemplateReader {
 public:
  explicit TemplateReader(const std::function<bool(int64_t)>& is_token) : is_token_(is_token) {}

  void add(const Json& value) {
    TypedFields fields(value, "post_processor");
    const std::string& type = fields.type();
    if (type == "Sequence") {
      for (const Json& step : fields.list("processors")) add(step);
    } else if (type == "ByteLevel") {
      for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"})
        fields.flag_or(name, true);  // The options only affect offsets, which are not returned.
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      steps_.push_back({{id_of(fields, "cls")}, {id_of(fields, "sep")}});
      if (type == "RobertaProcessing")
        for (const char* name : {"add_prefix_space", "trim_offsets"}) fields.flag(name);
    } else if (type == "TemplateProcessing") {
      steps_.push_back(template_of(fields));
    } else {
      refuse("the post_processor '" + type + "' is not supported");
    }
    fields.done();
  }

  const std::vector<Template>& steps() const { return steps_; }

 private:
  int64_t known(const Json& value, const std::string& where) const {
    int32_t id = token_id_of(value, where);
    if (!is_token_(id)) refuse(where + ": no token has the id " + std::to_string(id));
    return id;
  }

  // Reads a pair such as ["</s>", 2].
  int64_t id_of(JsonFields& fields, const std::string& name) const {
    const Json& pair = fields.list(name);
    if (pair.size() != 2 || !pair[0].is_string()) refuse(fields.where() + ": '" + name + "' must be a token and its id");
    return known(pair[1], fields.where() + ": '" + name + "'");
  }

  Template template_of(JsonFields& fields) const {
    const Json& specials = fields.object("special_tokens");
    Template result(1);
    for (const Json& entry : fields.list("single")) {
      JsonFields kind(entry, fields.where() + ": an entry of 'single'");
      bool is_text = kind.has("Sequence");
      JsonFields what(kind.object(is_text ? "Sequence" : "SpecialToken"), kind.where());
      kind.done();
      std::string name = what.text("id");
      what.count("type_id", UINT32_MAX);
      what.done();
      if (is_text) {
        if (name != "A") refuse(what.where() + " names the text '" + name + "'; there is only 'A'");
        result.emplace_back();
      } else {
        if (!specials.contains(name)) refuse(what.where() + " names '" + name + "', which is not among 'special_tokens'");
        JsonFields special(specials[name], fields.where() + ": the special token '" + name + "'");
        for (const Json& id : special.list("ids")) result.back().push_back(known(id, special.where()));
      }
    }
    fields.list("pair");  // Only used for pairs of texts, which encode() does not accept.
    return result;
  }

  const std::function<bool(int64_t)>& is_token_;
  std::vector<Template> steps_;
};

}  // namespace

PostProcessor post_processor_of(const Json& value, const std::function<bool(int64_t)>& is_token) {
  TemplateReader reader(is_token);
  reader.add(value);
  return [steps = reader.steps()](std::vector<int64_t>& ids) {
    for (const Template& step : steps) {
      std::vector<int64_t> result = step[0];
      for (size_t i = 1; i < step.size(); ++i) {
        result.insert(result.end(), ids.begin(), ids.end());
        result.insert(result.end(), step[i].begin(), step[i].end());
        if (result.size() > kMaxEncodedIds) throw UserError(ErrorCode::tokenizer, "tokenizer.json: its post_processor makes too many ids");
      }
      ids = std::move(result);
    }
  };
}

}  // namespace tenon::tokens
