// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flare::cli {
namespace {

using testing::HasSubstr;

// A tree with one of each kind of word.
class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    CLI::App* paint = root_.add_subcommand("paint", "Paint it [now]: don't wait");
    paint->add_option("--file", file_, "Where")->type_name("FILE");
    paint->add_option("--color", color_, "Which")->check(CLI::IsMember({"red", "blue"}));
    paint->add_option("SPEED", speed_, "fast or slow")->check(CLI::IsMember({"fast", "slow"}));
    paint->add_flag("-q,--quiet", quiet_, "Say nothing");
    CLI::App* frame = root_.add_subcommand("frame", "Frame paintings");
    frame->add_option("PATH", file_, "Which")->type_name("PATH");
  }
  CLI::App root_{"", "flare"};
  std::string file_, color_, speed_;
  bool quiet_ = false;
};

TEST_F(CompletionTest, BashOffersCommandsOptionsAndChoices) {
  const std::string script = BashCompletion(root_);
  EXPECT_THAT(script, HasSubstr("compgen -W 'paint frame --help --version'"));
  EXPECT_THAT(script, HasSubstr("paint) words='fast slow --help -h --file --color --quiet -q'"));
  EXPECT_THAT(script, HasSubstr("paint:--color) COMPREPLY=($(compgen -W 'red blue'"));
  EXPECT_THAT(script, HasSubstr("paint:--file) COMPREPLY=($(compgen -f"));
}

TEST_F(CompletionTest, ZshDescribesAndQuotes) {
  const std::string script = ZshCompletion(root_);
  EXPECT_THAT(script, HasSubstr("'paint:Paint it (now)\\: don'\\''t wait'"));
  EXPECT_THAT(script, HasSubstr("'--color[Which]:value:(red blue)'"));
  EXPECT_THAT(script, HasSubstr("'--quiet[Say nothing]'"));
}

TEST_F(CompletionTest, FishOffersPathsOnlyWherePathsBelong) {
  const std::string script = FishCompletion(root_);
  EXPECT_THAT(script, HasSubstr("-a paint -d 'Paint it [now]: don'\\''t wait'"));
  EXPECT_THAT(script, HasSubstr("-l file -r -F -d 'Where'"));
  EXPECT_THAT(script, HasSubstr("-l color -x -a 'red blue' -d 'Which'"));
  EXPECT_THAT(script, HasSubstr("-a 'fast slow'"));
  EXPECT_THAT(script, HasSubstr("from frame' -F\n"));
  EXPECT_THAT(ZshCompletion(root_), HasSubstr("'*:path:_files'"));
}

}  // namespace
}  // namespace flare::cli
