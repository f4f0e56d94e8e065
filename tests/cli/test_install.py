"""An installed copy: programs in C that find it by pkg-config and by CMake's find_package, linked both ways."""
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["WEIR"]).resolve().parent

CONSUMER = """#include <stdio.h>
#include <weir/weir.h>

int main(void) {
    weir_error error;
    weir_store *store = NULL;
    weir_trace_reader *reader = NULL;
    if (weir_trace_open(NULL, "missing.trace", &reader, &error) == WEIR_OK ||
        weir_store_open(NULL, "missing.weir", &store, &error) == WEIR_OK)
        return 1;
    printf("%s %s\\n", weir_version(), weir_status_name(error.status));
    return 0;
}
"""

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(weir {version} REQUIRED)
add_executable(shared consumer.c)
target_link_libraries(shared PRIVATE weir::weir)
add_executable(static consumer.c)
target_link_libraries(static PRIVATE weir::static)
"""


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.prefix = cls.folder / "somewhere"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        (cls.folder / "consumer.c").write_text(CONSUMER)
        cls.version = run(cls.prefix / "bin/weir", "version").split()[1]
        cls.library = next(cls.prefix.glob("lib*/**/libweir.so")).parent

    def assert_works(self, program):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.library)}
        words = run(program, env=environment, cwd=self.folder).split()
        self.assertEqual(words, [self.version, "IO_ERROR"])

    def test_pkg_config(self):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.library / "pkgconfig")}
        self.assertEqual(run("pkg-config", "--modversion", "weir", env=environment).strip(), self.version)
        flags = run("pkg-config", "--cflags", "--libs", "weir", env=environment).split()
        run("cc", "consumer.c", "-o", "by-pkg-config", *flags, cwd=self.folder)
        self.assert_works(self.folder / "by-pkg-config")
        flags = run("pkg-config", "--static", "--cflags", "--libs", "weir", env=environment).split()
        flags = ["-l:libweir.a" if flag == "-lweir" else flag for flag in flags]
        run("cc", "consumer.c", "-o", "by-pkg-config-static", *flags, cwd=self.folder)
        self.assert_works(self.folder / "by-pkg-config-static")

    def test_find_package(self):
        (self.folder / "CMakeLists.txt").write_text(PROJECT.format(version=self.version))
        run("cmake", "-S", self.folder, "-B", self.folder / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", self.folder / "build")
        self.assert_works(self.folder / "build" / "shared")
        self.assert_works(self.folder / "build" / "static")

    def test_symbols_have_a_version(self):
        exported = run("readelf", "--wide", "--dyn-syms", self.library / "libweir.so")
        self.assertIn("weir_version@@WEIR_0.1", exported)
        self.assertNotRegex(exported, re.compile(r" weir_\w+$", re.M))

    def test_the_headers_are_all_there(self):
        ours = {path.name for path in Path(__file__).resolve().parents[2].glob("include/weir/*.h")}
        self.assertEqual({path.name for path in (self.prefix / "include/weir").iterdir()}, ours)

    def test_nothing_of_the_build_folder_is_named_in_it(self):
        for path in [*self.prefix.glob("**/*.cmake"), *self.prefix.glob("**/*.pc")]:
            self.assertNotIn(str(BUILD), path.read_text(), path.name)


if __name__ == "__main__":
    unittest.main()
