"""`weir plan --html`: the data that goes into the page, and the page itself in a headless Chromium."""

import base64
import json
import random
import re
import unittest
from pathlib import Path
from typing import Any

from tests.property.test_remat import small_graph
from tests.support import browser
from tests.support.plans import Files, call, graph, plan

HOSTILE = "h</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
LONG = "encoder/" + "block.with.a.long.name/" * 12 + "output"

MODEL = {
    "format": "weir-graph/1",
    "name": "a <b>model</b> & more",
    "tensors": [
        {"id": "x", "shape": [32, 64], "dtype": "f32", "role": "input"},
        {"id": "w", "shape": [64, 256], "dtype": "f32", "role": "parameter"},
        {"id": HOSTILE, "shape": [32, 256], "dtype": "f32"},
        {"id": "wide", "shape": [32, 1024], "dtype": "f32"},
        {"id": LONG, "shape": [32, 16], "dtype": "bf16"},
        {"id": "\u202egnp.exe\u2028\t'\"&amp;", "shape": [], "dtype": "i64"},
        {"id": "nothing", "shape": [0, 7], "dtype": "f32", "arena": "void"},
    ],
    "nodes": [
        {"id": "n0", "op": "matmul", "inputs": ["x", "w"], "outputs": [HOSTILE]},
        {"id": "n1", "op": "spread", "inputs": [HOSTILE], "outputs": ["wide"]},
        {"id": "n2", "op": "fold", "inputs": ["wide"], "outputs": [LONG]},
        {"id": "n3", "op": "count", "inputs": [LONG], "outputs": ["\u202egnp.exe\u2028\t'\"&amp;", "nothing"]},
    ],
    "outputs": [LONG],
}


def embedded(page: str) -> dict[str, Any]:
    """The plan as the page carries it."""
    found = re.findall(r'<script type="application/json" id="plan-data">(.*?)</script>', page, re.S)
    assert len(found) == 1
    return json.loads(found[0])


def column(value: dict[str, Any]) -> list[int]:
    data = base64.b64decode(value["data"], validate=True)
    width = value["width"]
    return [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]


class PageCase(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def write(self, model: Any, *arguments: str) -> tuple[str, dict[str, Any]]:
        """The page's path and the same plan as --json gives it."""
        path = self.files.add(model)
        page = path + ".html"
        result = plan(path, *arguments, "--html", page)
        return page, result


class EmbeddedPlan(PageCase):
    """Without a browser: what is in the file."""

    def test_columns_hold_the_plan(self) -> None:
        for mode in ("inference", "forward", "backward"):
            page, result = self.write(MODEL, "--mode", mode)
            data = embedded(Path(page).read_text())
            self.assertEqual(sorted(data["ids"]), sorted(result["tensors"]))
            columns = {name: column(value) for name, value in data["tensors"].items()}
            for i, name in enumerate(data["ids"]):
                tensor = result["tensors"][name]
                for key in ("slot", "offset", "size", "birth", "death"):
                    self.assertEqual(columns[key][i], tensor[key], (mode, name, key))
                arena = data["arenas"][columns["arena"][i]]
                self.assertEqual(arena["name"], tensor["arena"])
                self.assertEqual(column(arena["slot_address"])[tensor["slot"]], int(tensor["address"]))
            self.assertEqual(data["hashes"]["plan"], result["plan_hash"])
            for arena in data["arenas"]:
                for key in ("peak_bytes", "lower_bound", "slot_bytes", "slots"):
                    self.assertEqual(int(arena[key]), result["arenas"][arena["name"]][key])

    def test_shapes_and_types(self) -> None:
        page, _ = self.write(MODEL, "--mode", "forward")
        data = embedded(Path(page).read_text())
        columns = {name: column(value) for name, value in data["tensors"].items()}
        given = {tensor["id"]: tensor for tensor in MODEL["tensors"]}
        start = 0
        for i, name in enumerate(data["ids"]):
            end = start + columns["rank"][i]
            self.assertEqual(columns["shape"][start:end], given[name]["shape"])
            self.assertEqual(data["types"][columns["type"][i]], given[name]["dtype"])
            self.assertEqual(data["roles"][columns["role"][i]], given[name].get("role", "activation"))
            start = end
        self.assertEqual(start, len(columns["shape"]))

    def test_names_cannot_leave_the_data(self) -> None:
        page, _ = self.write(MODEL, "--mode", "forward")
        text = Path(page).read_text()
        self.assertEqual(len(re.findall("(?i)<script", text)), 2)
        self.assertNotIn("owned", text.replace(re.search(r'id="plan-data">(.*?)</script>', text, re.S).group(1), ""))
        self.assertIn(HOSTILE, embedded(text)["ids"])

    def test_asks_nothing_of_the_network(self) -> None:
        page, _ = self.write(MODEL, "--mode", "forward")
        text = Path(page).read_text()
        self.assertIn("default-src 'none'", text)
        self.assertEqual(re.findall(r"https?://[^\s\"']*", text), [])

    def test_large_numbers_are_exact(self) -> None:
        model = {
            "format": "weir-graph/1",
            "name": "",
            "tensors": [{"id": "x", "shape": [2**60 + 1, 3], "dtype": "u8", "role": "input"}],
            "nodes": [],
            "outputs": [],
        }
        page, _ = self.write(model, "--mode", "forward")
        data = embedded(Path(page).read_text())
        self.assertEqual(column(data["tensors"]["size"]), [3 * (2**60 + 1)])
        self.assertEqual(column(data["tensors"]["shape"]), [2**60 + 1, 3])

    def test_a_page_that_cannot_be_written(self) -> None:
        path = self.files.add(MODEL)
        done = call("plan", path, "--mode", "forward", "--html", path + "/no/such/folder.html")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"IO_ERROR", done.stderr)


@unittest.skipIf(browser.missing(), browser.missing())
class Page(PageCase):
    """In the browser, with a person's clicks and keys."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.browser = browser.Browser()
        cls.browser.__enter__()
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, model: Any, *arguments: str) -> dict[str, Any]:
        page, result = self.write(model, *arguments)
        self.browser.open(page)
        self.browser.wait_until("return document.documentElement.dataset.ready")
        self.browser.settle()
        self.page = page
        return result

    def tearDown(self) -> None:
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(self.browser.foreign_requests(), [])

    def place(self, position: float, address: float) -> tuple[float, float]:
        """Where on the screen a point of the map is."""
        t0, t1, b0, b1, left, top, width, height, x, y = self.browser.run(
            "const c = document.getElementById('overlay'), b = c.getBoundingClientRect();"
            "return [...(c.dataset.view + ' ' + c.dataset.plot).split(' ').map(Number), b.left, b.top]"
        )
        return (x + left + (position - t0) / (t1 - t0) * width, y + top + height - (address - b0) / (b1 - b0) * height)

    def hover(self, tensor: dict[str, Any], offset: int) -> str:
        self.browser.move(*self.place((tensor["birth"] + tensor["death"]) / 2, offset + tensor["size"] / 2))
        return self.browser.wait_until(
            "const t = document.getElementById('tooltip'); return t.checkVisibility() && t.textContent"
        )

    def show_arena(self, name: str) -> None:
        index = self.browser.run(
            "return Array.from(document.querySelectorAll('#arenas label')).findIndex(l => l.title === arguments[0])",
            name,
        )
        self.browser.click(*self.browser.centre_of(f"#arenas label:nth-of-type({index + 1})"))

    def view(self) -> list[float]:
        return [
            float(value) for value in self.browser.run("return document.getElementById('overlay').dataset.view").split()
        ]

    def test_hover_tells_all_about_a_tensor(self) -> None:
        result = self.open(MODEL, "--mode", "forward")
        for name, shape, dtype in (("wide", "32 × 1024", "f32"), (HOSTILE, "32 × 256", "f32")):
            tensor = result["tensors"][name]
            text = self.hover(tensor, tensor["offset"])
            self.assertTrue(text.startswith(name), text)
            for part in (
                f"shape{shape}",
                f"dtype{dtype}",
                f"({tensor['size']:,} bytes)",
                f"offset{tensor['offset']:,}",
                f"lifetime[{tensor['birth']}, {tensor['death']})",
                f"slot{tensor['slot']} at 0x{int(tensor['address']):016x}",
            ):
                self.assertIn(part, text)
        self.browser.move(5, 5)
        self.assertFalse(self.browser.is_shown("#tooltip"))

    def test_layouts(self) -> None:
        model = graph("gpt2", "--size", "small", "--layers", "2")
        result = self.open(model, "--mode", "backward")
        self.assertEqual(self.browser.text("#arenas input:checked + span bdi"), "activations")
        tensor = max((t for t in result["tensors"].values() if t["arena"] == "activations"), key=lambda t: t["slot"])
        name = next(key for key, value in result["tensors"].items() if value is tensor)
        slots: dict[int, int] = {}
        for other in result["tensors"].values():
            if other["arena"] == "activations":
                slots[other["slot"]] = max(slots.get(other["slot"], 0), -(-other["size"] // 128) * 128)
        slot_offset = sum(size for slot, size in slots.items() if slot < tensor["slot"])
        packed = self.view()
        self.browser.click(*self.browser.centre_of("#layouts label:last-of-type"))
        self.assertGreater(self.view()[3], packed[3])
        self.browser.press("/")
        self.browser.press(name, "Enter", "Escape")
        self.assertTrue(self.hover(tensor, slot_offset).startswith(name))
        self.browser.click(*self.browser.centre_of("#layouts label:first-of-type"))
        self.assertEqual(self.view(), packed)

    def test_arenas(self) -> None:
        self.open(MODEL, "--mode", "backward")
        self.show_arena("parameters")
        self.assertIn("64.0 KiB", self.browser.text("#stats"))
        self.assertEqual(self.browser.text("#rows .name"), "w")
        self.show_arena("void")
        self.assertTrue(self.browser.is_shown("#empty"))
        self.assertEqual(self.browser.text("#table-note"), "Nothing takes memory here.")
        self.show_arena("activations")
        self.assertFalse(self.browser.is_shown("#empty"))

    def test_the_head_shows_all_arenas(self) -> None:
        result = self.open(MODEL, "--mode", "backward")
        shown = self.browser.run(
            "return Array.from(document.querySelectorAll('#arenas label'), l => [l.title, l.querySelector('b').textContent])"
        )
        self.assertEqual(sorted(name for name, _ in shown), sorted(result["arenas"]))
        self.assertEqual(dict(shown)["parameters"], "64.0 KiB")
        total = sum(arena["peak_bytes"] for arena in result["arenas"].values())
        self.assertEqual(self.browser.text("#total"), f"{total / 1024:.0f} KiB")

    def test_labels_of_the_byte_axis_are_whole_and_differ(self) -> None:
        model = {
            "format": "weir-graph/1",
            "name": "large",
            "tensors": [{"id": f"t{i}", "shape": [size], "dtype": "u8", "role": "input"}
                        for i, size in enumerate((2**37 + 2**29 + 2**20, 2**20, 4096, 128))],
            "nodes": [{"id": "n", "op": "x", "inputs": ["t0", "t1", "t2", "t3"], "outputs": []}],
            "outputs": [],
        }  # fmt: skip
        self.open(model, "--mode", "forward")
        for name in ("t0", "t1", "t2", "t3"):
            self.browser.press("/")
            self.browser.press(name, "Enter", "Escape")
            self.browser.settle()
            labels, leftmost = self.browser.run(
                "const d = document.getElementById('overlay').dataset; return [d.byteLabels, +d.leftmostLabel]"
            )
            found = labels.split("|")
            self.assertGreater(len(found), 1)
            self.assertEqual(len(set(found)), len(found), labels)
            self.assertGreaterEqual(leftmost, 0, labels)

    def test_the_table_lists_the_peak(self) -> None:
        model = graph("gpt2", "--size", "small", "--layers", "3")
        result = self.open(model, "--mode", "backward")
        members = {name: t for name, t in result["tensors"].items() if t["arena"] == "activations"}
        live = [
            sum(-(-t["size"] // 128) * 128 for t in members.values() if t["birth"] <= at < t["death"])
            for at in range(max(t["death"] for t in members.values()))
        ]
        peak = live.index(max(live))
        self.assertEqual(max(live), result["arenas"]["activations"]["lower_bound"])
        self.assertIn(f"position {peak}", self.browser.text("#table-title"))
        expected = sorted((t["size"] for t in members.values() if t["birth"] <= peak < t["death"]), reverse=True)
        rows = self.browser.run(
            "return Array.from(document.querySelectorAll('#rows tr'), r => r.querySelector('bdi').textContent)"
        )
        self.assertEqual([members[name]["size"] for name in rows], expected)
        x, y = self.browser.centre_of("#rows tr:nth-child(3) .name")
        self.browser.click(x, y)
        self.assertEqual(self.browser.text("#selected .name"), rows[2])

    def test_the_curve_lists_another_position(self) -> None:
        result = self.open(MODEL, "--mode", "forward")
        _, y = self.browser.centre_of("#curve")
        x, _ = self.place(1.5, 0)
        self.browser.click(x, y)
        self.assertEqual(self.browser.text("#table-title"), "Live at position 1")
        names = self.browser.run("return Array.from(document.querySelectorAll('#rows bdi'), e => e.textContent)")
        expected = [
            n for n, t in result["tensors"].items() if t["arena"] == "activations" and t["birth"] <= 1 < t["death"]
        ]
        self.assertEqual(sorted(names), sorted(expected))
        self.browser.click(*self.browser.centre_of("#table-note button"))
        self.assertIn("at the peak", self.browser.text("#table-title"))

    def test_search_highlights_and_jumps(self) -> None:
        self.open(graph("gpt2", "--size", "small", "--layers", "4"), "--mode", "backward")
        before = self.view()
        picture = "return document.getElementById('boxes').toDataURL()"
        plain = self.browser.run(picture)
        self.browser.press("/")
        self.browser.press("H2.ATTN.PROBS")
        self.assertEqual(self.browser.text("#match-count"), "2 found")
        self.assertNotEqual(self.browser.run(picture), plain)
        self.browser.press("Enter")
        self.assertEqual(self.browser.text("#selected .name"), "h2.attn.probs")
        after = self.view()
        self.assertLess(after[3] - after[2], before[3] - before[2])
        self.browser.press("Enter")
        self.assertEqual(self.browser.text("#selected .name"), "h2.attn.probs.grad")
        self.assertEqual(self.browser.text("#arenas input:checked + span bdi"), "gradients")
        self.browser.press("Escape")
        self.assertEqual(self.browser.text("#match-count"), "")

    def test_wheel_and_drag(self) -> None:
        self.open(MODEL, "--mode", "forward")
        x, y = self.browser.centre_of("#overlay")
        whole = self.view()
        self.browser.wheel(x, y, -240)
        near = self.view()
        self.assertLess(near[1] - near[0], whole[1] - whole[0])
        self.assertLess(near[3] - near[2], whole[3] - whole[2])
        self.browser.drag(x, y, x + 120, y)
        moved = self.view()
        self.assertLess(moved[0], near[0])
        self.assertAlmostEqual(moved[2], near[2])
        self.browser.click(*self.browser.centre_of("#zoom-fit"))
        self.assertEqual(self.view(), whole)

    def test_keys_alone_reach_everything(self) -> None:
        self.open(MODEL, "--mode", "forward")
        self.browser.run("document.getElementById('overlay').focus()")
        self.browser.press("n")
        self.assertEqual(self.browser.text("#selected .name"), "wide")
        whole = self.view()
        peak = self.browser.text("#table-title")
        self.browser.press(".")
        self.assertNotEqual(self.browser.text("#table-title"), peak)
        self.browser.press("+")
        self.assertLess(self.view()[1] - self.view()[0], whole[1] - whole[0])
        self.browser.press("l")
        self.assertEqual(self.browser.text("#layouts input:checked + span"), "Slots")
        shown = self.browser.text("#arenas input:checked + span bdi")
        self.browser.press("a")
        self.assertNotEqual(self.browser.text("#arenas input:checked + span bdi"), shown)
        theme = self.browser.run("return document.documentElement.dataset.theme")
        self.browser.press("d")
        self.assertNotEqual(self.browser.run("return document.documentElement.dataset.theme"), theme)

    def test_names_stay_text(self) -> None:
        self.open(MODEL, "--mode", "forward")
        self.browser.press("/")
        self.browser.press("script")
        self.browser.press("Enter")
        self.assertEqual(self.browser.text("#selected .name"), HOSTILE)
        self.assertEqual(self.browser.run("return document.title"), "a <b>model</b> & more: memory plan")
        self.assertEqual(self.browser.run("return document.querySelectorAll('script').length"), 2)
        self.assertEqual(self.browser.run("return document.querySelectorAll('img, h1 b').length"), 0)

    def test_what_is_made_again_and_paged(self) -> None:
        """The limited arena comes first, with a colour for what happens to each tensor and a line at its capacity."""
        result = self.open(
            small_graph(random.Random(10), 24), "--capacity", "activations=4000", "--link", "16", "--speed", "1"
        )
        self.assertGreater(min(result["remat"]["runs_again"], result["paging"]["tensors"]), 0)
        self.assertEqual(self.browser.run("return document.querySelector('#arenas input:checked').parentElement.title"), "activations")
        legend = self.browser.text("#legend")
        for words in ("kept", "made again", "goes to the host", "back from the host"):
            self.assertIn(words, legend)
        self.assertIn("Capacity", self.browser.text("#stats"))
        self.assertIn("operators run again", self.browser.text("header"))
        self.assertIn("moved beside the computation", self.browser.text("header"))
        self.show_arena("host")
        self.assertIn("on the host", self.browser.text("#legend"))

    def test_a_plan_without_tensors(self) -> None:
        self.open(
            {"format": "weir-graph/1", "name": "none", "tensors": [], "nodes": [], "outputs": []}, "--mode", "forward"
        )
        self.assertIn("no tensors", self.browser.text("main"))


if __name__ == "__main__":
    unittest.main()
