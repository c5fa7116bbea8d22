// SPDX-License-Identifier: Apache-2.0
#include "diag/cli/preload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "diag/cli/atomic_file.h"
#include "diag/cli/probe.h"
#include "tests/diag/cli/temporary_folder.h"

namespace flare::cli {
namespace {

using testing::HasSubstr;

TEST(PreloadTest, OursGoesAfterWhatIsThere) {
  EXPECT_EQ(PreloadValue("", "/x/libflare.so"), "/x/libflare.so");
  EXPECT_EQ(PreloadValue("/a.so /b.so", "/x/libflare.so"), "/a.so /b.so:/x/libflare.so");
}

TEST(PreloadTest, OursIsNotAddedTwice) {
  EXPECT_EQ(PreloadValue("/x/libflare.so:/a.so", "/x/libflare.so"), "/x/libflare.so:/a.so");
}

TEST(PreloadTest, GarbageIsFoundOut) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "broken.so", "not a library", 0700).ok());
  const Status status = TryPreload(folder / "broken.so");
  EXPECT_THAT(status.message(), HasSubstr("broken.so"));
  EXPECT_THAT(TryPreload(folder / "missing.so").message(), HasSubstr("missing.so"));
}

TEST(ProbeTest, TellsStatusOutputAndDeath) {
  const auto result = RunProbe({"sh", "-c", "echo out; echo err >&2; exit 3"}, {}, 10'000);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit_status, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(RunProbe({"sh", "-c", "kill -SEGV $$"}, {}, 10'000)->exit_status, 128 + 11);
}

TEST(ProbeTest, EndsWhatHangsEvenWithItsOutputClosed) {
  EXPECT_TRUE(RunProbe({"sleep", "1000"}, {}, 50)->timed_out);
  EXPECT_TRUE(RunProbe({"sh", "-c", "exec >&- 2>&-; exec sleep 1000"}, {}, 50)->timed_out);
}

TEST(ProbeTest, ChangesOnlyTheVariablesNamed) {
  setenv("FLARE_TEST_KEPT", "1", 1);
  setenv("FLARE_TEST_GONE", "1", 1);
  const auto result =
      RunProbe({"sh", "-c", "echo $FLARE_TEST_KEPT-$FLARE_TEST_GONE-$FLARE_TEST_NEW"},
               {{"FLARE_TEST_GONE", ""}, {"FLARE_TEST_NEW", "2"}}, 10'000);
  EXPECT_EQ(result->output, "1--2\n");
}

TEST(ProbeTest, SaysWhatCannotBeStarted) {
  EXPECT_FALSE(RunProbe({"/nonexistent/program"}, {}, 1000).ok());
}

}  // namespace
}  // namespace flare::cli
