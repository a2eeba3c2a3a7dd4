// Thread-local objects that stay usable until the process ends. A plain thread_local object of the main thread is destroyed
// before static destructors and atexit handlers run, and these may still call compiled functions.
#pragma once

namespace tenon {

// This thread's instance of T for this Tag. It is destroyed when the thread ends; a later use creates a new one, which is
// never destroyed.
template <class T, class Tag = T>
T& per_thread() {
  // Pointers and flags have no destructor, so they stay valid until the thread has exited.
  static thread_local T* instance = nullptr;
  static thread_local bool ended = false;
  struct Owner {
    ~Owner() {
      ended = true;
      delete instance;
      instance = nullptr;
    }
  };
  if (!instance) {
    instance = new T;
    if (!ended) {
      static thread_local Owner owner;
      (void)owner;
    }
  }
  return *instance;
}

}  // namespace tenon
