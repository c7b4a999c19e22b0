"""`openinfer graph` as pictures, and its page in a browser without a window (Chromium, where it is installed)."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from forked_commands import run_forked

from openinfer.cli.commands.graph import command
from openinfer.testing.waiting import limit_s

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

HOSTILE = """
dynamic { x: f32[B]; c: bool; }
volatile { y: f32[B]; }
block entry {
  scope "</script><script>document.documentElement.dataset.broken = 1</script>" { op relu(x) >> y; }
  scope "<img src=x onerror='document.documentElement.dataset.broken = 1'>" { op relu(x) >> y; }
  scope "]]> \\" ' \\n &lt; --> </style>" { op add(x, y, note="<b>") >> y; }
  loop l (i in 0..3) { branch c good bad; }
  return y;
}
block good { return; }
block bad { branch good; return; }
"""

Browse = Callable[..., str]


def openinfer(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return run_forked(["-m", "openinfer", *arguments], Path.cwd(), text=text)


def page_of(text: str, path: Path) -> Path:
    finished = openinfer("graph", "-", "--html", "-o", str(path), text=text)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    return path


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    """Return ``browse(page, address)``: the page's elements after its script ran, as Chromium writes them out."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")

    def run(page: Path, address: str = "", *options: str) -> str:
        command = [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={tmp_path / f'profile-{time.monotonic_ns()}'}", "--window-size=1400,900"),
            *(options or ("--dump-dom",)),
            f"file://{page}{address}",
        ]
        finished = subprocess.run(command, capture_output=True, text=True, check=True, timeout=limit_s(60))
        return finished.stdout

    return run


def with_script(page: Path, script: str) -> Path:
    """Let a script of the test run at the end of a page, which the page's own policy forbids."""
    text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    return page


def root_of(dom: str) -> dict[str, str]:
    """The ``data-`` attributes of the root element, where the page's script leaves what it did."""
    found = re.search(r"<html([^>]*)>", dom)
    assert found is not None
    return dict(re.findall(r'data-(\w+)="([^"]*)"', found[1]))


def matching(dom: str, name: str) -> list[str]:
    """The texts of list items that have a class of that name."""
    items = re.findall(r'<li class="([^"]*)"[^>]*>(.*?)</li>', dom, re.DOTALL)
    return [unescape(re.sub(r"<[^>]*>", "", text)) for classes, text in items if name in classes.split()]


# The command


def test_a_model_gives_the_pictures_their_shapes() -> None:
    program, model = str(DIGITS / "digits.oi"), str(DIGITS / "digits.oinf")
    declared = openinfer("graph", program, "--mermaid")
    resolved = openinfer("graph", program, "--mermaid", "--model", model)

    assert (declared.returncode, resolved.returncode) == (0, 0)
    assert re.search(r"f32\[[A-Z]", declared.stdout)
    assert "image#58; f32[1, 1, 8, 8]" in resolved.stdout
    assert not re.search(r"f32\[[A-Z]", resolved.stdout)


def test_a_model_that_does_not_fit_is_refused_with_its_findings(tmp_path: Path) -> None:
    finished = openinfer("graph", "-", "--html", "-m", str(DIGITS / "digits.oinf"), text="block entry { branch no; }")

    assert finished.returncode == 1
    assert "error[unknown-block]" in finished.stderr
    assert finished.stdout == ""


def test_a_model_without_a_picture_is_a_mistake_of_usage() -> None:
    finished = openinfer("graph", str(DIGITS / "digits.oi"), "--json", "--model", "x.oinf")

    assert finished.returncode == 2
    assert "--model goes with --mermaid, --dot, --svg or --html" in finished.stdout


def test_an_output_file_has_what_is_printed_otherwise(tmp_path: Path) -> None:
    program = str(DIGITS / "digits.oi")
    for form in ("--dsl", "--json", "--mermaid", "--dot", "--svg", "--html"):
        written = openinfer("graph", program, form, "-o", str(tmp_path / "out"))
        printed = openinfer("graph", program, form)

        assert (written.returncode, written.stdout) == (0, "")
        assert (tmp_path / "out").read_text(encoding="utf-8") == printed.stdout


@pytest.mark.parametrize("form", ["svg", "html"])
def test_a_terminal_gets_no_page_and_no_picture(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_a_terminal(_: object) -> bool:
        return True

    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", on_a_terminal, raising=False)
    result = CliRunner().invoke(command, [str(DIGITS / "digits.oi"), f"--{form}"])

    assert result.exit_code == 2
    assert f"add -o FILE.{form}" in result.output


def test_the_commands_of_the_documentation_work(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "pictures-and-editors.md").read_text(encoding="utf-8")
    lines = re.findall(r"^openinfer (graph .*)$", text, re.MULTILINE)
    shutil.copytree(DIGITS, tmp_path / "examples" / "digits")

    assert len(lines) == 5
    for line in lines:
        run_forked(["-m", "openinfer", *line.split()], tmp_path).check_returncode()
        assert (tmp_path / line.split()[-1]).stat().st_size > 500


# The page in a browser


def test_the_page_runs_and_hostile_names_do_not(browse: Browse, tmp_path: Path) -> None:
    dom = browse(page_of(HOSTILE, tmp_path / "page.html"))
    data = root_of(dom)

    assert "ready" in data
    assert "broken" not in data
    assert dom.count("<script>") == 1
    assert "<img" not in dom
    assert any("</script><script>" in text for text in matching(dom, "scope"))


def test_search_marks_what_it_finds_and_counts_it(browse: Browse, tmp_path: Path) -> None:
    page = page_of(HOSTILE, tmp_path / "page.html")
    dom = browse(page, "#search=RELU")

    assert root_of(dom)["hits"] == "2"
    assert matching(dom, "hit") == ["op relu(x) >> yf32[B]"] * 2
    assert len(matching(dom, "now")) == 1
    assert root_of(browse(page, "#search=nothing-like-it"))["hits"] == "0"


def test_a_variable_shows_where_it_is_read_and_written(browse: Browse, tmp_path: Path) -> None:
    dom = browse(page_of(HOSTILE, tmp_path / "page.html"), "#variable=y")

    assert len(matching(dom, "writes")) == 3
    assert matching(dom, "reads") == ["return y"]


def test_fit_shows_everything(browse: Browse, tmp_path: Path) -> None:
    page = page_of("block entry {" + "barrier; " * 3000 + "}", tmp_path / "page.html")
    plain, fitted = root_of(browse(page)), root_of(browse(page, "#fit"))

    assert float(fitted["scale"]) < 0.3 <= float(plain["scale"])


def test_edges_end_at_the_rows_and_cards_that_the_browser_shows(browse: Browse, tmp_path: Path) -> None:
    page = with_script(
        page_of(HOSTILE, tmp_path / "page.html"),
        """
        const box = (e) => e.getBoundingClientRect();
        const scale = +document.documentElement.dataset.scale, origin = box(document.getElementById("canvas"));
        const row = document.querySelector(".row.branch"), card = document.getElementById("b1");
        const path = document.querySelector("#edges > .then");
        const start = path.getPointAtLength(0), end = path.getPointAtLength(path.getTotalLength());
        document.documentElement.dataset.off = [
          (box(row).right - origin.left) / scale - start.x,
          (box(row).top + box(row).height / 2 - origin.top) / scale - start.y,
          (box(card).left - origin.left) / scale - end.x,
        ].map(Math.abs).map((n) => n.toFixed(1)).join(" ");
        """,
    )
    offsets = [float(number) for number in root_of(browse(page))["off"].split()]

    assert max(offsets) <= 5.0, f"edges are off by {offsets} pixels"


def test_dragging_moves_the_picture_and_clicking_explains(browse: Browse, tmp_path: Path) -> None:
    page = with_script(
        page_of(HOSTILE, tmp_path / "page.html"),
        """
        const canvas = document.getElementById("canvas"), stage = document.getElementById("stage");
        const send = (target, type, x) => {
          const made = type === "click" ? MouseEvent : PointerEvent;
          target.dispatchEvent(new made(type, { bubbles: true, clientX: x, clientY: 300, detail: 1 }));
        };
        const left = () => canvas.getBoundingClientRect().left;
        const before = left();
        for (const [type, x] of [["pointerdown", 600], ["pointermove", 650], ["pointerup", 650], ["click", 650]]) {
          send(stage, type, x);
        }
        const variable = document.querySelector(".var"), row = document.querySelector(".row");
        for (const target of [variable, row]) {
          for (const type of ["pointerdown", "pointerup", "click"]) send(target, type, 9);
        }
        Object.assign(document.documentElement.dataset, {
          dragged: left() - before,
          chosen: variable.classList.contains("chosen"),
          detail: document.getElementById("detail").textContent.replaceAll('"', "'"),
        });
        """,
    )
    data = root_of(browse(page))

    assert (data["dragged"], data["chosen"]) == ("50", "true")
    assert unescape(data["detail"]).startswith(
        "op relu(x) >> y\nreads x f32[B]\nwrites y f32[B]\nnode 0\nscope '</script>"
    )


KEYS = """
const root = document.documentElement, byId = (id) => document.getElementById(id), said = [];
const press = (...keys) => {
  for (const key of keys) {
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }
};
const first = (selector) => { document.querySelector(selector).focus(); };
const text = () => document.activeElement.textContent;
const tell = (value) => said.push(String(value));
STEPS
root.dataset.said = said.join("|").replaceAll('"', "'").replaceAll("\\n", "/");
"""
CALLS = """
dynamic { x: f32[B]; c: bool; }
volatile { y: f32[B]; }
block entry { scope "s" { op relu(x) >> y; } op neg(y) >> y; branch good; return y; }
block good { op abs(y) >> y; return; }
"""


def pressed(browse: Browse, tmp_path: Path, steps: str) -> list[str]:
    """What a script says that presses keys on the page of `CALLS`."""
    page = with_script(page_of(CALLS, tmp_path / "page.html"), KEYS.replace("STEPS", steps))
    return unescape(root_of(browse(page))["said"]).split("|")


def test_every_item_is_reached_by_keys_from_one_tab_stop_a_list(browse: Browse, tmp_path: Path) -> None:
    stops, *reached = pressed(
        browse,
        tmp_path,
        """
        const items = [...document.querySelectorAll(".var, .block, .row")];
        tell(items.filter((item) => item.tabIndex === 0).map((item) => item.textContent));
        const seen = new Set();
        for (const stop of items.filter((item) => item.tabIndex === 0)) {
          stop.focus();
          for (let i = 0; i < items.length; i++) { seen.add(document.activeElement); press("ArrowDown"); }
        }
        tell(items.every((item) => seen.has(item)));
        tell(items.every((item) => item.getAttribute("role") === "option" && item.closest("[role=listbox]")));
        first(".row"); press("End"); tell(text()); press("Home"); tell(text()); press("ArrowUp"); tell(text());
        tell(document.querySelectorAll('.card .row[tabindex="0"]').length);
        """,
    )

    assert stops == "x f32[B],y f32[B],entry,op relu(x) >> yf32[B],op abs(y) >> yf32[B]"
    assert reached == ["true", "true", "return y", "op relu(x) >> yf32[B]", "op relu(x) >> yf32[B]", "2"]


@pytest.mark.parametrize("key", ["Enter", " "])
def test_keys_do_what_clicks_do(browse: Browse, tmp_path: Path, key: str) -> None:
    said = pressed(
        browse,
        tmp_path,
        f"""
        const key = "{key}", detail = byId("detail");
        first(".var"); press(key); tell(document.querySelectorAll(".reads").length);
        tell(document.activeElement.getAttribute("aria-selected"));
        press(key); tell(document.querySelectorAll(".reads").length);
        first(".row"); press("ArrowDown", "ArrowDown", key); tell(!detail.hidden); tell(detail.textContent);
        press(key); tell(text());
        press("Escape"); tell(detail.hidden);
        first(".block"); press("ArrowDown", key); tell(text());
        """,
    )

    assert said == [
        *("1", "true", "0", "true"),
        "branch good/node 2/line 4, column 62/double-click, or Enter again: go to the block",
        *("op abs(y) >> yf32[B]", "true", "op abs(y) >> yf32[B]"),
    ]


def test_a_statement_in_focus_is_in_view(browse: Browse, tmp_path: Path) -> None:
    program = "block entry {" + "barrier; " * 500 + "return; }"
    steps = """
    first(".row"); press("End");
    const [box, stage] = [document.activeElement, byId("stage")].map((element) => element.getBoundingClientRect());
    tell(text()); tell(box.top >= stage.top && box.bottom <= stage.bottom && box.left >= stage.left);
    tell(byId("stage").scrollTop);
    """
    page = with_script(page_of(program, tmp_path / "page.html"), KEYS.replace("STEPS", steps))

    assert root_of(browse(page))["said"].split("|") == ["return", "true", "0"]


def test_a_narrow_window_stacks_the_lists_above_the_picture(browse: Browse, tmp_path: Path) -> None:
    steps = """
    const [bar, side, stage] = ["bar", "side", "stage"].map((id) => byId(id).getBoundingClientRect());
    tell(getComputedStyle(byId("side")).visibility); tell(side.height > 60 && stage.height > 60);
    tell(side.top >= bar.bottom && stage.top >= side.bottom);
    tell(side.width === innerWidth && stage.width === innerWidth && root.scrollWidth <= innerWidth);
    """
    page = with_script(page_of(CALLS, tmp_path / "page.html"), KEYS.replace("STEPS", steps))
    dom = browse(page, "", "--window-size=500,900", "--dump-dom")

    assert root_of(dom)["said"].split("|") == ["visible", "true", "true", "true"]


def test_five_thousand_nodes_are_ready_soon(browse: Browse, tmp_path: Path) -> None:
    calls = "".join(f"loop l{i} (i in 0..4) {{ {'op add(x, y) >> y; ' * 45} branch b{i % 50}; }}\n" for i in range(100))
    blocks = "".join(f"block b{i} {{ {'op mul(x, y) >> y; ' * 10} return; }}\n" for i in range(50))
    program = "dynamic { x: f32[B]; } volatile { y: f32[B]; }\nblock entry {" + calls + "}" + blocks
    page = page_of(program, tmp_path / "page.html")
    start = time.monotonic()
    dom = browse(page, "#search=mul")
    whole = time.monotonic() - start

    assert len(re.findall(r"<li [^>]*data-detail", dom)) == 100 * 47 + 50 * 11
    assert root_of(dom)["hits"] == "500"
    assert int(root_of(dom)["ready"]) < limit_s(5000), "milliseconds from opening to ready"
    assert whole < limit_s(20), "seconds for the browser from its start to its end"


def test_the_page_is_painted(browse: Browse, tmp_path: Path) -> None:
    page = page_of(HOSTILE, tmp_path / "page.html")
    pictures = [tmp_path / f"{theme}.png" for theme in ("light", "dark")]
    for picture in pictures:
        browse(page, f"#theme={picture.stem}", f"--screenshot={picture}")

    light, dark = (picture.read_bytes() for picture in pictures)
    assert light[:4] == dark[:4] == b"\x89PNG"
    assert light != dark
    assert min(len(light), len(dark)) > 10_000, "an empty page is far smaller"
