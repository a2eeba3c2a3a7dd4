#include "ir/loop/print.h"

#include <string_view>
#include <unordered_map>

#include "base/text.h"

namespace tenon::ir::loop {
namespace {

constexpr std::string_view kHead = "kernel ";

class KernelPrinter {
 public:
  std::string run(const LoopKernel& kernel, const std::string& name) {
    out_ = std::string(kHead) + name + "(";
    for (size_t i = 0; i < kernel.buffers.size(); ++i) {
      const Buffer& buffer = kernel.buffers[i];
      out_ += std::string(i ? ", " : "") + (buffer.is_output ? "out" : "in") + " p" + std::to_string(i) + ": " + dtype_name(buffer.type);
    }
    numbered("sizes", 'n', kernel.sizes);
    numbered("scalars", 's', kernel.scalars);
    out_ += ") {\n";
    (*this)(kernel.outer);
    return out_ + "}\n";
  }

  void operator()(const Compute& s) {
    define(s.result);
    out_ += std::string(op_name(s.op)) + " " + dtype_name(s.type);
    for (Reg operand : s.operands) out_ += " " + reg(operand);
    out_ += "\n";
  }

  void operator()(const Constant& s) {
    define(s.result);
    out_ += std::string("constant ") + dtype_name(s.type) + " " + constant(s) + "\n";
  }

  void operator()(const ScalarArgument& s) {
    define(s.result);
    out_ += std::string("scalar ") + dtype_name(s.type) + " s" + std::to_string(s.which) + "\n";
  }

  void operator()(const LoopIndex& s) {
    define(s.result);
    out_ += "index " + variable(s.loop) + "\n";
  }

  void operator()(const Load& s) {
    define(s.result);
    out_ += "load " + element(s.buffer, s.index) + mask(s.mask) + "\n";
  }

  void operator()(const Store& s) {
    indent();
    out_ += "store " + element(s.buffer, s.index) + " " + reg(s.value) + mask(s.mask) + "\n";
  }

  void operator()(const Loop& loop) {
    indent();
    out_ += loop_name(loop.kind);
    const char* before = " ";
    for (const Loop::Variable& v : loop.variables) {
      out_ += before + variable(v.id) + " < " + size(v.extent);
      before = ", ";
    }
    out_ += " {\n";
    ++depth_;
    for (const Statement& statement : loop.body) std::visit(*this, statement.what);
    --depth_;
    indent();
    out_ += "}";
    before = " ";
    for (const Reduction& r : loop.reductions) {
      out_ += std::string(before) + reduction_name(r.kind) + " " + dtype_name(r.type) + " " + reg(r.value);
      out_ += " -> " + reg(r.result);
      before = ", ";
    }
    out_ += "\n";
  }

 private:
  void indent() { out_.append(2 * depth_, ' '); }

  void define(Reg result) {
    indent();
    out_ += reg(result) + " = ";
  }

  void numbered(const char* what, char letter, int32_t count) {
    if (count <= 0) return;
    out_ += std::string("; ") + what;
    for (int32_t i = 0; i < count; ++i) out_ += std::string(" ") + letter + std::to_string(i);
  }

  // Printing accepts malformed kernels, so that an error can show what the verifier rejects.
  static std::string renumbered(std::unordered_map<int32_t, size_t>& names, int32_t id) {
    return std::to_string(names.emplace(id, names.size()).first->second);
  }
  std::string reg(Reg id) { return "%" + renumbered(registers_, id); }
  std::string variable(int32_t id) { return "i" + renumbered(variables_, id); }

  static std::string size(const LoopSize& s) { return (s.is_param ? "n" : "") + std::to_string(s.value); }

  std::string mask(Reg id) { return id == kNoReg ? "" : " if " + reg(id); }

  std::string term(const IndexTerm& t) {
    if (t.kind == IndexTerm::Kind::one) return size(t.stride);
    std::string text = t.kind == IndexTerm::Kind::loop ? variable(t.which) : reg(t.which);
    return t.stride == LoopSize::constant(1) ? text : text + "*" + size(t.stride);
  }

  std::string element(int32_t buffer, const Index& index) {
    std::string terms;
    for (const IndexTerm& t : index) terms += (terms.empty() ? "" : " + ") + term(t);
    return "p" + std::to_string(buffer) + "[" + (terms.empty() ? "0" : terms) + "]";
  }

  // Constants are printed after rounding to their type, so that equal constants have equal text.
  static std::string constant(const Constant& s) {
    if (const auto* integer = std::get_if<int64_t>(&s.value)) return std::to_string(*integer);
    double real = std::get<double>(s.value);
    return s.type == DType::f64 ? real_text(real) : real_text(static_cast<float>(real));
  }

  std::unordered_map<int32_t, size_t> registers_, variables_;
  size_t depth_ = 1;
  std::string out_;
};

}  // namespace

std::string print(const LoopKernel& kernel) { return KernelPrinter().run(kernel, kernel.name); }

std::string key(const LoopKernel& kernel) { return KernelPrinter().run(kernel, ""); }

std::string named(const std::string& key, const std::string& name) { return std::string(kHead) + name + key.substr(kHead.size()); }

}  // namespace tenon::ir::loop
