#include "planner/arena.h"

#include <algorithm>
#include <map>

namespace tenon::planner {
namespace {

using ir::kNoValue;
using ir::ValueId;

constexpr int64_t kAlignment = 64;

// A block, as far as it is used now: free stretches by their first byte. It grows, or has all its bytes from the start.
class Block {
 public:
  Block() = default;
  explicit Block(int64_t bytes) : free_{{0, bytes}}, end_(bytes), may_grow_(false) {}

  // -1: there is no room.
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

  // At the end, together with what is free there.
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

// The first value in each memory, its root, and the last node that looks at it.
class Lives {
 public:
  Lives(const ir::Graph& graph, const ir::Reuse& reuse)
      : root_(graph.values.size(), kNoValue), end_(graph.values.size(), 0), handed_out_(graph.values.size(), false) {
    std::vector<ValueId> first(graph.values.size(), kNoValue);  // per memory
    auto meet = [&](ValueId id) {
      ValueId& root = first[static_cast<size_t>(reuse.buffer[id])];
      if (root == kNoValue) root = id;
      root_[id] = root;
    };
    for (const ir::Input& input : graph.inputs) {
      meet(input.value);
      handed_out_[input.value] = true;
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const ir::Node& node = graph.nodes[i];
      // Who knows what an op of others keeps.
      bool is_known = node.op.starts_with("aten::") || node.op.starts_with("tenon::");
      ir::for_each_operand(node, [&](ValueId id) {
        end_[root_[id]] = i;
        if (!is_known) handed_out_[root_[id]] = true;
      });
      ir::for_each_definition(node, [&](ValueId id) {
        meet(id);
        end_[root_[id]] = i;
      });
    }
    for (const ir::WriteBack& write : graph.write_backs) end_[root_[write.value]] = graph.nodes.size();
    for (ValueId id : graph.outputs)
      if (id != kNoValue) handed_out_[root_[id]] = true;
  }

  bool is_inside(ValueId id) const { return root_[id] == id && !handed_out_[id]; }
  ValueId root(ValueId id) const { return root_[id]; }
  size_t end(ValueId id) const { return end_[id]; }  // of a root

 private:
  std::vector<ValueId> root_;
  std::vector<size_t> end_;
  std::vector<bool> handed_out_;
};

class Placer {
 public:
  Placer(const ir::Graph& graph, const ir::Reuse& reuse, const Placing& placing)
      : graph_(graph), placing_(placing), lives_(graph, reuse), dying_(graph.nodes.size() + 1) {
    arena_.locations.assign(graph.values.size(), {ir::Arena::kOwn, 0});
    find_hosts();
  }

  ir::Arena run() {
    for (now_ = 0; now_ < graph_.nodes.size(); ++now_) {
      const ir::Node& node = graph_.nodes[now_];
      if (placing_.takes_memory(node))
        ir::for_each_definition(node, [&](ValueId id) {
          if (lives_.is_inside(id)) place(node, id);
        });
      for (ValueId id : dying_[now_]) block(arena_.locations[id].host).give(arena_.locations[id].begin, bytes(id));
    }
    arena_.bytes = block_.bytes();
    drop_small_block();
    return std::move(arena_);
  }

 private:
  struct Host {
    Block block;
    size_t written;  // by this node
  };

  int64_t bytes(ValueId id) const { return ir::extent_of(graph_.values[id].type) * ir::dtype_size(graph_.values[id].type.dtype); }
  Block& block(int32_t host) { return host == ir::Arena::kBlock ? block_ : hosts_[static_cast<size_t>(host)].block; }

  // For one or two values, memory of their own while they live is less than a block that stays.
  void drop_small_block() {
    constexpr ptrdiff_t kFew = 2;
    auto is_in_block = [](const ir::Arena::Location& place) { return place.host == ir::Arena::kBlock; };
    if (std::count_if(arena_.locations.begin(), arena_.locations.end(), is_in_block) > kFew) return;
    for (ir::Arena::Location& place : arena_.locations)
      if (is_in_block(place)) place = {ir::Arena::kOwn, 0};
    arena_.bytes = 0;
  }

  // Results that are worth it.
  void find_hosts() {
    constexpr int64_t kLeast = 4096;
    std::vector<bool> is_output(graph_.values.size(), false);
    for (ValueId id : graph_.outputs)
      if (id != kNoValue) is_output[id] = true;
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (placing_.takes_memory(graph_.nodes[i]))
        ir::for_each_definition(graph_.nodes[i], [&](ValueId id) {
          if (!is_output[id] || lives_.root(id) != id || bytes(id) < kLeast) return;
          arena_.hosts.push_back(id);
          hosts_.push_back({Block(bytes(id) / kAlignment * kAlignment), i});
        });
  }

  void place(const ir::Node& node, ValueId id) {
    size_t end = lives_.end(id);
    ir::Arena::Location& place = arena_.locations[id];
    if (ValueId operand = find_shared(node, id); operand != kNoValue) {
      place = arena_.locations[operand];
      std::erase(dying_[now_], operand);
    } else {
      place = {ir::Arena::kBlock, -1};
      // Hosts are in the order in which they are written; those that are written after `end` may be tried.
      constexpr ptrdiff_t kMaxHostsTried = 64;
      auto later = std::upper_bound(hosts_.begin(), hosts_.end(), end, [](size_t e, const Host& host) { return e < host.written; });
      auto last = later + std::min(kMaxHostsTried, hosts_.end() - later);
      for (auto host = later; host != last && place.begin < 0; ++host)
        place = {static_cast<int32_t>(host - hosts_.begin()), host->block.take(bytes(id))};
      if (place.begin < 0) place = {ir::Arena::kBlock, block_.take(bytes(id))};
    }
    dying_[end].push_back(id);
  }

  // A value that dies here, with an operand that is all of it, and leaves its place to a result.
  ValueId find_shared(const ir::Node& node, ValueId id) const {
    for (auto [result, operand] : placing_.may_share(node)) {
      if (result != id) continue;
      ValueId root = lives_.root(operand);
      ir::Arena::Location at = arena_.locations[root];
      bool is_whole = bytes(root) == bytes(id) && graph_.values[operand].type.offset == graph_.values[id].type.offset;
      bool stays = at.host == ir::Arena::kOwn || std::count(dying_[now_].begin(), dying_[now_].end(), root) == 0;
      if (at.host >= 0) stays |= lives_.end(id) >= hosts_[static_cast<size_t>(at.host)].written;
      ir::for_each_operand(node, [&](ValueId other) { stays |= other != operand && lives_.root(other) == root; });
      if (is_whole && !stays) return root;
    }
    return kNoValue;
  }

  const ir::Graph& graph_;
  const Placing& placing_;
  Lives lives_;
  std::vector<std::vector<ValueId>> dying_;  // per node
  std::vector<Host> hosts_;
  Block block_;
  ir::Arena arena_;
  size_t now_ = 0;
};

}  // namespace

ir::Arena plan_arena(const ir::Graph& graph, const ir::Reuse& reuse, const Placing& placing) { return Placer(graph, reuse, placing).run(); }

}  // namespace tenon::planner
