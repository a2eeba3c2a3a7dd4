// Text that goes on, shown as it comes: generate DIRECTORY TEXT. The directory is one of Hugging Face's, with tokenizer.json.
#include <tenon/generate.h>
#include <tenon/tokenizer.h>

#include <iostream>

int main(int count, char** arguments) try {
  if (count != 3) return std::cerr << "generate DIRECTORY TEXT\n", 2;
  auto tokenizer = tenon::Tokenizer::load(arguments[1]);
  tenon::Generator generate(tenon::load_causal_model(arguments[1]));
  tenon::TextStream text(tokenizer);
  generate({tokenizer.encode(arguments[2])}, {.max_new_tokens = 64}, [&](size_t, int64_t token) {
    std::cout << text.put(token) << std::flush;
    return true;
  });
  std::cout << text.finish() << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
