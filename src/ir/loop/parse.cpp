#include "ir/loop/parse.h"

#include <unordered_map>

#include "base/text.h"

namespace tenon::ir::loop {
namespace {

class KernelParser : Scanner {
 public:
  explicit KernelParser(const std::string& text) : Scanner(text) {}

  LoopKernel run() {
    word("kernel");
    kernel_.name = name();
    symbol("(");
    while (peek_word("in") || peek_word("out")) {
      buffer();
      if (!accept(",")) break;
    }
    while (accept(";")) {
      if (accept_word("sizes")) kernel_.sizes = count('n');
      else if (accept_word("scalars")) kernel_.scalars = count('s');
      else fail("sizes or scalars");
    }
    symbol(")");
    symbol("{");
    kernel_.outer = loop();
    symbol("}");
    end();
    kernel_.registers = static_cast<int32_t>(registers_.size());
    kernel_.variables = static_cast<int32_t>(variables_.size());
    return std::move(kernel_);
  }

 private:
  using IdMap = std::unordered_map<int64_t, int32_t>;

  // Parses a letter directly followed by an index, such as "p12".
  int64_t numbered(char letter) {
    symbol(std::string(1, letter));
    return digits();
  }
  int64_t digits() {
    if (at_ >= text_.size() || text_[at_] < '0' || text_[at_] > '9') fail("a number");
    int64_t index = integer();
    if (index > INT32_MAX) fail("a smaller number");
    return index;
  }
  bool peek_numbered(char letter) {
    return peek(std::string(1, letter)) && at_ + 1 < text_.size() && text_[at_ + 1] >= '0' && text_[at_ + 1] <= '9';
  }

  int32_t count(char letter) {
    int32_t n = 0;
    while (peek_numbered(letter))
      if (numbered(letter) != n++) fail("the next number");
    return n;
  }

  // Ids are renumbered densely, whatever numbers the text has.
  int32_t define(IdMap& names, char letter) { return bind(names, letter, numbered(letter)); }
  int32_t bind(IdMap& names, char letter, int64_t index) {
    auto [it, is_new] = names.emplace(index, static_cast<int32_t>(names.size()));
    if (!is_new) fail(std::string("a name that is not yet defined: ") + letter + std::to_string(index));
    return it->second;
  }
  int32_t use(const IdMap& names, char letter) {
    auto it = names.find(numbered(letter));
    if (it == names.end()) fail("a name that is defined above");
    return it->second;
  }
  Reg define() { return define(registers_, '%'); }
  Reg use() { return use(registers_, '%'); }

  DType type() {
    DType t;
    if (!dtype_from_name(name(), t)) fail("an element type");
    return t;
  }

  LoopSize size() { return peek_numbered('n') ? LoopSize::param(numbered('n')) : LoopSize::constant(integer()); }

  void buffer() {
    Buffer b;
    b.is_output = accept_word("out");
    if (!b.is_output) word("in");
    if (numbered('p') != static_cast<int64_t>(kernel_.buffers.size())) fail("the next buffer's number");
    symbol(":");
    b.type = type();
    kernel_.buffers.push_back(b);
  }

  IndexTerm term() {
    IndexTerm t;
    if (peek_numbered('i')) {
      t.which = use(variables_, 'i');
    } else if (peek("%")) {
      t.kind = IndexTerm::Kind::reg;
      t.which = use();
    } else {
      t.kind = IndexTerm::Kind::one;
      t.stride = size();
      return t;
    }
    if (accept("*")) t.stride = size();
    return t;
  }

  Index index() {
    Index terms;
    symbol("[");
    do terms.push_back(term());
    while (accept("+"));
    symbol("]");
    bool is_empty = terms.size() == 1 && terms[0].kind == IndexTerm::Kind::one && terms[0].stride == LoopSize::constant(0);
    if (is_empty) terms.clear();
    return terms;
  }

  Reg mask() { return accept_word("if") ? use() : kNoReg; }

  Store store() {
    Store s;
    s.buffer = static_cast<int32_t>(numbered('p'));
    s.index = index();
    s.value = use();
    s.mask = mask();
    return s;
  }

  Constant constant() {
    Constant c;
    c.type = type();
    if (is_real(c.type) || is_half(c.type)) c.value = real();
    else c.value = integer();
    return c;
  }

  ScalarArgument scalar() {
    ScalarArgument s;
    s.type = type();
    s.which = static_cast<int32_t>(numbered('s'));
    return s;
  }

  Load load() {
    Load l;
    l.buffer = static_cast<int32_t>(numbered('p'));
    l.index = index();
    l.mask = mask();
    return l;
  }

  Compute compute() {
    Compute c;
    if (!op_from_name(name(), c.op)) fail("an op");
    c.type = type();
    for (int i = 0; i < op_arity(c.op); ++i) c.operands.push_back(use());
    return c;
  }

  Statement statement() {
    if (accept_word("store")) return {store()};
    if (!peek("%")) return {loop()};
    int64_t index = numbered('%');
    symbol("=");
    auto assign = [&](auto what) {  // The result is bound last, since a statement cannot use its own result.
      what.result = bind(registers_, '%', index);
      return Statement{std::move(what)};
    };
    if (accept_word("constant")) return assign(constant());
    if (accept_word("scalar")) return assign(scalar());
    if (accept_word("index")) return assign(LoopIndex{kNoReg, use(variables_, 'i')});
    if (accept_word("load")) return assign(load());
    return assign(compute());
  }

  Loop::Kind loop_kind() {
    for (Loop::Kind kind : {Loop::Kind::parallel, Loop::Kind::serial, Loop::Kind::vector})
      if (accept_word(loop_name(kind))) return kind;
    fail("a statement");
  }

  Reduction reduction() {
    using Kind = Reduction::Kind;
    Reduction r;
    bool known = false;
    for (Kind kind : {Kind::sum, Kind::prod, Kind::max, Kind::min, Kind::any, Kind::all})
      if (!known && accept_word(reduction_name(kind))) {
        r.kind = kind;
        known = true;
      }
    if (!known) fail("a reduction");
    r.type = type();
    r.value = use();
    symbol("->");
    r.result = define();
    return r;
  }

  bool peek_reduction() {
    skip_space();
    size_t begin = at_;
    bool is_word = at_ < text_.size() && is_name_char(text_[at_]);
    std::string next = is_word ? name() : "";
    at_ = begin;
    return is_word && next != "store" && next != "parallel" && next != "serial" && next != "vector";
  }

  Loop loop() {
    if (++depth_ > kMaxLoopDepth) fail("fewer loops inside each other");
    Loop l;
    l.kind = loop_kind();
    do {
      Loop::Variable v;
      v.id = define(variables_, 'i');
      symbol("<");
      v.extent = size();
      l.variables.push_back(v);
    } while (accept(","));
    symbol("{");
    while (!peek("}")) l.body.push_back(statement());
    symbol("}");
    if (peek_reduction()) {
      do l.reductions.push_back(reduction());
      while (accept(","));
    }
    --depth_;
    return l;
  }

  static constexpr int kMaxLoopDepth = 100;  // Safety limit: the parser is recursive. Not measured.

  LoopKernel kernel_;
  IdMap registers_, variables_;
  int depth_ = 0;
};

}  // namespace

LoopKernel parse_kernel(const std::string& text) { return KernelParser(text).run(); }

}  // namespace tenon::ir::loop
