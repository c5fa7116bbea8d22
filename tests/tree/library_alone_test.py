# SPDX-License-Identifier: Apache-2.0
"""The library can be configured and tested alone, where gRPC and its friends are not installed."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class LibraryAloneTest(unittest.TestCase):
    def test_without_programs_their_tests_are_left_out_and_no_package_of_theirs_is_asked_for(self):
        build = pathlib.Path(tempfile.mkdtemp(prefix="flare-alone-"))
        self.addCleanup(shutil.rmtree, build, ignore_errors=True)
        done = subprocess.run(
            ["cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DFLARE_BUILD_PROGRAMS=OFF",
             "-DFLARE_BUILD_TESTS=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON",
             "-DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON"],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = subprocess.run(["ctest", "--test-dir", build, "-N"], check=True, text=True,
                                capture_output=True).stdout
        self.assertIn("libflare_recorder_test", listed)
        self.assertIn("harm_awkward", listed)
        for name in ("daemon_test", "fail_slow_test", "hang_faults", "segment_reader_fuzz_replay",
                     "install_test"):
            self.assertNotIn(f" {name}\n", listed)


if __name__ == "__main__":
    sys.exit(unittest.main())
