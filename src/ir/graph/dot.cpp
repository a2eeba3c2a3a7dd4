#include "ir/graph/dot.h"

#include "ir/graph/print.h"

namespace tenon::ir {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string dot(const Graph& graph) {
  std::string out = "digraph \"" + escaped(graph.name) + "\" {\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n";
  std::vector<std::string> producer(graph.values.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Input& input = graph.inputs[i];
    std::string name = "in" + std::to_string(i);
    producer[input.value] = name;
    out += "  " + name + " [style=filled, fillcolor=\"" + (input.role == InputRole::argument ? "#cfe8ff" : "#e6e6e6") + "\", label=\"" +
           escaped(input.name) + "\\n" + print(graph.values[input.value].type) + "\"];\n";
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    std::string name = "n" + std::to_string(i);
    bool is_view = false;
    std::string type;
    for_each_definition(node, [&](ValueId id) {
      producer[id] = name;
      is_view |= graph.values[id].alias_of != kNoValue;
      type = print(graph.values[id].type);
    });
    std::string style = is_view ? ", style=dashed" : i >= graph.backward_start ? ", style=filled, fillcolor=\"#ffe9cc\"" : "";
    out +=
        "  " + name + " [label=\"" + escaped(node.op) + "\\n" + type + "\"" + style + (node.writes.empty() ? "" : ", color=red") + "];\n";
    for_each_operand(node, [&](ValueId id) { out += "  " + producer[id] + " -> " + name + ";\n"; });
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (graph.outputs[i] == kNoValue) continue;
    std::string name = "out" + std::to_string(i);
    out += "  " + name + " [shape=ellipse, label=\"output " + std::to_string(i) + "\"];\n  " + producer[graph.outputs[i]] + " -> " + name +
           ";\n";
  }
  for (const WriteBack& write : graph.write_backs)
    out += "  " + producer[write.value] + " -> " + producer[write.input] + " [color=red, constraint=false];\n";
  return out + "}\n";
}

}  // namespace tenon::ir
