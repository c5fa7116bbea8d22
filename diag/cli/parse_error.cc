// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/parse_error.h"

#include <algorithm>
#include <iostream>

#include "diag/cli/suggestion.h"
#include "diag/report/plain_text.h"

namespace flare::cli {
namespace {

std::vector<std::string> CommandNames(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(app->get_name());
  }
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

const CLI::App* Selected(const CLI::App& root) {
  const std::vector<CLI::App*> parsed = root.get_subcommands();
  return parsed.empty() ? &root : parsed.front();
}

std::string DidYouMean(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = Nearest(word, candidates);
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

// The first word that looks like an option and is none of `app`.
std::string UnknownOption(const CLI::App& app, const CommandLine& line) {
  const std::vector<std::string> known = OptionNames(app);
  for (const std::string& word : line.own) {
    const std::string name = word.substr(0, word.find('='));
    if (name.size() < 2 || name[0] != '-') continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) return name;
  }
  return "";
}

std::string Message(const CLI::App& root, const CommandLine& line, const CLI::ParseError& error) {
  const CLI::App* app = Selected(root);
  const std::string where = app == &root ? "" : app->get_name() + ": ";
  if (app == &root && !line.own.empty() && !line.own[0].starts_with("-")) {
    const std::string word = diag::Printable(line.own[0], 100);
    return "no command '" + word + "'" + DidYouMean(word, CommandNames(root));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string option = UnknownOption(*app, line);
    if (!option.empty()) return UnknownOptionMessage(*app, option);
  }
  return where + diag::Printable(error.what(), 1000);
}

}  // namespace

std::string UnknownOptionMessage(const CLI::App& app, const std::string& word) {
  const std::string option = diag::Printable(word, 100);
  const std::string where = app.get_parent() == nullptr ? "" : app.get_name() + ": ";
  return where + "no option " + option + DidYouMean(option, OptionNames(app));
}

int ExplainParseError(const CLI::App& root, const CommandLine& line, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    return root.exit(error, std::cout, std::cerr) == 0 ? kExitOk : kExitError;
  }
  const CLI::App* app = Selected(root);
  const std::string help = app == &root ? "flare --help" : "flare " + app->get_name() + " --help";
  return Fail(Message(root, line, error) + "\nflare: see '" + help + "'", kExitUsage);
}

}  // namespace flare::cli
