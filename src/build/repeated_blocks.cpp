#include "build/repeated_blocks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tenon::build {

Explanation::Graph::RepeatedBlocks repeated_blocks(const std::vector<Explanation::Kernel>& kernels) {
  constexpr size_t kLargestBlock = 512;  // Bounds the time for graphs of many thousand kernels.
  using What = std::pair<std::vector<std::string>, std::vector<int64_t>>;
  std::map<What, size_t> numbers;
  std::vector<size_t> list;
  for (const Explanation::Kernel& kernel : kernels)
    list.push_back(numbers.try_emplace(What(kernel.ops, kernel.sizes), numbers.size()).first->second);

  Explanation::Graph::RepeatedBlocks best;
  for (size_t block = 1; block <= std::min(kLargestBlock, list.size() / 2); ++block) {
    size_t equal = 0;  // Number of kernels in a row that equal the one a block later.
    for (size_t i = 0; i + block < list.size(); ++i) {
      equal = list[i] == list[i + block] ? equal + 1 : 0;
      size_t copies = equal / block + 1;
      if (copies > 1 && copies * block > best.copies * best.kernels) best = {i + 1 - equal, block, copies};
    }
  }
  return best;
}

}  // namespace tenon::build
