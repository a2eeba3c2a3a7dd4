// tenon: fine-tunes models with PEFT adapters, generates text, and checks the machine. Exit codes: 0, 1 for an error, 130 and 143 for a
// training that SIGINT or SIGTERM ended.
#include <c10/util/Exception.h>
#include <tenon/error.h>
#include <tenon/version.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <new>

#include "cli/commands.h"

namespace {

constexpr size_t kHelpColumns = 26;  // Width of the names of options in the help.

int report(const std::string& text) {
  std::cerr << "tenon: " << text.substr(0, text.find('\n')) << "\n";
  return 1;
}

// "tenon help" is "tenon --help", and "tenon help train" is "tenon train --help". CLI11 takes arguments in reverse order.
std::vector<std::string> reversed_arguments(int count, char** arguments) {
  std::vector<std::string> out(arguments + 1, arguments + count);
  if (!out.empty() && out[0] == "help") {
    out.erase(out.begin());
    out.emplace_back("--help");
  }
  return {out.rbegin(), out.rend()};
}

int run(int count, char** arguments) {
  int exit_code = 0;
  CLI::App app("Fine-tunes language models with PEFT adapters and runs them, without Python.", "tenon");
  app.get_formatter()->column_width(kHelpColumns);
  app.get_formatter()->label("REQUIRED", "(required)");
  app.set_version_flag("--version", std::string("tenon ") + tenon::version());
  app.require_subcommand(1);
  app.footer("\"tenon help train\" explains a command.");
  tenon::cli::add_train(app, exit_code);
  tenon::cli::add_generate(app, exit_code);
  tenon::cli::add_doctor(app, exit_code);
  try {
    app.parse(reversed_arguments(count, arguments));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // Help and version.
    return report(std::string(error.what()) + ". Run \"tenon help\" for the commands and options.");
  }
  return exit_code;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count, arguments);
  } catch (const tenon::Error& error) {
    return report(error.what());
  } catch (const c10::Error& error) {
    return report(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return report("there is not enough memory. Lower per_device_train_batch_size or --block-size, or close other programs.");
  } catch (const std::exception& error) {
    return report(error.what());
  }
}
