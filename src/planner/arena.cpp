#include "planner/arena.h"

#include <algorithm>
#include <map>

namespace tenon::planner {
namespace {

using ir::kNoValue;
using ir::ValueId;

constexpr int64_t kAlignment = 64;  // Bytes of a cache line and of the widest vector register.

// The free ranges of a block of memory, by their first byte. The block grows as needed, or has a fixed size.
class FreeList {
 public:
  FreeList() = default;
  explicit FreeList(int64_t bytes) : free_{{0, bytes}}, end_(bytes), may_grow_(false) {}

  // Returns the offset of a free range (best fit), or -1 if a block of fixed size has none.
  int64_t take(int64_t bytes) {
    bytes = rounded(bytes);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->second >= bytes && (best == free_.end() || it->second < best->second)) best = it;
    if (best == free_.end()) return may_grow_ ? grow(bytes) : -1;
    auto [begin, length] = *best;
    free_.erase(best);
    if (length > bytes) free_[begin + bytes] = length - bytes;
    return begin;
  }

  void give(int64_t begin, int64_t bytes) {
    auto it = free_.emplace(begin, rounded(bytes)).first;
    if (auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it == free_.begin()) return;
    auto before = std::prev(it);
    if (before->first + before->second != it->first) return;
    before->second += it->second;
    free_.erase(it);
  }

  int64_t bytes() const { return end_; }

 private:
  static int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // Extends the block, beginning with the free range at its end.
  int64_t grow(int64_t bytes) {
    int64_t begin = end_;
    if (!free_.empty()) {
      auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        begin = last->first;
        free_.erase(last);
      }
    }
    end_ = begin + bytes;
    return begin;
  }

  std::map<int64_t, int64_t> free_;
  int64_t end_ = 0;
  bool may_grow_ = true;
};

// Liveness of buffers. The root of a buffer is its first value; `end` is the last node that uses the buffer.
class Liveness {
 public:
  Liveness(const ir::Graph& graph, const ir::Reuse& reuse)
      : root_(graph.values.size(), kNoValue), end_(graph.values.size(), 0), escapes_(graph.values.size(), false) {
    std::vector<ValueId> first(graph.values.size(), kNoValue);  // Root per buffer.
    auto visit = [&](ValueId id) {
      ValueId& root = first[static_cast<size_t>(reuse.buffer[id])];
      if (root == kNoValue) root = id;
      root_[id] = root;
    };
    for (const ir::Input& input : graph.inputs) {
      visit(input.value);
      escapes_[input.value] = true;
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const ir::Node& node = graph.nodes[i];
      // A third-party op may retain its operands, so they are treated as escaping.
      bool is_known = node.op.starts_with("aten::") || node.op.starts_with("tenon::");
      ir::for_each_operand(node, [&](ValueId id) {
        end_[root_[id]] = i;
        if (!is_known) escapes_[root_[id]] = true;
      });
      ir::for_each_definition(node, [&](ValueId id) {
        visit(id);
        end_[root_[id]] = i;
      });
    }
    for (const ir::WriteBack& write : graph.write_backs) end_[root_[write.value]] = graph.nodes.size();
    for (ValueId id : graph.outputs)
      if (id != kNoValue) escapes_[root_[id]] = true;
  }

  bool is_internal(ValueId id) const { return root_[id] == id && !escapes_[id]; }
  ValueId root(ValueId id) const { return root_[id]; }
  size_t end(ValueId id) const { return end_[id]; }  // `id` must be a root.

 private:
  std::vector<ValueId> root_;
  std::vector<size_t> end_;
  std::vector<bool> escapes_;
};

class ArenaPlanner {
 public:
  ArenaPlanner(const ir::Graph& graph, const std::vector<ir::FixedType>& types, const ir::Reuse& reuse, const NodeMemory& node_memory)
      : graph_(graph), types_(types), node_memory_(node_memory), liveness_(graph, reuse), dying_(graph.nodes.size() + 1) {
    arena_.locations.assign(graph.values.size(), {ir::Arena::kOwn, 0});
    find_hosts();
  }

  ir::Arena run() {
    for (now_ = 0; now_ < graph_.nodes.size(); ++now_) {
      const ir::Node& node = graph_.nodes[now_];
      if (node_memory_.takes_buffers(node))
        ir::for_each_definition(node, [&](ValueId id) {
          if (liveness_.is_internal(id)) assign(node, id);
        });
      for (ValueId id : dying_[now_]) free_list(arena_.locations[id].host).give(arena_.locations[id].begin, bytes(id));
    }
    arena_.bytes = block_list_.bytes();
    drop_small_block();
    return std::move(arena_);
  }

 private:
  struct HostBuffer {
    FreeList free_list;
    size_t written;  // Index of the node that writes the result.
  };

  int64_t bytes(ValueId id) const { return ir::extent_of(types_[id]) * ir::dtype_size(types_[id].dtype); }
  FreeList& free_list(int32_t host) { return host == ir::Arena::kBlock ? block_list_ : hosts_[static_cast<size_t>(host)].free_list; }

  // One or two values get storages of their own, which are freed when the values die; a block would be kept. The number is an estimate,
  // not measured.
  void drop_small_block() {
    constexpr ptrdiff_t kMaxValuesWithoutBlock = 2;
    auto is_in_block = [](const ir::Arena::Location& location) { return location.host == ir::Arena::kBlock; };
    if (std::count_if(arena_.locations.begin(), arena_.locations.end(), is_in_block) > kMaxValuesWithoutBlock) return;
    for (ir::Arena::Location& location : arena_.locations)
      if (is_in_block(location)) location = {ir::Arena::kOwn, 0};
    arena_.bytes = 0;
  }

  // Finds results whose buffers can hold intermediate values before the results are written.
  void find_hosts() {
    constexpr int64_t kMinHostBytes = 4096;  // One page: a smaller result saves no memory worth the search. Not measured.
    std::vector<bool> is_output(graph_.values.size(), false);
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) is_output[id] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (node_memory_.takes_buffers(graph_.nodes[i]))
        ir::for_each_definition(graph_.nodes[i], [&](ValueId id) {
          if (!is_output[id] || liveness_.root(id) != id || bytes(id) < kMinHostBytes) return;
          arena_.hosts.push_back(id);
          hosts_.push_back({FreeList(bytes(id) / kAlignment * kAlignment), i});
        });
  }

  void assign(const ir::Node& node, ValueId id) {
    size_t end = liveness_.end(id);
    ir::Arena::Location& location = arena_.locations[id];
    if (ValueId operand = find_reusable(node, id); operand != kNoValue) {
      location = arena_.locations[operand];
      std::erase(dying_[now_], operand);
    } else {
      location = {ir::Arena::kBlock, -1};
      // Hosts are sorted by the node that writes them. Only hosts that are written after `end` can hold the value.
      constexpr ptrdiff_t kMaxHostsTried = 64;  // Makes planning linear in the number of values. Estimate, not measured.
      auto later = std::upper_bound(hosts_.begin(), hosts_.end(), end, [](size_t e, const HostBuffer& host) { return e < host.written; });
      auto last = later + std::min(kMaxHostsTried, hosts_.end() - later);
      for (auto host = later; host != last && location.begin < 0; ++host)
        location = {static_cast<int32_t>(host - hosts_.begin()), host->free_list.take(bytes(id))};
      if (location.begin < 0) location = {ir::Arena::kBlock, block_list_.take(bytes(id))};
    }
    dying_[end].push_back(id);
  }

  // Finds an operand whose buffer dies at this node and can be reused for the result.
  ValueId find_reusable(const ir::Node& node, ValueId id) const {
    for (auto [result, operand] : node_memory_.may_share(node)) {
      if (result != id) continue;
      ValueId root = liveness_.root(operand);
      ir::Arena::Location at = arena_.locations[root];
      bool is_whole = bytes(root) == bytes(id) && types_[operand].offset == types_[id].offset;
      bool stays = at.host == ir::Arena::kOwn || std::count(dying_[now_].begin(), dying_[now_].end(), root) == 0;
      if (at.host >= 0) stays |= liveness_.end(id) >= hosts_[static_cast<size_t>(at.host)].written;
      ir::for_each_operand(node, [&](ValueId other) { stays |= other != operand && liveness_.root(other) == root; });
      if (is_whole && !stays) return root;
    }
    return kNoValue;
  }

  const ir::Graph& graph_;
  const std::vector<ir::FixedType>& types_;
  const NodeMemory& node_memory_;
  Liveness liveness_;
  std::vector<std::vector<ValueId>> dying_;  // Values that die at each node.
  std::vector<HostBuffer> hosts_;
  FreeList block_list_;
  ir::Arena arena_;
  size_t now_ = 0;
};

}  // namespace

ir::Arena plan_arena(const ir::Graph& graph, const std::vector<ir::FixedType>& types, const ir::Reuse& reuse,
                     const NodeMemory& node_memory) {
  return ArenaPlanner(graph, types, reuse, node_memory).run();
}

}  // namespace tenon::planner
