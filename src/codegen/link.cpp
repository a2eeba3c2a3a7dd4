// Object bytes to running code by JITLink. Its in-process memory manager writes code into pages that
// are readable and writable and then turns them into readable and executable ones, never both at once.
#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/SymbolStringPool.h>
#include <unistd.h>

#include "base/error.h"
#include "codegen/counting.h"
#include "codegen/emit.h"
#include "codegen/symbols.h"

namespace tenon::codegen {
namespace {

namespace jitlink = llvm::jitlink;

jitlink::JITLinkMemoryManager& memory() {
  static auto& manager = *new jitlink::InProcessMemoryManager(static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  return manager;  // never destroyed: code may be freed while the program ends
}

class Loaded : public Code {
 public:
  ~Loaded() {
    if (!allocation_) return;
    memory().deallocate(std::move(allocation_), [](llvm::Error error) { llvm::consumeError(std::move(error)); });
    --counting.live;
    counting.live_bytes -= static_cast<int64_t>(bytes);
  }
  void hold(jitlink::JITLinkMemoryManager::FinalizedAlloc allocation) {
    allocation_ = std::move(allocation);
    ++counting.live;
    counting.live_bytes += static_cast<int64_t>(bytes);
  }

 private:
  jitlink::JITLinkMemoryManager::FinalizedAlloc allocation_;
};

// Answers the linker's questions; everything happens within the call of link().
class Context : public jitlink::JITLinkContext {
 public:
  Context(Loaded& code, std::string& error) : JITLinkContext(nullptr), code_(code), error_(error) {}

  jitlink::JITLinkMemoryManager& getMemoryManager() override { return memory(); }

  void notifyFailed(llvm::Error error) override { error_ = llvm::toString(std::move(error)); }

  void lookup(const LookupMap& symbols, std::unique_ptr<jitlink::JITLinkAsyncLookupContinuation> go_on) override {
    jitlink::AsyncLookupResult found;
    for (const auto& [name, flags] : symbols) {
      void* address = find_function((*name).str());
      if (!address) return go_on->run(llvm::createStringError("no function " + *name));
      found[name] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    go_on->run(std::move(found));
  }

  llvm::Error notifyResolved(jitlink::LinkGraph& graph) override {
    for (jitlink::Symbol* symbol : graph.defined_symbols())
      if (symbol->hasName() && *symbol->getName() == kEntry) code_.run = symbol->getAddress().toPtr<abi::KernelFunction>();
    if (!code_.run) return llvm::createStringError("an object file without a kernel");
    return llvm::Error::success();
  }

  void notifyFinalized(jitlink::JITLinkMemoryManager::FinalizedAlloc allocation) override { code_.hold(std::move(allocation)); }

  llvm::Error modifyPassConfig(jitlink::LinkGraph&, jitlink::PassConfiguration& passes) override {
    passes.PostPrunePasses.push_back([this](jitlink::LinkGraph& graph) -> llvm::Error {
      auto sizes = jitlink::BasicLayout(graph).getContiguousPageBasedLayoutSizes(static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
      if (!sizes) return sizes.takeError();
      code_.bytes = sizes->StandardSegs;
      return llvm::Error::success();
    });
    return llvm::Error::success();
  }

 private:
  Loaded& code_;
  std::string& error_;
};

}  // namespace

std::shared_ptr<const Code> load(const std::string& object) {
  auto code = std::make_shared<Loaded>();
  std::string error;
  auto names = std::make_shared<llvm::orc::SymbolStringPool>();
  auto graph = jitlink::createLinkGraphFromELFObject_x86_64(llvm::MemoryBufferRef(object, "kernel"), names);
  if (graph) jitlink::link_ELF_x86_64(std::move(*graph), std::make_unique<Context>(*code, error));
  else error = llvm::toString(graph.takeError());
  if (!error.empty()) throw InternalError("code that cannot be linked: " + error);
  return code;
}

}  // namespace tenon::codegen
