#include "tokens/post_processor.h"

#include "base/error.h"

namespace tenon::tokens {

namespace {

constexpr size_t kLongest = size_t{1} << 31;  // a file may ask for a text many times

// What stands before and behind the text, or between two copies of it.
using Template = std::vector<std::vector<int64_t>>;

class Reader {
 public:
  explicit Reader(const std::function<bool(int64_t)>& is_token) : is_token_(is_token) {}

  void add(const Json& value) {
    Part part(value, "post_processor");
    const std::string& type = part.type();
    if (type == "Sequence") {
      for (const Json& step : part.list("processors")) add(step);
    } else if (type == "ByteLevel") {
      for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"}) part.flag_or(name, true);  // offsets are not given out
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      steps_.push_back({{id_of(part, "cls")}, {id_of(part, "sep")}});
      if (type == "RobertaProcessing")
        for (const char* name : {"add_prefix_space", "trim_offsets"}) part.flag(name);
    } else if (type == "TemplateProcessing") {
      steps_.push_back(template_of(part));
    } else {
      refuse("the post_processor '" + type + "' is not supported");
    }
    part.done();
  }

  const std::vector<Template>& steps() const { return steps_; }

 private:
  int64_t known(const Json& value, const std::string& where) const {
    int32_t id = token_id_of(value, where);
    if (!is_token_(id)) refuse(where + ": no token has the id " + std::to_string(id));
    return id;
  }

  int64_t id_of(Fields& fields, const std::string& name) const {  // ["</s>", 2]
    const Json& pair = fields.list(name);
    if (pair.size() != 2 || !pair[0].is_string()) refuse(fields.where() + ": '" + name + "' must be a token and its id");
    return known(pair[1], fields.where() + ": '" + name + "'");
  }

  Template template_of(Fields& fields) const {
    const Json& specials = fields.object("special_tokens");
    Template result(1);
    for (const Json& piece : fields.list("single")) {
      Fields kind(piece, fields.where() + ": a piece of 'single'");
      bool is_text = kind.has("Sequence");
      Fields what(kind.object(is_text ? "Sequence" : "SpecialToken"), kind.where());
      kind.done();
      std::string name = what.text("id");
      what.count("type_id", UINT32_MAX);
      what.done();
      if (is_text) {
        if (name != "A") refuse(what.where() + " names the text '" + name + "'; there is only 'A'");
        result.emplace_back();
      } else {
        if (!specials.contains(name)) refuse(what.where() + " names '" + name + "', which is not among 'special_tokens'");
        Fields special(specials[name], fields.where() + ": the special token '" + name + "'");
        for (const Json& id : special.list("ids")) result.back().push_back(known(id, special.where()));
      }
    }
    fields.list("pair");  // for two texts at once, which nobody can give
    return result;
  }

  const std::function<bool(int64_t)>& is_token_;
  std::vector<Template> steps_;
};

}  // namespace

PostProcessor post_processor_of(const Json& value, const std::function<bool(int64_t)>& is_token) {
  Reader reader(is_token);
  reader.add(value);
  return [steps = reader.steps()](std::vector<int64_t>& ids) {
    for (const Template& step : steps) {
      std::vector<int64_t> result = step[0];
      for (size_t i = 1; i < step.size(); ++i) {
        result.insert(result.end(), ids.begin(), ids.end());
        result.insert(result.end(), step[i].begin(), step[i].end());
        if (result.size() > kLongest) throw UserError(ErrorCode::tokenizer, "tokenizer.json: its post_processor makes too many ids");
      }
      ids = std::move(result);
    }
  };
}

}  // namespace tenon::tokens
