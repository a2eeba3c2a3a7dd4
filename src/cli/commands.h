// The commands of the program `tenon`. Each function adds one command, which stores its exit code when it has run.
#pragma once

#include <tenon/tokenizer.h>

#include <string>

namespace CLI {
class App;
}

namespace tenon::cli {

void add_train(CLI::App& app, int& exit_code);
void add_generate(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);

// Loads the tokenizer of a model directory. Throws UserError(file) that says what to do if there is none.
Tokenizer load_tokenizer(const std::string& directory);

}  // namespace tenon::cli
