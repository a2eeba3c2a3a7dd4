// Links object files with JITLink. Its in-process memory manager writes code into readable and writable
// pages and then makes them readable and executable; pages are never writable and executable at once.
#include <llvm/ExecutionEngine/JITLink/ELF_x86_64.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/SymbolStringPool.h>
#include <unistd.h>

#include "base/error.h"
#include "codegen/counters.h"
#include "codegen/emit.h"
#include "codegen/symbols.h"

namespace tenon::codegen {
namespace {

namespace jitlink = llvm::jitlink;

jitlink::JITLinkMemoryManager& memory() {
  static auto& manager = *new jitlink::InProcessMemoryManager(static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  return manager;  // The manager is never destroyed, since code may be freed during static destruction.
}

class LinkedCode : public MachineCode {
 public:
  ~LinkedCode() {
    if (!allocation_) return;
    memory().deallocate(std::move(allocation_), [](llvm::Error error) { llvm::consumeError(std::move(error)); });
    --atomic_counters.live;
    atomic_counters.live_bytes -= static_cast<int64_t>(bytes);
  }
  void hold(jitlink::JITLinkMemoryManager::FinalizedAlloc allocation) {
    allocation_ = std::move(allocation);
    ++atomic_counters.live;
    atomic_counters.live_bytes += static_cast<int64_t>(bytes);
  }

 private:
  jitlink::JITLinkMemoryManager::FinalizedAlloc allocation_;
};

// JITLink's callbacks; all of them run synchronously within link().
class LinkContext : public jitlink::JITLinkContext {
 public:
  LinkContext(LinkedCode& code, std::string& error) : JITLinkContext(nullptr), code_(code), error_(error) {}

  jitlink::JITLinkMemoryManager& getMemoryManager() override { return memory(); }

  void notifyFailed(llvm::Error error) override { error_ = llvm::toString(std::move(error)); }

  void lookup(const LookupMap& symbols, std::unique_ptr<jitlink::JITLinkAsyncLookupContinuation> continuation) override {
    jitlink::AsyncLookupResult found;
    for (const auto& [name, flags] : symbols) {
      void* address = find_function((*name).str());
      if (!address) return continuation->run(llvm::createStringError("no function " + *name));
      found[name] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    continuation->run(std::move(found));
  }

  llvm::Error notifyResolved(jitlink::LinkGraph& graph) override {
    for (jitlink::Symbol* symbol : graph.defined_symbols())
      if (symbol->hasName() && *symbol->getName() == kEntryPoint) code_.run = symbol->getAddress().toPtr<abi::KernelFunction>();
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
  LinkedCode& code_;
  std::string& error_;
};

}  // namespace

std::shared_ptr<const MachineCode> load(const std::string& object) {
  auto code = std::make_shared<LinkedCode>();
  std::string error;
  auto names = std::make_shared<llvm::orc::SymbolStringPool>();
  auto graph = jitlink::createLinkGraphFromELFObject_x86_64(llvm::MemoryBufferRef(object, "kernel"), names);
  if (graph) jitlink::link_ELF_x86_64(std::move(*graph), std::make_unique<LinkContext>(*code, error));
  else error = llvm::toString(graph.takeError());
  if (!error.empty()) throw InternalError("code that cannot be linked: " + error);
  return code;
}

}  // namespace tenon::codegen
