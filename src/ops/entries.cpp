#include "ops/entries.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "base/error.h"

namespace tenon::ops {
namespace {

// Parses statements `name = expression` and results, separated by `;`. Precedence in expressions:
// ?: < comparisons < + - < * / < unary - < calls, $n, names, constants, ( ).
class ExpressionParser {
 public:
  explicit ExpressionParser(const std::string& text) : text_(text) {}

  std::vector<Expression> parse() {
    std::vector<Expression> results;
    do {
      size_t start = at_;
      std::string name = word();
      if (!name.empty() && next() == '=' && text_[at_ + 1] != '=') {
        ++at_;
        names_.emplace(name, choice());
      } else {
        at_ = start;
        results.push_back(choice());
      }
    } while (accept(";"));
    if (next() != '\0') fail();
    return results;
  }

 private:
  [[noreturn]] void fail() const { throw InternalError("expression '" + text_ + "', column " + std::to_string(at_)); }

  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(const std::string& token) {
    next();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  void expect(const std::string& token) {
    if (!accept(token)) fail();
  }

  static Expression call(std::string function, std::vector<Expression> operands) {
    return {Expression::Kind::function, 0, 0, std::move(function), std::move(operands)};
  }

  Expression choice() {
    Expression condition = comparison();
    if (!accept("?")) return condition;
    Expression yes = choice();
    expect(":");
    Expression no = choice();
    return call("select", {std::move(condition), std::move(yes), std::move(no)});
  }

  Expression comparison() {
    Expression left = sum();
    for (auto [token, function] : {std::pair{"<=", "le"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {">", "gt"}})
      if (accept(token)) return call(function, {std::move(left), sum()});
    return left;
  }

  Expression sum() {
    Expression left = product();
    while (true) {
      if (accept("+")) left = call("add", {std::move(left), product()});
      else if (accept("-")) left = call("sub", {std::move(left), product()});
      else return left;
    }
  }

  Expression product() {
    Expression left = unary();
    while (true) {
      if (accept("*")) left = call("mul", {std::move(left), unary()});
      else if (accept("/")) left = call("div", {std::move(left), unary()});
      else return left;
    }
  }

  Expression unary() {
    if (accept("-")) {
      if (std::isdigit(static_cast<unsigned char>(next()))) {
        Expression literal = primary();
        literal.constant = -literal.constant;
        return literal;
      }
      return call("neg", {unary()});
    }
    return primary();
  }

  Expression primary() {
    char c = next();
    if (c == '(') {
      expect("(");
      Expression inside = choice();
      expect(")");
      return inside;
    }
    if (c == '$') {
      ++at_;
      Expression argument{Expression::Kind::argument, static_cast<int>(digits()), 0, "", {}};
      argument.rounds = accept("~");
      if (accept("@")) argument.dim = dim();
      if (accept("[")) argument = indexed(argument.argument);
      if (accept("??")) argument.operands.push_back(primary());
      return argument;
    }
    if (std::isdigit(static_cast<unsigned char>(c))) return {Expression::Kind::constant, 0, digits(), "", {}};
    std::string name = word();
    if (name == "count") return {Expression::Kind::count, 0, 0, "", {}};
    if (name == "position") {
      expect("(");
      Expression position{.kind = Expression::Kind::position, .dim = dim()};
      expect(")");
      return position;
    }
    if (auto known = names_.find(name); known != names_.end()) return known->second;
    if (name.empty()) fail();
    expect("(");
    std::vector<Expression> operands = {choice()};
    while (accept(",")) operands.push_back(choice());
    expect(")");
    if (!name.starts_with("row_")) return call(name, std::move(operands));
    return {Expression::Kind::reduction, 0, 0, name.substr(4), std::move(operands)};
  }

  Expression::DimRef dim() {
    bool is_argument = accept("$");
    return {static_cast<int>(digits()), is_argument};
  }

  // Parses "1: $1 but $4]", the rest of an indexed argument after "$0[".
  Expression indexed(int argument) {
    Expression out{.kind = Expression::Kind::indexed, .argument = argument, .dim = dim()};
    expect(":");
    out.operands.push_back(primary());
    if (accept("but")) {
      expect("$");
      out.exempt = static_cast<int>(digits());
    }
    expect("]");
    return out;
  }

  std::string word() {
    next();
    std::string name;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) name += text_[at_++];
    return name;
  }

  double digits() {
    char* end = nullptr;
    double value = std::strtod(text_.c_str() + at_, &end);
    if (end == text_.c_str() + at_) fail();
    at_ = static_cast<size_t>(end - text_.c_str());
    return value;
  }

  const std::string& text_;
  size_t at_ = 0;
  std::map<std::string, Expression> names_;
};

using EntryTable = std::multimap<std::string, OpEntry>;

// Parses "", "all", "all of $1", "all but 1", "$1", "last $1" or "before last $1".
Reduced parse_reduced(const std::string& text) {
  if (text.empty()) return {};
  if (text == "all") return {Reduced::Kind::all};
  if (text.starts_with("all of ")) return {Reduced::Kind::all, 0, std::atoi(text.c_str() + 8)};
  if (text.starts_with("all but ")) return {Reduced::Kind::all_but, std::atoi(text.c_str() + 8)};
  Reduced::Kind kind = text.starts_with("last ")          ? Reduced::Kind::last
                       : text.starts_with("before last ") ? Reduced::Kind::before_last
                                                          : Reduced::Kind::listed;
  return {kind, std::atoi(text.c_str() + text.find('$') + 1)};
}

void note_facts(const Expression& e, OpEntry& entry) {
  entry.counts |= e.kind == Expression::Kind::count;
  entry.has_positions |= e.kind == Expression::Kind::position;
  bool is_strided = e.dim && e.kind != Expression::Kind::position;
  auto same = [&](const Expression& p) { return p.argument == e.argument && p.dim == e.dim; };
  if (is_strided && std::none_of(entry.strided_arguments.begin(), entry.strided_arguments.end(), same))
    entry.strided_arguments.push_back(e);
  for (const Expression& operand : e.operands) note_facts(operand, entry);
}

void add_entry(EntryTable& table, const std::string& op, Typing typing, const std::string& reduced, const std::string& condition,
               const std::string& results) {
  OpEntry entry{typing, parse_reduced(reduced), {}, parse_results(results)};
  for (size_t at = 0; at < condition.size();) {  // Parses a list such as "$1 = tanh, $2 = none".
    size_t equals = condition.find(" = ", at), comma = std::min(condition.find(", ", at), condition.size());
    entry.conditions.push_back({std::atoi(condition.c_str() + at + 1), condition.substr(equals + 3, comma - equals - 3)});
    at = comma + 2;
  }
  for (const Expression& result : entry.results) note_facts(result, entry);
  table.emplace(op, std::move(entry));
}

}  // namespace

const std::multimap<std::string, OpEntry>& all_entries() {
  static const EntryTable* table = [] {
    auto* t = new EntryTable;
#define TENON_POINTWISE(op, typing, condition, results) add_entry(*t, op, Typing::typing, "", condition, results);
#include "ops/pointwise.def"
#undef TENON_POINTWISE
#define TENON_REDUCTION(op, typing, dims, condition, results) add_entry(*t, op, Typing::typing, dims, condition, results);
#include "ops/reductions.def"
#undef TENON_REDUCTION
    return t;
  }();
  return *table;
}

const Expression* default_of(const Expression& e) {
  bool has_one =
      (e.kind == Expression::Kind::argument && e.operands.size() == 1) || (e.kind == Expression::Kind::indexed && e.operands.size() == 2);
  return has_one ? &e.operands.back() : nullptr;
}

std::vector<Expression> parse_results(const std::string& text) { return ExpressionParser(text).parse(); }

namespace {

std::pair<EntryTable::const_iterator, EntryTable::const_iterator> entries_of(const std::string& op) {
  auto range = all_entries().equal_range(op);
  if (range.first != range.second) return range;
  // An out= overload takes the result's buffer as its last argument: "aten::maximum.out".
  size_t dot = op.find('.');
  if (dot != std::string::npos && op.substr(dot) == ".out") return all_entries().equal_range(op.substr(0, dot));
  // In-place ops such as "aten::add_.Tensor" use the entry of their functional form.
  size_t last = (dot == std::string::npos ? op.size() : dot) - 1;
  if (op[last] != '_' || op[last - 1] == '_') return range;
  return all_entries().equal_range(op.substr(0, last) + op.substr(last + 1));
}

}  // namespace

bool has_entry(const std::string& op) {
  auto [begin, end] = entries_of(op);
  return begin != end;
}

const OpEntry* find_entry(const std::string& op, const std::function<std::string(int)>& attribute) {
  auto [begin, end] = entries_of(op);
  for (auto it = begin; it != end; ++it) {
    const auto& conditions = it->second.conditions;
    bool holds = std::all_of(conditions.begin(), conditions.end(),
                             [&](const OpEntry::ArgumentCondition& c) { return attribute(c.argument) == c.text; });
    if (holds) return &it->second;
  }
  return nullptr;
}

}  // namespace tenon::ops
