// SPDX-License-Identifier: Apache-2.0
#include "daemon/stacks/python_stack.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/daemon/segment_fixture.h"

namespace flare::daemon {
namespace {

// Prints PY_VERSION_HEX, &_PyRuntime and the main PyThreadState* by ctypes, then blocks in read()
// with a stack that the test knows.
constexpr const char* kProgram = R"(import ctypes, os, sys
api = ctypes.pythonapi
api.PyThreadState_Get.restype = ctypes.c_void_p
runtime = ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime"))
print(hex(sys.hexversion), hex(runtime), hex(api.PyThreadState_Get()), flush=True)
def inner():
    return os.read(0, 1)
class Loader:
    def fetch(self):
        text = "Grüße"
        return inner()
def généré():
    yield Loader().fetch()
list(généré())
)";

struct Interpreter {
  pid_t pid = -1;
  int stdin_fd = -1;
  PythonProcess process;
};

class PythonStackTest : public ::testing::TestWithParam<const char*> {
 protected:
  ~PythonStackTest() override {
    if (python_.pid > 0) {
      kill(python_.pid, SIGKILL);
      waitpid(python_.pid, nullptr, 0);
      close(python_.stdin_fd);
    }
  }
  bool Launch(const std::string& program, const std::string& source) {
    const std::string script = directory_.path() + "/job.py";
    std::ofstream(script) << source;
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return false;
    python_.pid = fork();
    if (python_.pid == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      execl(program.c_str(), program.c_str(), script.c_str(), nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    python_.stdin_fd = in[1];
    std::string line;
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') line += c;
    close(out[0]);
    unsigned long version = 0, runtime = 0, thread = 0;
    if (sscanf(line.c_str(), "%lx %lx %lx", &version, &runtime, &thread) != 3) return false;
    python_.process = {python_.pid, python_.pid, static_cast<uint32_t>(version), runtime, thread};
    return true;
  }
  // The stack once `function` is innermost.
  std::vector<PythonFrame> WaitFor(const std::string& function) {
    std::vector<PythonFrame> stack;
    const uint64_t give_up = MonotonicNs() + 10'000'000'000;
    do {
      stack = ReadPythonStack(python_.process);
    } while ((stack.empty() || stack[0].function != function) && MonotonicNs() < give_up);
    return stack;
  }
  static void ExpectKnownStack(const std::vector<PythonFrame>& stack, bool qualified) {
    ASSERT_EQ(stack.size(), 4u);
    EXPECT_EQ(stack[0].function, "inner");
    EXPECT_EQ(stack[0].line, 7u);
    EXPECT_EQ(stack[1].function, qualified ? "Loader.fetch" : "fetch");
    EXPECT_EQ(stack[1].line, 11u);
    EXPECT_EQ(stack[2].function, "généré");
    EXPECT_EQ(stack[2].line, 13u);
    EXPECT_EQ(stack[3].function, "<module>");
    EXPECT_EQ(stack[3].line, 14u);
    EXPECT_TRUE(stack[3].file.ends_with("/job.py"));
  }

  TemporaryDirectory directory_;
  Interpreter python_;
};

TEST_P(PythonStackTest, FramesOfABlockedProgramHaveFunctionFileAndLine) {
  if (access(GetParam(), X_OK) != 0) GTEST_SKIP() << "no " << GetParam();
  ASSERT_TRUE(Launch(GetParam(), kProgram));
  const bool qualified = python_.process.version_hex >= 0x030b0000;
  ExpectKnownStack(WaitFor("inner"), qualified);
  // The same found by way of the runtime, as when nobody told the thread's address.
  python_.process.main_thread_state = 0;
  ExpectKnownStack(ReadPythonStack(python_.process), qualified);
}

TEST_P(PythonStackTest, StoppedProgramIsReadLikeAnother) {
  if (access(GetParam(), X_OK) != 0) GTEST_SKIP() << "no " << GetParam();
  ASSERT_TRUE(Launch(GetParam(), kProgram));
  ASSERT_FALSE(WaitFor("inner").empty());
  ASSERT_EQ(kill(python_.pid, SIGSTOP), 0);
  int status = 0;
  waitpid(python_.pid, &status, WUNTRACED);
  EXPECT_EQ(WaitFor("inner").size(), 4u);
}

TEST_P(PythonStackTest, RunningLoopGivesTheCertainOuterFrames) {
  if (access(GetParam(), X_OK) != 0) GTEST_SKIP() << "no " << GetParam();
  std::string source = kProgram;
  source.resize(source.find("def inner"));
  source +=
      "def leaf(n):\n    return n + 1\n"
      "def spin():\n    n = 0\n    while True:\n        n = leaf(n)\n"
      "spin()\n";
  ASSERT_TRUE(Launch(GetParam(), source));
  int seen = 0;
  const uint64_t give_up = MonotonicNs() + 20'000'000'000;
  while (seen < 200 && MonotonicNs() < give_up) {
    const auto stack = ReadPythonStack(python_.process);
    if (stack.empty()) continue;
    // Whatever is reported is true: module, then spin, then perhaps leaf.
    ASSERT_LE(stack.size(), 3u);
    ASSERT_EQ(stack.back().function, "<module>");
    if (stack.size() >= 2) {
      ASSERT_EQ(stack[stack.size() - 2].function, "spin");
      ++seen;
    }
    if (stack.size() == 3) {
      ASSERT_EQ(stack[0].function, "leaf");
    }
  }
  EXPECT_EQ(seen, 200);
}

TEST_P(PythonStackTest, WrongAddressesGiveNothing) {
  if (access(GetParam(), X_OK) != 0) GTEST_SKIP() << "no " << GetParam();
  ASSERT_TRUE(Launch(GetParam(), kProgram));
  ASSERT_FALSE(WaitFor("inner").empty());
  PythonProcess wrong = python_.process;
  for (const uint64_t address : {uint64_t{8}, ~uint64_t{7}, wrong.runtime_address,
                                 wrong.main_thread_state + 8, wrong.main_thread_state + 4}) {
    wrong.main_thread_state = address;
    EXPECT_TRUE(ReadPythonStack(wrong).empty()) << std::hex << address;
  }
  wrong = python_.process;
  wrong.version_hex = 0x03070000;
  EXPECT_TRUE(ReadPythonStack(wrong).empty());
}

INSTANTIATE_TEST_SUITE_P(Interpreters, PythonStackTest, ::testing::Values(FLARE_TEST_INTERPRETERS));

}  // namespace
}  // namespace flare::daemon
