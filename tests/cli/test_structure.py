"""The rules of the house that a program can check: which part may use which, what the library exports and asks
of the system, how long a function may be. Run from the repository's root with the program's path in WEIR."""
import ast
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from tests.support.processes import start

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["WEIR"]).resolve().parent

# What each part of src/ may use beside itself. Arrows point one way: a part stands below those that it uses.
MAY_USE = {
    "base": [],
    "store": ["base"],
    "ingest": ["base", "store"],
    "remote": ["base", "store"],
    "sampler": ["base", "store"],
    "batch": ["base", "store", "sampler"],
    "report": ["base", "store", "sampler", "batch"],
    "trace": ["base", "store", "sampler", "batch"],
    "plan": ["base"],
    "device": ["base", "plan"],
    "attention": ["base", "store", "device"],
    "pipeline": ["base", "store", "sampler", "batch", "trace", "plan", "device"],
}

# Public headers that are not named after their part.
HEADER_OF = {"arrow": "ingest", "row_run": "ingest", "errors": "base", "manifest": "sampler", "stypes": "store", "tensors": "sampler", "context": "batch",
             "prefetch": "pipeline", "run": "pipeline", "cursors": "pipeline", "arenas": "plan", "step_memory": "device"}
TOOL_OF = {"documents": "base", "philox": "base", "device_work": "device"}  # the others are PART_tools

# Only the default environment speaks to the system; everything else goes through a weir_env.
DOOR = {"src/base/env.c", "src/base/guard.c"}

# Signals belong to the process: what handles them has state of its own, the only one of the library.
PROCESS_STATE = "src/base/guard.c"
SYSTEM_CALLS = """malloc calloc realloc reallocarray free aligned_alloc posix_memalign strdup strndup asprintf
    open openat creat close read write pread pwrite readv writev lseek ftruncate truncate fsync fdatasync rename
    renameat unlink remove mkdir mmap munmap mremap fopen fdopen fclose fread fwrite fgets fputs fputc fprintf
    printf vprintf puts putchar perror time clock_gettime gettimeofday sleep usleep nanosleep pthread_create
    pthread_join exit _exit abort getenv setenv system fork""".split()

# Calls that a file may make all the same, with the reason.
# Where a library is, the key of an embedding server, and the credentials of S3 are said in environment variables.
EXCEPTIONS = {"src/ingest/duckdb_api.c": {"getenv"}, "src/ingest/embed_http.c": {"getenv"},
              "src/ingest/mysql_api.c": {"getenv"},
              "src/ingest/mysql_wait.c": {"close"},  # of sockets
              "src/pipeline/launcher.c": {"getenv"}, "src/remote/remote_url.c": {"getenv"}}

# Integers become narrower in one of the three ways of src/base/narrow.h; the kernels that a GPU compiles too say so by
# plain casts.
NARROWING = "src/base/narrow.h"
NARROWED = ["base", "store", "ingest", "remote", "batch", "device", "attention", "pipeline"]
GPU_KERNELS = {"src/batch/expand_kernel.h", "src/store/calendar.h", "src/attention/lists_kernel.h",
               "src/attention/records_kernel.h"}
CAST = re.compile(r"(?<!\bsizeof)(?<!PERMUTE)\(\s*(?:u?int(?:8|16|32)_t|int|short)\s*\)\s*(?=[A-Za-z_(*&!~-])")

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700


def sources(*patterns):
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    assert found, patterns
    return found


def without_comments(text):
    """The text with comments and the contents of strings blanked out, line for line."""
    def blank(match):
        kept = match.group(0)
        return kept[0] * 2 if kept[0] in "\"'" else re.sub(r"[^\n]", " ", kept)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def includes(path):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M)


def part_of_include(name):
    """The part that an include belongs to; None for the umbrella header and for files of the same folder."""
    if name in ("weir/weir.h", "weir_tool/tools.h") or "/" not in name:
        return None
    folder, rest = name.split("/", 1)
    stem = rest.removesuffix(".h")
    if folder == "weir_tool":
        return TOOL_OF.get(stem, stem.removesuffix("_tools"))
    return HEADER_OF.get(stem, stem) if folder == "weir" else folder


def functions(path):
    """(name, first line, number of lines) of every function, by the layout that clang-format gives: it begins in
    the first column, its signature ends with '{', and it ends with '}' in the first column."""
    name, start, has_body = None, None, False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if start is None and re.match(r"[A-Za-z_]", line) and re.search(r"\w\s*\(", line):
            name, start, has_body = re.search(r"(\w+)\s*\(", line).group(1), number, False
        if start is None:
            continue
        if not has_body and line.endswith(";"):
            start = None  # a declaration
        elif line.endswith("{"):
            has_body = True
        elif has_body and line.startswith("}"):
            yield name, start, number - start + 1
            start = None


class Layers(unittest.TestCase):
    def test_every_part_is_in_the_table(self):
        parts = {path.parent.name for path in sources("src/*/*.[ch]")}
        self.assertLessEqual(parts, MAY_USE.keys(), "say in MAY_USE what a new part may use")

    def test_the_table_has_no_cycle(self):
        placed = set()
        while len(placed) < len(MAY_USE):
            ready = {part for part, used in MAY_USE.items() if part not in placed and placed.issuperset(used)}
            self.assertTrue(ready, "a cycle among %s" % (MAY_USE.keys() - placed))
            placed |= ready

    def test_no_include_points_against_the_order(self):
        for path in sources("src/*/*.[ch]"):
            part = path.parent.name
            allowed = {part, None, *MAY_USE.get(part, [])}
            for name in includes(path):
                with self.subTest(file=str(path.relative_to(ROOT)), include=name):
                    self.assertIn(part_of_include(name), allowed)

    def test_public_headers_follow_the_order(self):
        for path in sources("include/weir/*.h"):
            if path.name == "weir.h":
                continue
            part = part_of_include("weir/" + path.name)
            self.assertIn(part, MAY_USE, "say in HEADER_OF which part %s belongs to" % path.name)
            for name in includes(path):
                with self.subTest(header=path.name, include=name):
                    self.assertTrue(name.startswith("weir/"), "a public header includes public headers only")
                    self.assertIn(part_of_include(name), {part, *MAY_USE[part]})

    def test_the_umbrella_header_has_all_the_others(self):
        others = {"weir/" + path.name for path in sources("include/weir/*.h") if path.name != "weir.h"}
        self.assertEqual(set(includes(ROOT / "include/weir/weir.h")) | {"weir/errors.h"}, others)

    def test_tool_headers_follow_the_order(self):
        for path in sources("include/weir_tool/*.h"):
            if path.name == "tools.h":
                continue
            part = part_of_include("weir_tool/" + path.name)
            self.assertIn(part, MAY_USE, "a tool header is named PART_tools.h, or TOOL_OF says its part")
            for name in includes(path):
                with self.subTest(header=path.name, include=name):
                    self.assertTrue(name.startswith(("weir/", "weir_tool/")))
                    self.assertIn(part_of_include(name), {part, *MAY_USE[part]})
        others = {"weir_tool/" + path.name for path in sources("include/weir_tool/*.h") if path.name != "tools.h"}
        self.assertEqual(set(includes(ROOT / "include/weir_tool/tools.h")), others)

    def test_program_and_module_use_public_and_tool_headers_only(self):
        for path in sources("cli/*.[ch]", "python/src/*.[ch]"):
            for name in includes(path):
                with self.subTest(file=path.name, include=name):
                    self.assertTrue(name.startswith(("weir/", "weir_tool/")) or "/" not in name)


class Symbols(unittest.TestCase):
    def declared(self):
        names = set()
        for path in sources("include/weir/*.h"):
            text = re.sub(r"^\s*#.*$", "", without_comments(path.read_text()), flags=re.M)
            names.update(re.findall(r"WEIR_API[^;(]*?\b(\w+)\s*\(", text))
        return names

    def defined(self, *arguments):
        output = subprocess.run(["nm", "--defined-only", "--format=posix", *map(str, arguments)],
                                check=True, capture_output=True, text=True).stdout
        names = {line.split()[0].partition("@")[0] for line in output.splitlines() if len(line.split()) > 1}
        return {name for name in names if "asan" not in name and not name.startswith(("_init", "_fini", "WEIR_"))}

    def test_the_program_is_protected(self):
        """Position-independent, tables that cannot be written, no code on the stack, guarded stacks, checked copies."""
        cache = BUILD / "CMakeCache.txt"
        kept = cache.read_text() if cache.exists() else ""
        if "CMAKE_BUILD_TYPE:STRING=Release" not in kept or "WEIR_HARDENING:BOOL=ON" not in kept:
            self.skipTest("this is not a release build with protections")
        told = subprocess.run(["readelf", "-hldW", "--dyn-syms", BUILD / "weir"], check=True, capture_output=True, text=True).stdout
        for pattern in (r"Type: +DYN", r"GNU_RELRO", r"BIND_NOW|Flags:.*NOW", r"GNU_STACK .* RW ", r"__stack_chk_fail", r"__\w+_chk"):
            self.assertRegex(told, pattern)

    def test_the_shared_library_exports_what_the_headers_declare(self):
        library = BUILD / "libweir.so"
        if not library.exists():
            self.skipTest("this build has no shared library")
        exported, declared = self.defined("-D", library), self.declared()
        self.assertGreater(len(declared), 50)
        self.assertEqual(exported - declared, set(), "exported, but in no public header")
        self.assertEqual(declared - exported, set(), "declared, but not exported")

    def test_the_static_library_keeps_to_its_prefix(self):
        library = BUILD / "libweir.a"
        if not library.exists():
            self.skipTest("this build has no static library")
        strangers = {name for name in self.defined("--extern-only", library) if not name.startswith("weir_")}
        self.assertEqual(strangers, set())


class Names(unittest.TestCase):
    """A name says its room: weir_store__x is declared in src/store, weir__x in src/base; the packer is a room of plan's."""

    def room(self, path):
        part = path.parent.name
        return "pack" if part == "plan" and path.name.startswith("pack") and path.name != "packing.c" else part

    def test_a_shared_name_says_its_room(self):
        for path in sources("src/*/*.h"):
            room = self.room(path)
            text = without_comments(path.read_text())
            text = re.sub(r"__attribute__\(\([^()]*(?:\([^()]*\))?[^()]*\)\)\s*", "", text)
            declared = re.findall(r"^(?!#|typedef|\s)[^\n;={(]*?\b(weir_\w*?__\w+|weir__\w+)\s*\(", text, re.M)
            declared += re.findall(r"^(?:\}|(?:typedef|extern)\b[^\n{(]*) (weir_\w*?__\w+|weir__\w+)[\[;]", text, re.M)
            declared += re.findall(r"^#define ((?:weir|WEIR)_\w*?__\w+|(?:weir|WEIR)__\w+)", text, re.M)
            for constants in re.findall(r"\benum\b[^;{(]*\{(.*?)\}", text, re.S):
                declared += re.findall(r"(?:^|[{,])\s*(WEIR_\w*?__\w+|WEIR__\w+)", constants)
            for name in declared:
                with self.subTest(file=str(path.relative_to(ROOT)), name=name):
                    self.assertEqual(name.lower().split("__")[0], "weir" if room == "base" else "weir_" + room)

    def test_no_name_differs_from_a_public_one_by_an_underscore(self):
        public = set()
        for path in sources("include/*/*.h"):
            public.update(re.findall(r"\bweir_\w+", path.read_text(), re.I))
        inside = set()
        for path in sources("src/*/*.[ch]"):
            inside.update(re.findall(r"\bweir_\w*__\w+|\bweir__\w+", without_comments(path.read_text()), re.I))
        twins = {name for name in inside if name.replace("__", "_") in public} - {"weir__store"}  # the stem of weir__store32
        self.assertEqual(twins, set())

    def test_a_file_name_stands_once(self):
        names = [path.name for path in sources("src/*/*.[ch]")]
        self.assertEqual({name for name in names if names.count(name) > 1}, set())


class Hardening(unittest.TestCase):
    """What SECURITY.md says of release builds holds of the program and of the library."""

    def test_the_release_build_is_hardened(self):
        for path in (BUILD / "weir", BUILD / "libweir.so"):
            with self.subTest(path.name):
                described = subprocess.run(["readelf", "--wide", "--file-header", "--segments", "--dynamic", path],
                                           check=True, capture_output=True, text=True).stdout
                self.assertRegex(described, r"Type:\s+DYN")
                self.assertIn("GNU_RELRO", described)
                self.assertRegex(described, r"GNU_STACK\s.* RW ")
                self.assertRegex(described, r"FLAGS.*(BIND_NOW|NOW)")
                if os.uname().machine == "x86_64":
                    self.assertGreater(path.read_bytes().count(b"\xf3\x0f\x1e\xfa"), 500)  # endbr64: functions begin with it
                wanted = subprocess.run(["nm", "-D", "--undefined-only", path], check=True, capture_output=True, text=True).stdout
                self.assertIn("__stack_chk_fail", wanted)
                self.assertRegex(wanted, r"__\w+_chk@")


class Door(unittest.TestCase):
    def test_only_the_environment_speaks_to_the_system(self):
        call = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(SYSTEM_CALLS))
        for path in sources("src/*/*.[ch]"):
            name = str(path.relative_to(ROOT))
            if name in DOOR:
                continue
            for number, line in enumerate(without_comments(path.read_text()).split("\n"), 1):
                for found in call.findall(line):
                    with self.subTest(place="%s:%d" % (name, number), call=found):
                        self.assertIn(found, EXCEPTIONS.get(name, {}))

    def test_the_check_sees_a_call(self):
        text = without_comments('x = malloc(3); /* free(x) */ s = "exit(1)"; env->open(c); y.read(z);')
        call = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(SYSTEM_CALLS))
        self.assertEqual(call.findall(text), ["malloc"])

    def test_no_global_state_that_changes(self):
        headers = "\n".join(path.read_text() for path in sources("src/*/*.h"))
        functions = re.findall(r"^typedef [\w ]+ \**(\w+)\(", headers, re.M)  # what has such a type is a function
        for path in sources("src/*/*.[ch]"):
            if str(path.relative_to(ROOT)) == PROCESS_STATE:
                continue
            text = without_comments(path.read_text())
            for line in re.findall(r"^(?:static )?(?:[\w*]+ )+[\w*]+(?:\[[^\]]*\])*(?: =.*)?;$", text, re.M):
                if line.startswith(("typedef", "struct", "union", "enum", "return", "extern const")):
                    continue
                if line.split()[0] in functions and "*" not in line:  # a pointer to one is a variable
                    continue
                with self.subTest(file=str(path.relative_to(ROOT)), line=line):
                    self.assertRegex(line, r"\bconst\b")


class Narrowing(unittest.TestCase):
    def test_no_number_is_cut_without_a_word(self):
        for path in sources(*["src/%s/*.[ch]" % part for part in NARROWED]):
            name = str(path.relative_to(ROOT))
            if name in GPU_KERNELS or name == NARROWING:
                continue
            for number, line in enumerate(without_comments(path.read_text()).split("\n"), 1):
                if "static_assert" in line.lower() or re.match(r"\s*(X\(|.*\(\*\w+\)\(int\)|.*\(int\)(PART|STYPE|WEIR)_)", line):
                    continue
                with self.subTest(place="%s:%d" % (name, number)):
                    self.assertIsNone(CAST.search(line), "use weir__fits, WEIR__NARROW or WEIR__LOW: " + line.strip())

    def test_the_check_sees_a_cast(self):
        for line in "x = (uint16_t)y;", "f((int32_t)(a + b))", "z = (int)*p", "(uint8_t) value":
            self.assertIsNotNone(CAST.search(line), line)
        for line in "(uint32_t *)p", "sizeof(uint32_t)", "(uint32_t)1 << 3", "(uint64_t)x", "WEIR__LOW(uint8_t, x)":
            self.assertIsNone(CAST.search(line), line)


class Types(unittest.TestCase):
    """What is done with a value depends on what it is (weir_value_of), not on which type it has: a new type would be
    forgotten there. Only conversions ask for the type, and drafts, which choose one. Link tasks are boolean by definition."""

    KNOWS_TYPES = re.compile(r"src/ingest/(convert|draft\w*)\.c")
    ASKS = re.compile(r"(?:[=!]=|\bcase) WEIR_(?:NUMERICAL|TIMESTAMP|BOOLEAN|CATEGORICAL|TEXT)\b(?! && task->seed_times)")

    def test_values_are_asked_for_and_not_types(self):
        for path in sources("src/*/*.[ch]", "cli/*.[ch]", "python/src/*.[ch]"):
            place = str(path.relative_to(ROOT))
            with self.subTest(file=place):
                if not self.KNOWS_TYPES.fullmatch(place):
                    self.assertIsNone(self.ASKS.search(without_comments(path.read_text())), "use weir_value_of")


class Walks(unittest.TestCase):
    def test_the_walks_of_the_architecture_page_name_what_there_is(self):
        """Every function is defined in the file that is named after it."""
        text = (ROOT / "docs/architecture.md").read_text().split("## Three walks")[1]
        waiting, checked = [], 0
        for name, path in re.findall(r"`(weir_\w+)`|`((?:src|python)/[\w/]+\.[ch])`", text):
            if name:
                waiting.append(name)
                continue
            defined = {function for function, _, _ in functions(ROOT / path)}
            for name in waiting:
                with self.subTest(function=name, file=path):
                    self.assertIn(name, defined)
                    checked += 1
            waiting = []
        self.assertEqual(waiting, [], "no file is named after these")
        self.assertGreater(checked, 30)

    def test_files_that_are_named_are_there(self):
        """A comment names files of its own part, or says the folder; a page names any."""
        name = re.compile(r"(?<![\w/.*-])[a-z_0-9]+\.(?:c|h|cu)\b")
        for path in sources("src/*/*.[ch]"):
            own = {beside.name for beside in path.parent.iterdir()}
            for comment in re.findall(r"/\*.*?\*/", path.read_text(), re.S):
                self.assertEqual(set(name.findall(comment)) - own, set(), path)
        there = {path.name for path in sources("src/*/*", "include/*/*.h", "cli/*.[ch]", "python/src/*.[ch]", "examples/*.c",
                                               "tests/fuzz/targets/*.c")}
        for path in sources("docs/*.md"):
            self.assertEqual(set(name.findall(path.read_text())) - there, set(), path)


class Processes(unittest.TestCase):
    def test_what_tests_start_dies_with_them(self):
        for path in sources("tests/*/*.py"):
            if path.name in ("processes.py", "test_structure.py"):
                continue
            with self.subTest(file=str(path.relative_to(ROOT))):
                self.assertNotIn("subprocess.Popen(", path.read_text(), "use tests.support.processes.start")

    def test_a_killed_test_leaves_no_process(self):
        script = ("import sys, time; from tests.support.processes import start\n"
                  "print(start(['sleep', '600']).pid, flush=True); time.sleep(600)")
        test = start([sys.executable, "-B", "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT,
                     env={**os.environ, "PYTHONPATH": str(ROOT)})
        child = int(test.stdout.readline())
        test.kill()
        test.wait()
        test.stdout.close()
        for _ in range(1000):
            try:
                state = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except FileNotFoundError:
                return
            if state == "Z":  # dead, and nobody has asked yet
                return
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        self.fail("a process outlived the test that started it")

    def test_what_they_start_hears_an_interrupt(self):
        """Also if a shell has the tests ignore it, because they run in its background."""
        script = ("from tests.support.processes import start\n"
                  "start(['grep', '^SigIgn:', '/proc/self/status']).wait()")
        done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, check=True, cwd=ROOT,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        ignored = int(done.stdout.split()[1], 16)
        self.assertEqual(ignored >> (signal.SIGINT - 1) & 1, 0)


class Size(unittest.TestCase):
    patterns = "src/*/*.[ch]", "include/*/*.h", "cli/*.[ch]", "python/src/*.[ch]", "tests/*/*.[ch]", "tests/fuzz/targets/*.[ch]"
    python = "python/weir/*.py", "reference/*.py", "tests/*/*.py", "bench/*.py", "examples/*.py", "tools/*.py"

    def test_functions_are_short(self):
        seen = 0
        for path in sources(*self.patterns):
            for name, line, length in functions(path):
                seen += 1
                with self.subTest(function="%s:%d: %s" % (path.relative_to(ROOT), line, name)):
                    self.assertLessEqual(length, FUNCTION_LINES_MAX)
        self.assertGreater(seen, 300)

    def test_the_measure_sees_a_long_function(self):
        lengths = {name: length for name, _, length in functions(ROOT / "src/sampler/sampler.c")}
        self.assertGreater(lengths["weir_sampler_step"], 10)
        self.assertNotIn("define", lengths)

    def test_files_are_short_and_say_what_they_are_for(self):
        for path in sources(*self.patterns):
            text = path.read_text()
            with self.subTest(file=str(path.relative_to(ROOT))):
                self.assertTrue(text.startswith("/* "), "the first line opens a paragraph: purpose, method, invariants")
                self.assertLessEqual(text.count("\n"), FILE_LINES_MAX)

    def test_python_files_are_short_and_say_what_they_are_for(self):
        seen = 0
        for path in sources(*self.python):
            text = path.read_text()
            tree = ast.parse(text)
            with self.subTest(file=str(path.relative_to(ROOT))):
                self.assertTrue(ast.get_docstring(tree), "the first lines say what it is for")
                self.assertLessEqual(text.count("\n"), FILE_LINES_MAX)
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    seen += 1
                    with self.subTest(function="%s:%d: %s" % (path.relative_to(ROOT), node.lineno, node.name)):
                        self.assertLessEqual(node.end_lineno - node.lineno + 1, FUNCTION_LINES_MAX)
        self.assertGreater(seen, 1000)

    def test_nothing_is_left_for_later(self):
        for path in sources(*self.patterns, *self.python):
            with self.subTest(file=str(path.relative_to(ROOT))):
                self.assertNotRegex(path.read_text(), r"\b(T[O]DO|FIX[M]E|X[X]X)\b")  # which is none itself


if __name__ == "__main__":
    unittest.main()
