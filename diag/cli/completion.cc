// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/completion.h"

#include <algorithm>
#include <vector>

namespace flare::cli {
namespace {

struct OptionWords {
  std::vector<std::string> names;  // with their dashes
  std::string description;
  bool takes_value = false;
  bool takes_path = false;
  std::vector<std::string> choices;
};

std::vector<const CLI::App*> Commands(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

// The words a validator of fixed choices lists in its description: "{on,off}".
std::vector<std::string> Choices(const CLI::Option& option) {
  std::vector<std::string> choices;
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::string word;
  for (size_t i = open + 1; i <= close; ++i) {
    if (type[i] == ',' || type[i] == '}') {
      choices.push_back(word);
      word.clear();
    } else {
      word += type[i];
    }
  }
  return choices;
}

std::vector<OptionWords> Options(const CLI::App& app) {
  std::vector<OptionWords> all;
  for (const CLI::Option* option : app.get_options()) {
    OptionWords words;
    for (const std::string& name : option->get_lnames()) words.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.names.push_back("-" + name);
    if (words.names.empty()) continue;
    words.description = option->get_description();
    words.takes_value = option->get_items_expected_max() > 0;
    const std::string type = option->get_type_name();
    words.takes_path = type == "DIR" || type == "FILE";
    words.choices = Choices(*option);
    all.push_back(words);
  }
  return all;
}

std::vector<std::string> PositionalChoices(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    for (const std::string& choice : Choices(*option)) all.push_back(choice);
  }
  return all;
}

bool TakesPaths(const CLI::App& app) {
  const std::vector<const CLI::Option*> options = app.get_options();
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_type_name() == "PATH";
  });
}

std::string Join(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// `text` within single quotes of a shell.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string ZshDescription(std::string text) {
  std::replace(text.begin(), text.end(), '[', '(');
  std::replace(text.begin(), text.end(), ']', ')');
  std::string out;
  for (const char c : text) out += c == ':' ? "\\:" : std::string(1, c);
  return out;
}

}  // namespace

std::string BashCompletion(const CLI::App& root) {
  std::string cases;
  std::string names;
  std::string values;
  for (const CLI::App* app : Commands(root)) {
    names += (names.empty() ? "" : " ") + app->get_name();
    std::vector<std::string> words = PositionalChoices(*app);
    for (const OptionWords& option : Options(*app)) {
      words.insert(words.end(), option.names.begin(), option.names.end());
      if (!option.takes_value) continue;
      const std::string pattern =
          "    " + app->get_name() + ":" + Join(option.names, "|" + app->get_name() + ":") + ") ";
      if (!option.choices.empty()) {
        values += pattern + "COMPREPLY=($(compgen -W " + Quoted(Join(option.choices, " ")) +
                  " -- \"$word\")); return ;;\n";
      } else if (option.takes_path) {
        values += pattern + "COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n";
      } else {
        values += pattern + "return ;;\n";
      }
    }
    cases += "    " + app->get_name() + ") words=" + Quoted(Join(words, " ")) + " ;;\n";
  }
  return "# Completion of flare for bash: source it, or put it into\n"
         "# ~/.local/share/bash-completion/completions/flare\n"
         "_flare() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command=${COMP_WORDS[1]} words='' i\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W " +
         Quoted(names + " --help --version") +
         " -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  for ((i = 2; i < COMP_CWORD; ++i)); do\n"
         "    if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
         "      if ((i == COMP_CWORD - 1)); then\n"
         "        COMPREPLY=($(compgen -c -- \"$word\"))\n"
         "      else\n"
         "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "      fi\n"
         "      return\n"
         "    fi\n"
         "  done\n"
         "  case $command:$previous in\n" +
         values +
         "  esac\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o default -F _flare flare\n";
}

std::string ZshCompletion(const CLI::App& root) {
  std::string commands;
  std::string cases;
  for (const CLI::App* app : Commands(root)) {
    commands +=
        "    " + Quoted(app->get_name() + ":" + ZshDescription(app->get_description())) + "\n";
    cases += "        " + app->get_name() + ")\n          _arguments";
    for (const OptionWords& option : Options(*app)) {
      for (const std::string& name : option.names) {
        std::string spec = name + "[" + ZshDescription(option.description) + "]";
        if (option.takes_value) {
          spec += !option.choices.empty() ? ":value:(" + Join(option.choices, " ") + ")"
                  : option.takes_path     ? ":path:_files"
                                          : ":value:";
        }
        cases += " \\\n            " + Quoted(spec);
      }
    }
    const std::vector<std::string> positional = PositionalChoices(*app);
    if (!positional.empty()) {
      cases += " \\\n            " + Quoted("*:value:(" + Join(positional, " ") + ")");
    } else if (app->get_name() == "run") {
      cases += " \\\n            " + Quoted("*::command:_normal");
    } else if (TakesPaths(*app)) {
      cases += " \\\n            " + Quoted("*:path:_files");
    }
    cases += " ;;\n";
  }
  return "#compdef flare\n"
         "# Completion of flare for zsh: put it as _flare into a folder of $fpath.\n"
         "_flare() {\n"
         "  local state\n"
         "  local -a commands=(\n" +
         commands +
         "  )\n"
         "  _arguments -C '--help[Print help]' '--version[Print the version]' "
         "'1:command:->command' '*::argument:->argument'\n"
         "  case $state in\n"
         "    command) _describe command commands ;;\n"
         "    argument)\n"
         "      case $words[1] in\n" +
         cases +
         "      esac ;;\n"
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _flare ]]; then _flare \"$@\"; else compdef _flare flare; fi\n";
}

std::string FishCompletion(const CLI::App& root) {
  std::string text =
      "# Completion of flare for fish: put it into ~/.config/fish/completions/flare.fish\n"
      "complete -c flare -f\n";
  for (const CLI::App* app : Commands(root)) {
    text += "complete -c flare -n __fish_use_subcommand -a " + app->get_name() + " -d " +
            Quoted(app->get_description()) + "\n";
    const std::string here =
        "complete -c flare -n '__fish_seen_subcommand_from " + app->get_name() + "'";
    for (const OptionWords& option : Options(*app)) {
      text += here;
      for (const std::string& name : option.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.takes_value) text += option.takes_path ? " -r -F" : " -x";
      if (!option.choices.empty()) text += " -a " + Quoted(Join(option.choices, " "));
      text += " -d " + Quoted(option.description) + "\n";
    }
    const std::vector<std::string> positional = PositionalChoices(*app);
    if (!positional.empty()) text += here + " -a " + Quoted(Join(positional, " ")) + "\n";
    if (TakesPaths(*app)) text += here + " -F\n";
  }
  return text;
}

}  // namespace flare::cli
