# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: checks every #include of the sources against one table.

A folder may include itself, what its row names, and the C and C++ standard libraries. Outside
libraries are allowed only where OUTSIDE names them.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Longest matching prefix decides. library.cc wires the parts of libflare together, so it is free.
MAY_INCLUDE = {
    "libflare/core": [],
    # "libflare/" stands for the recorder layer: the files directly in that folder.
    "libflare/": ["libflare/core", "libflare/"],
    "libflare/library.cc": ["libflare"],
    "libflare/hooks": ["libflare/core", "libflare/timing", "libflare/"],
    "libflare/python": ["libflare/core", "libflare/"],
    "daemon": ["libflare/core", "flare/v1"],
    "diag/model": ["libflare/core"],
    "diag/metrics": ["libflare/core", "diag/model"],
    "diag/detect": ["libflare/core", "diag/model", "diag/metrics"],
    "diag/report": ["libflare/core", "diag/model", "diag/metrics", "diag/detect", "flare/v1"],
    # FLARE's own traces carry FLARE's own messages.
    "diag/import/flare_": ["libflare/core", "diag/model", "diag/import", "diag/store/convert.h",
                           "diag/trace/trace_writer.h", "flare/v1"],
    "diag/import/perfetto_": ["libflare/core", "diag/model", "diag/import",
                              "diag/trace/trace_writer.h", "flare/v1"],
    "diag/trace": ["libflare/core", "diag/model", "diag/store", "flare/v1"],
    "diag/import": ["libflare/core", "diag/model"],
    "diag/store": ["libflare/core", "diag/model", "flare/v1"],
    "diag/engine": ["libflare/core", "diag/model", "diag/metrics", "diag/detect", "diag/report",
                    "diag/store", "flare/v1"],
    "diag/bindings": ["libflare/core", "diag"],
    "diag/cli": ["libflare/core", "diag", "daemon", "flare/v1"],
}

# Outside header (pattern) -> folders that may use it.
OUTSIDE = {
    r"grpcpp/|grpc/": ["daemon/uplink", "diag/engine", "diag/cli"],
    r"google/protobuf/": ["daemon", "diag/store", "diag/engine", "diag/cli", "diag/report",
                           "diag/trace", "diag/import/flare_record"],
    r"spdlog/|fmt/": ["daemon", "diag/engine", "diag/cli", "diag/store"],
    r"nlohmann/": ["diag/report", "diag/trace", "diag/store", "diag/engine", "diag/cli", "daemon"],
    r"sqlite3\.h": ["diag/store", "diag/import"],
    r"simdjson\.h|zlib\.h|zstd\.h|lzma\.h": ["diag/import"],
    r"CLI/": ["daemon/main.cc", "diag/engine/main.cc", "diag/cli"],
    r"cuda|cupti|nccl|cublas": ["libflare/hooks", "libflare/timing"],
    r"pybind11/": ["diag/bindings"],
}

PURE = ["diag/metrics", "diag/detect"]
IMPURE_HEADERS = re.compile(r"^(fstream|iostream|thread|mutex|unistd\.h|sys/.*|fcntl\.h|time\.h)$")

INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]')


def sources():
    for folder in ("libflare", "daemon", "diag"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".c"):
                yield path.relative_to(ROOT).as_posix(), path


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def row_for(name):
    best = max((p for p in MAY_INCLUDE if name.startswith(p)), key=len, default=None)
    return best, MAY_INCLUDE.get(best, [])


def folder_of(name):
    return name.rsplit("/", 1)[0] if "/" in name else ""


class IncludeDirectionTest(unittest.TestCase):
    def test_own_headers_are_included_only_in_the_allowed_direction(self):
        wrong = []
        for name, path in sources():
            prefix, allowed = row_for(name)
            for number, header in includes(path):
                if not header.startswith(("libflare/", "daemon/", "diag/", "flare/v1/")):
                    continue
                same_folder = header.startswith(prefix) and (
                    prefix != "libflare/" or folder_of(header) == "libflare")
                fits = any(header.startswith(a) and (a != "libflare/" or folder_of(header) == "libflare")
                           for a in allowed)
                if not (same_folder or fits):
                    wrong.append(f"{name}:{number} includes {header}")
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_outside_headers_are_used_only_where_the_table_says(self):
        wrong = []
        for name, path in sources():
            for number, header in includes(path):
                for pattern, folders in OUTSIDE.items():
                    if re.match(pattern, header) and not name.startswith(tuple(folders)):
                        wrong.append(f"{name}:{number} includes {header}")
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_metrics_and_detectors_do_no_input_or_output(self):
        wrong = [f"{name}:{number} includes {header}"
                 for name, path in sources() if name.startswith(tuple(PURE))
                 for number, header in includes(path) if IMPURE_HEADERS.match(header)]
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_includes_start_at_the_root(self):
        wrong = [f"{name}:{number} includes {header}" for name, path in sources()
                 for number, header in includes(path) if header.startswith((".", ".."))]
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_every_source_is_covered(self):
        names = [name for name, _ in sources()]
        self.assertGreater(len(names), 20)
        self.assertEqual([n for n in names if row_for(n)[0] is None], [])


if __name__ == "__main__":
    sys.exit(unittest.main())
