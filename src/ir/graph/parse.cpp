#include "ir/graph/parse.h"

#include <cctype>
#include <charconv>
#include <unordered_map>

#include "base/text.h"
#include "ir/graph/print.h"

namespace tenon::ir {
namespace {

class GraphParser : Scanner {
 public:
  explicit GraphParser(const std::string& text) : Scanner(text) {}

  Graph run() {
    word("graph");
    symbol("@");
    graph_.name = name();
    symbol("{");
    while (peek_word("symbol")) size_symbol();
    while (peek_word("condition")) condition();
    while (peek_word("input")) input();
    while (peek_word("scalar") && !peek_op()) scalar();
    while (!peek_word("return")) {
      if (peek_word("write") && !peek_op()) {
        write_back();
      } else if (peek_word("backward") && !peek_op()) {
        word("backward");
        graph_.backward_start = graph_.nodes.size();
        graph_.forward_write_backs = std::move(graph_.write_backs);
        graph_.write_backs.clear();
      } else {
        node();
      }
    }
    word("return");
    while (!peek("}")) {
      graph_.outputs.push_back(use());
      if (!accept(",")) break;
    }
    symbol("}");
    end();
    return std::move(graph_);
  }

 private:
  // An op named like a keyword ("write::x") is recognized by the "::" after it.
  bool peek_op() {
    size_t i = at_;
    while (i < text_.size() && is_name_char(text_[i])) ++i;
    return text_.compare(i, 2, "::") == 0;
  }

  bool boolean() {
    if (accept_word("true")) return true;
    if (accept_word("false")) return false;
    fail("true or false");
  }

  std::string quoted() {
    symbol("\"");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) fail("an escaped character");
      c = text_[at_++];
      if (c == 'x') {
        int byte = 0;
        auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + std::min(at_ + 2, text_.size()), byte, 16);
        if (error != std::errc()) fail("two hexadecimal digits");
        at_ = end - text_.data();
        c = static_cast<char>(byte);
      }
      out += c;
    }
    symbol("\"");
    return out;
  }

  template <class F>
  auto list(const std::string& close, F&& item) {
    std::vector<decltype(item())> out;
    while (!peek(close)) {
      out.push_back(item());
      if (!accept(",")) break;
    }
    symbol(close);
    return out;
  }

  // A symbolic size: sum = ["-"] term {("+" | "-") term}, term = factor {"*" factor | "//" integer}.
  Size sum() {
    skip_space();
    bool is_negated = at_ + 1 < text_.size() && text_[at_] == '-' && !std::isdigit(static_cast<unsigned char>(text_[at_ + 1]));
    if (is_negated) symbol("-");
    Size out = is_negated ? Size(0) - term() : term();
    for (;;) {
      if (accept("+")) out += term();
      else if (!peek("->") && accept("-")) out -= term();
      else return out;
    }
  }

  Size term() {
    Size out = factor();
    for (;;) {
      if (accept("*")) {
        out *= factor();
      } else if (accept("//")) {
        int64_t divisor = integer();
        if (divisor < 1) fail("a positive divisor");
        out = floor_divide(out, divisor);
      } else {
        return out;
      }
    }
  }

  Size factor() {
    if (accept("(")) {
      if (++depth_ > kMaxDepth) fail("a shorter expression");
      Size out = sum();
      --depth_;
      symbol(")");
      return out;
    }
    return peek_symbol() ? Size::symbol(size_label()) : Size(integer());
  }

  bool peek_symbol() {
    skip_space();
    return at_ + 1 < text_.size() && text_[at_] == 's' && std::isdigit(static_cast<unsigned char>(text_[at_ + 1]));
  }

  int32_t size_label() {
    symbol("s");
    int64_t index = integer();
    if (index < 0 || index >= kMaxSymbols) fail("the number of a symbol");
    return static_cast<int32_t>(index);
  }

  SizeList sizes(const std::string& close) {
    SizeList out;
    while (!peek(close)) {
      out.push_back(sum());
      if (!accept(",")) break;
    }
    symbol(close);
    return out;
  }

  TensorType type() {
    TensorType t;
    skip_space();
    if (!dtype_from_name(name(), t.dtype)) fail("an element type");
    symbol("[");
    t.sizes = sizes("]");
    t.strides = accept("{") ? sizes("}") : default_strides(t.sizes);
    if (t.strides.size() != t.sizes.size()) fail("as many strides as sizes");
    if (accept("+")) t.offset = sum();
    return t;
  }

  int64_t value_label() {
    symbol("%");
    return integer();
  }

  ValueId use() {
    if (accept_word("undef")) return kNoValue;
    auto it = ids_.find(value_label());
    if (it == ids_.end()) fail("a value that is defined above");
    return it->second;
  }

  ValueId define() {
    if (accept_word("undef")) return kNoValue;
    int64_t label = value_label();
    symbol(":");
    TensorType t = type();
    ValueId alias = accept("&") ? use() : kNoValue;
    ValueId id = graph_.add_value(std::move(t), alias, accept_word("grad"));
    if (!ids_.emplace(label, id).second) fail("a value that is not yet defined");
    return id;
  }

  void size_symbol() {
    word("symbol");
    if (size_label() != static_cast<int32_t>(graph_.symbols.size())) fail("the next symbol's number");
    symbol("=");
    graph_.symbols.push_back(integer());
  }

  void condition() {
    word("condition");
    Condition out;
    out.left = sum();
    out.relation = accept("==") ? Relation::equal : accept("!=") ? Relation::different : accept(">=") ? Relation::not_less : Relation::less;
    if (out.relation == Relation::less) symbol("<");
    out.right = sum();
    out.origin = quoted();
    graph_.conditions.push_back(std::move(out));
  }

  void input() {
    word("input");
    Input in;
    in.value = define();
    std::string role = name();
    bool known = false;
    for (InputRole r : {InputRole::argument, InputRole::state, InputRole::gradient, InputRole::tangent, InputRole::saved})
      if (role == input_role_name(r)) {
        in.role = r;
        known = true;
      }
    if (!known) fail("an input's role");
    in.name = quoted();
    graph_.inputs.push_back(std::move(in));
  }

  void scalar() {
    word("scalar");
    symbol("$");
    if (integer() != static_cast<int64_t>(graph_.scalars.size())) fail("the next scalar's number");
    symbol("=");
    skip_space();
    graph_.scalars.push_back(real());
  }

  void write_back() {
    word("write");
    WriteBack w;
    w.input = use();
    symbol("<-");
    w.value = use();
    graph_.write_backs.push_back(w);
  }

  Attribute number() {
    size_t begin = at_;
    if (peek("nan") || peek("inf") || peek("-inf")) return real();
    skip_space();
    size_t end = at_;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '.' || text_[end] == '-' || text_[end] == '+'))
      ++end;
    bool is_real = text_.substr(at_, end - at_).find_first_of(".e") != std::string::npos;
    at_ = begin;
    if (is_real) {
      skip_space();
      return real();
    }
    return sum();
  }

  std::complex<double> complex_number() {
    symbol("c(");
    double re = real();
    symbol(",");
    double im = real();
    symbol(")");
    return {re, im};
  }

  ScalarTensor scalar_tensor() {
    symbol("num(");
    ScalarTensor t;
    if (peek("true") || peek("false")) {
      t.number = boolean();
    } else if (peek("c(")) {
      t.number = complex_number();
    } else if (accept("$")) {
      t.number = Scalar{static_cast<int32_t>(integer())};
    } else {
      Attribute n = number();
      if (const auto* i = std::get_if<Size>(&n)) t.number = *i;
      else t.number = std::get<double>(n);
    }
    symbol(",");
    if (!dtype_from_name(name(), t.dtype)) fail("an element type");
    if (accept(",")) {
      word("plain");
      t.plain = true;
    }
    symbol(")");
    return t;
  }

  Attribute attribute() {
    if (accept_word("none")) return None{};
    if (peek_word("true") || peek_word("false")) return boolean();
    if (peek("\"")) return quoted();
    if (peek("num(")) return scalar_tensor();
    if (peek("c(")) return complex_number();
    if (accept("$")) return Scalar{static_cast<int32_t>(integer())};
    if (accept("device(")) {
      size_t end = text_.find(')', at_);
      if (end == std::string::npos) fail("')'");
      Device d{text_.substr(at_, end - at_)};
      at_ = end + 1;
      return d;
    }
    if (accept("resource(")) {
      Resource r{static_cast<int32_t>(integer())};
      symbol(")");
      return r;
    }
    if (accept("i[")) return sizes("]");
    if (accept("f[")) return list("]", [&] { return real(); });
    if (accept("b[")) return list("]", [&] { return boolean(); });
    if (accept("s[")) return list("]", [&] { return quoted(); });
    return number();
  }

  Argument argument() {
    if (peek("%") || peek_word("undef")) return use();
    if (accept("[")) return ValueList{list("]", [&] { return use(); })};
    return attribute();
  }

  void node() {
    Node n;
    bool has_results = peek("%") || peek("[") || peek_word("undef");
    if (has_results) {
      do {
        if (accept("[")) n.results.push_back({true, list("]", [&] { return define(); })});
        else n.results.push_back({false, {define()}});
      } while (accept(","));
      symbol("=");
    }
    n.op = name();
    symbol("::");
    n.op += "::" + name();
    symbol("(");
    n.args = list(")", [&] { return argument(); });
    if (accept("writes(")) {
      n.writes = list(")", [&] {
        Node::Write w;
        w.argument = static_cast<int32_t>(integer());
        if (accept(".")) w.item = static_cast<int32_t>(integer());
        symbol(":");
        w.before = use();
        symbol("->");
        skip_space();
        size_t back = at_;
        auto known = ids_.find(value_label());
        if (known != ids_.end()) {
          w.after = known->second;
        } else {
          at_ = back;
          w.after = define();
        }
        return w;
      });
    }
    n.ordered = accept_word("ordered");
    n.no_grad = accept_word("no_grad");
    graph_.nodes.push_back(std::move(n));
  }

  static constexpr int64_t kMaxSymbols = 1 << 16;  // Bounds what a malformed text can allocate.
  static constexpr int kMaxDepth = 100;            // Bounds the recursion.

  Graph graph_;
  std::unordered_map<int64_t, ValueId> ids_;
  int depth_ = 0;
};

}  // namespace

Graph parse(const std::string& text) { return GraphParser(text).run(); }

}  // namespace tenon::ir
