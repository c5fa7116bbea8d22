# SPDX-License-Identifier: Apache-2.0
"""An installed tree works away from the build: programs find the library beside them."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["FLARE_BUILD_DIR"])


class InstallTest(unittest.TestCase):
    def setUp(self):
        self.prefix = pathlib.Path(tempfile.mkdtemp(prefix="flare-install-"))
        self.addCleanup(shutil.rmtree, self.prefix, ignore_errors=True)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.prefix], check=True,
                       stdout=subprocess.DEVNULL)

    def test_programs_library_and_header_are_there(self):
        for name in ("bin/flare", "bin/flared", "bin/flare-engine", "include/flare.h"):
            self.assertTrue((self.prefix / name).is_file(), name)
        self.assertEqual(len(list(self.prefix.glob("lib*/**/libflare.so"))), 1)

    def test_man_pages_are_there_when_they_can_be_made(self):
        pages = {"man1/flare.1": "flare run", "man8/flared.8": "--segment-dir",
                 "man8/flare-engine.8": "--listen"}
        cache = (BUILD / "CMakeCache.txt").read_text()
        if "HELP2MAN:FILEPATH=HELP2MAN-NOTFOUND" in cache:
            self.assertEqual([], list(self.prefix.glob("share/man/**/*.?")))
            self.skipTest("this build had no help2man")
        for name, words in pages.items():
            text = (self.prefix / "share/man" / name).read_text().replace("\\-", "-")
            self.assertIn(words, text)
            self.assertIn("FLARE", text)
            self.assertNotIn(os.path.expanduser("~") + "/.local", text)

    def test_installed_run_finds_its_library_and_traces_the_job(self):
        library = next(self.prefix.glob("lib*/**/libflare.so"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FLARE_")}
        done = subprocess.run(
            [self.prefix / "bin/flare", "run", "--state", self.prefix / "state", "-q", "--",
             sys.executable, "-c", "import os; print(os.environ['LD_PRELOAD'])"],
            env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.path.realpath(done.stdout.strip()), os.path.realpath(library))


if __name__ == "__main__":
    sys.exit(unittest.main())
