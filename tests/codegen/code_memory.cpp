// Code in memory is never writable and executable at once, is freed, and can be compiled by several threads.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <thread>

#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "ir/loop/parse.h"

namespace tenon::test {
namespace {

using codegen::MachineCode;
using ir::loop::LoopKernel;
using ir::loop::parse_kernel;

struct Mapping {
  uintptr_t begin = 0, end = 0;
  std::string rights;
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> out;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    Mapping m;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &m.begin, &m.end, rights) == 3) {
      m.rights = rights;
      out.push_back(m);
    }
  }
  return out;
}

std::string rights_at(const void* address) {
  auto at = reinterpret_cast<uintptr_t>(address);
  for (const Mapping& m : mappings())
    if (m.begin <= at && at < m.end) return m.rights;
  return "none";
}

TEST(CodeMemory, IsNeverWritableAndExecutable) {
  std::vector<std::shared_ptr<const MachineCode>> kept;
  for (const char* text : {kBiasGeluResidual, kLayerNorm, kSoftmax}) {
    kept.push_back(codegen::compile(parse_kernel(text), codegen::best_tier()));
    EXPECT_EQ(rights_at(reinterpret_cast<const void*>(kept.back()->run)).substr(0, 3), "r-x");
    for (const Mapping& m : mappings()) EXPECT_FALSE(m.rights[1] == 'w' && m.rights[2] == 'x') << std::hex << m.begin;
  }
}

TEST(CodeMemory, IsGivenBack) {
  auto before = codegen::counters();
  auto code = codegen::compile(parse_kernel(kSoftmax), codegen::best_tier());
  auto* address = reinterpret_cast<const void*>(code->run);
  auto during = codegen::counters();
  EXPECT_EQ(during.compiled, before.compiled + 1);
  EXPECT_EQ(during.live, before.live + 1);
  EXPECT_EQ(during.live_bytes, before.live_bytes + static_cast<int64_t>(code->bytes));
  EXPECT_GE(code->bytes, 4096u);
  std::shared_ptr<const MachineCode> second_owner = code;
  code.reset();
  EXPECT_EQ(codegen::counters().live, before.live + 1);
  second_owner.reset();
  EXPECT_EQ(codegen::counters().live, before.live);
  EXPECT_EQ(codegen::counters().live_bytes, before.live_bytes);
  EXPECT_EQ(rights_at(address), "none");
}

int64_t resident_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8));
  return -1;
}

TEST(CodeMemory, DoesNotGrowWithKernelsThatAreGone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer keeps freed memory";
#endif
  LoopKernel kernel = parse_kernel(kSum);
  auto make = [&](int count) {
    for (int i = 0; i < count; ++i) codegen::compile(kernel, codegen::best_tier());
  };
  make(100);
  int64_t before = resident_kib();
  make(400);
  EXPECT_LE(resident_kib() - before, 2048);
}

TEST(CodeMemory, EqualKernelsHaveEqualBytes) {
  LoopKernel kernel = parse_kernel(kLayerNorm), renamed = kernel;
  renamed.name = "another";
  EXPECT_EQ(codegen::object(kernel, codegen::Tier::avx2), codegen::object(renamed, codegen::Tier::avx2));
  EXPECT_NE(codegen::object(kernel, codegen::Tier::avx2), codegen::object(kernel, codegen::Tier::avx512));
}

TEST(CodeMemory, ThreadsCompileSideBySide) {
  const char* texts[] = {kBiasGeluResidual, kLayerNorm, kSoftmax, kTranspose, kCat, kColumnSums};
  std::vector<std::string> expected;
  for (const char* text : texts) expected.push_back(codegen::object(parse_kernel(text), codegen::best_tier()));
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 12; ++i) {
        size_t which = (i + t) % std::size(texts);
        std::string object = codegen::object(parse_kernel(texts[which]), codegen::best_tier());
        if (object != expected[which] || !codegen::load(object)->run) ++wrong[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(wrong.size()));
}

TEST(CodeMemory, DamagedObjectsAreRefused) {
  std::string object = codegen::object(parse_kernel(kSum), codegen::best_tier());
  EXPECT_THROW(codegen::load("not an object"), std::runtime_error);
  EXPECT_THROW(codegen::load(object.substr(0, object.size() / 2)), std::runtime_error);
}

}  // namespace
}  // namespace tenon::test
