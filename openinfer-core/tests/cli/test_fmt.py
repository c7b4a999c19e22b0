"""`openinfer fmt`: layout, comments, the earlier syntax, and the command."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main
from openinfer.dsl import graph
from openinfer.dsl.formatting import formatted
from openinfer.dsl.upgrade import upgraded
from openinfer.errors import DslSyntaxError
from openinfer.model import Model, ModelLoader
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.validate import resolve
from openinfer.validate.inference import inferred_types
from openinfer_oinf import SizeVar, write_oinf

CROWDED = """\
// head
dynamic{x:f32[B,3 * D];  // in
 // own

 z : i32 reference("q") init( 3 ) ; }
constants { } persistent { K(l,t):f16[H,Dh] @table @fixed(l = 32,) ; } // tail
/* two
   lines */


block entry with{fuse=true}{ op add( x , W[l, 0], bias=b[l , 1] , shape=[1,B + 1, -1,], eps = 0x1F ,)
  >> y,z with {fuse=true}; // t

 loop  l (i in (a+1)..n*(2 + k)) { /* a */ barrier; dep after(matmul) before( cache . write );
   scope "a b" { yield x , y , ; op f // why
   (x) >> y; // last
   // trailing
   }

   }


   cache . increment 2 step; cache.read A[i, ] >> y; cache.read K[0 .. -3] >> y; return y;
   }
"""

LAID_OUT = """\
// head
dynamic {
  x: f32[B, 3*D];  // in
  // own

  z: i32 @ref("q") @init(3);
}

constant {
}

persistent {
  K(l, t): f16[H, Dh] @table @fixed(l=32);
}  // tail

/* two
   lines */

block entry with { fuse = true } {
  op add(x, W[l,0], bias=b[l,1], shape=[1, B+1, -1], eps=0x1F) >> y, z with { fuse = true };  // t

  loop l (i in (a+1)..n*(2+k)) {  /* a */
    barrier;
    dep after(matmul) before(cache.write);
    scope "a b" {
      yield x, y;
      // why
      op f(x) >> y;  // last
      // trailing
    }
  }

  cache.increment 2 step;
  cache.read A[i,] >> y;
  cache.read K[0..-3] >> y;
  return y;
}
"""


def test_a_program_is_laid_out() -> None:
    assert formatted(CROWDED) == LAID_OUT


def test_what_is_laid_out_stays() -> None:
    assert formatted(LAID_OUT) == LAID_OUT


def test_the_layout_does_not_change_the_graph() -> None:
    assert graph(formatted(CROWDED)) == graph(CROWDED)


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "nothing": ("", ""),
        "only a comment": ("  // c  \n", "// c\n"),
        "names like keywords": (
            "block with{op with(with,with=with)>>with with{with=with};return;}",
            "block with {\n  op with(with, with=with) >> with with { with = with };\n  return;\n}\n",
        ),
        "a loop called loop": (
            "block a{loop loop(in in in..in){}}",
            "block a {\n  loop loop (in in in..in) {\n  }\n}\n",
        ),
        "a variable called loop": ('constant{loop(l):f8@pattern("{l}");}', None),
        "old spellings as names": ("dynamic{init:f32;reference:f32@init(1.0);}", None),
        "line ends of Windows": ("dynamic {\r\n  x: f32; // c\r\n}\r\n", "dynamic {\n  x: f32;  // c\n}\n"),
        "a comment between the last token and its end": (
            "dynamic { x: f32 // why\n; }",
            "dynamic {\n  // why\n  x: f32;\n}\n",
        ),
        "a comment before a brace": ("block a { // b\n// c\n}", "block a {  // b\n  // c\n}\n"),
        "strings hold anything": ('dynamic { x: f32 @ref("a // {b} ; \\" /* "); }', None),
        "unknown attributes": ("dynamic{x:f32[2]@layout(nchw,tile=[4,4]);}", None),
    }.values(),
)
def test_layout(text: str, expected: str | None) -> None:
    found = formatted(text)
    assert expected is None or found == expected
    assert formatted(found) == found
    assert [word for word in found.split() if "//" in word] or graph(found) == graph(text)


def test_a_program_with_errors_is_left_alone() -> None:
    with pytest.raises(DslSyntaxError, match="expected `;`"):
        formatted("dynamic { x: f32 }")


EARLIER = """\
graph! {
  model: model,
  inputs { x : f32 [B, D]; }  // the input
  outputs { y: f32[B, D]; h: f32[B, D]; }
  state { c : buffer(f32, [B, T, D]); n: buffer(i32); }
  block entry {
    y = op add(a=x, b=x)
        with { fuse = true, placement = "gpu" };
    y, h = op split(y, axis=1);
    effect write(c, index=step /* now */, value=y); // store
    h = effect read(c, index=step - 1);
    loop layers (l in 0..3) { block body { y = op relu(x=y); } }
    return y;
  }
}
"""

OF_TODAY = """\
dynamic {
  x: f32[B, D];
}  // the input

volatile {
  y: f32[B, D];
  h: f32[B, D];
}

persistent {
  c: f32[B, T, D];
  n: i32;
}

block entry {
  op add(a=x, b=x) >> y with { fuse = true, placement = "gpu" };
  op split(y, axis=1) >> y, h;
  /* now */
  cache.write y >> c[step];  // store
  cache.read c[step-1] >> h;
  loop layers (l in 0..3) {
    op relu(x=y) >> y;
  }
  return y;
}
"""


@pytest.mark.rule("language.earlier.2")
def test_the_earlier_syntax_is_rewritten() -> None:
    assert upgraded(EARLIER) == OF_TODAY


@pytest.mark.parametrize("text", [OF_TODAY, LAID_OUT])
def test_the_syntax_of_today_is_left_by_an_upgrade(text: str) -> None:
    assert upgraded(text) == text


def test_names_of_the_earlier_syntax_stay_names() -> None:
    text = formatted(
        "dynamic { state: f32; op: f32; effect: f32; model: f32; buffer: f32; }\n"
        "block entry { branch state; op effect(x, a=op, state=model) >> op; scope inputs { barrier; } return; }\n"
        "block state { loop outputs (i in 0..2) { barrier; } return; }\n"
    )
    assert upgraded(text) == text


def block(*lines: str) -> str:
    return "block entry {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


@pytest.mark.parametrize(
    ("declared", "statement", "inferred"),
    [
        ("x: f32[B, 3*D];", "t = op add(a=x, b=x);", "t: f32[B, 3*D]"),
        ("x: f16[B, D]; w: f16[D, H];", "t = op matmul(x, w);", "t: f16[B, H]"),
        ("x: f32[B, D];", "t = op reshape(x, shape=[2, -1]);", "t: f32[2, B*D/2]"),
        ("x: bool;", "t = op not(x);", "t: bool"),
        ("x: f32[D];", "t = op relu(x) with { fuse = true };", "t: f32[D]"),
        ("x: f32[D];", "loop l (i in 0..2) { t = op abs(x); }", "t: f32[D]"),
    ],
)
def test_a_temporary_stays_undeclared_and_has_the_type_that_its_operator_yields(
    declared: str, statement: str, inferred: str
) -> None:
    text = upgraded(f"inputs {{ {declared} }}\n{block(statement)}")
    model, environment = Model.from_arrays({}, sizevars={"B": 4, "D": 6, "H": 5}), Environment.default()
    assert "assign" not in text
    (found,) = inferred_types(resolve(graph(text), model, environment=environment), model, environment)
    assert str(found) == inferred


@pytest.mark.parametrize(
    ("declared", "use", "name"),
    [
        ("scale: f32;", 'model["scale"]', "scale"),
        ('s: f32 @ref("a.scale");', 'model["a.scale"]', "s"),
        ('W(i): f32[D] @pattern("W.{i}.w");', 'model[fmt("W.{l}.w")]', "W[l]"),
        ('Q(i, h): f32[D] @pattern("q.{h}.{i}");', 'model[fmt("q.{a}.{b}")]', "Q[b,a]"),
    ],
)
def test_model_data_that_a_variable_is_declared_for_get_its_name(declared: str, use: str, name: str) -> None:
    text = f"constant {{ {declared} }} inputs {{ x: f32[D]; y: f32[D]; }} {block(f'y = op mul(x, {use});')}"
    assert f"  op mul(x, {name}) >> y;\n" in upgraded(text)


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        ('model["scale"]', "declare `constant { scale: DTYPE[DIMS]; }`"),
        ('model["a.b"]', 'declare `constant { a_b: DTYPE[DIMS] @ref("a.b"); }`'),
        ('model[fmt("W.{l}")]', 'declare `constant { W(l): DTYPE[DIMS] @pattern("W.{l}"); }`'),
    ],
)
def test_model_data_without_a_declaration_are_requested(use: str, hint: str) -> None:
    text = block(f"y = op mul(x, {use});")
    with pytest.raises(DslSyntaxError) as caught:
        upgraded(text)
    (finding,) = caught.value.diagnostics
    assert text[finding.span.start : finding.span.end] == use
    assert finding.hint.startswith(hint)


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["fmt", *arguments], input=text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.oi"
    path.write_text(CROWDED, encoding="utf-8")
    path.chmod(0o640)
    return path


def test_the_command_rewrites_files_in_place(file: Path) -> None:
    result = run(str(file))
    assert (result.exit_code, result.output) == (0, f"{file}: laid out\n")
    assert file.read_text(encoding="utf-8") == LAID_OUT
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert list(file.parent.iterdir()) == [file]
    assert run(str(file)).output == ""


def test_check_changes_nothing_and_fails(file: Path) -> None:
    result = run("--check", str(file))
    assert (result.exit_code, result.output) == (1, f"{file}: not laid out\n")
    assert file.read_text(encoding="utf-8") == CROWDED
    file.write_text(LAID_OUT, encoding="utf-8")
    assert run("--check", str(file)).exit_code == 0


def test_standard_input_goes_to_standard_output() -> None:
    assert run("-", text=CROWDED).output == LAID_OUT
    assert run("--upgrade", "-", text=EARLIER).stdout == OF_TODAY


def test_a_wrong_program_is_reported_and_kept(file: Path) -> None:
    file.write_text("dynamic { x: f32 }", encoding="utf-8")
    result = run(str(file))
    assert result.exit_code == 1
    assert "error[syntax]: expected `;`" in result.output
    assert file.read_text(encoding="utf-8") == "dynamic { x: f32 }"


def test_many_files_and_folders_are_laid_out(file: Path) -> None:
    (file.parent / "sub").mkdir()
    right, wrong = file.parent / "sub" / "right.oi", file.parent / "wrong.oi"
    right.write_text(LAID_OUT, encoding="utf-8")
    wrong.write_text("dynamic { x: f32 }", encoding="utf-8")
    absent = file.parent / "absent.oi"

    result = run(str(absent), str(file.parent))

    assert (result.exit_code, result.stdout) == (1, f"{file}: laid out\n")
    assert file.read_text(encoding="utf-8") == LAID_OUT
    assert wrong.read_text(encoding="utf-8") == "dynamic { x: f32 }"
    assert "error[file]: No such file or directory" in result.stderr
    assert "error[syntax]: expected `;`" in result.stderr
    assert result.stderr.endswith("4 files: 1 laid out, 1 unchanged, 2 with errors\n")
    wrong.unlink()
    assert run(str(file.parent)).exit_code == 0


def test_a_diff_shows_what_would_change(file: Path) -> None:
    text = "dynamic{x:f32;}\n\nblock entry {\n  return x;\n}\n"
    file.write_text(text, encoding="utf-8")
    result = run("--diff", str(file))
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        *(f"--- {file}", f"+++ {file}", "@@ -1,4 +1,6 @@"),
        *("-dynamic{x:f32;}", "+dynamic {", "+  x: f32;", "+}"),
        *(" ", " block entry {", "   return x;"),
    ]
    assert run("--diff", "--check", str(file)).exit_code == 1
    assert file.read_text(encoding="utf-8") == text
    assert run("--diff", "-", text=text).output.startswith("--- <standard input>\n")
    assert run("--diff", "--check", "-", text=LAID_OUT).output == ""


@pytest.mark.parametrize("before", ["dynamic{x:f32;}", "// a\tb\u2028c\x0cd\r\ndynamic{x:f32;}\r\n", "\ufeff// c\n"])
def test_a_diff_can_be_applied(file: Path, before: str) -> None:
    file.write_bytes(before.encode())
    lines = run("--diff", str(file)).stdout_bytes.decode().split("\n")[3:-1]
    kept = "".join(line[1:] + "\n" for line in lines if line[0] in "+ ")
    assert kept == formatted(before)
    removed = "\n".join(line[1:] for line in lines if line[0] in "- ")
    assert removed == before.removesuffix("\n")


def test_an_upgrade_says_what_it_did(file: Path) -> None:
    file.write_text(EARLIER, encoding="utf-8")
    would = run("--upgrade", "--check", str(file))
    assert f"{file}: would be upgraded\n  line 1: removed `graph! {{` around the program\n" in would.stderr
    assert file.read_text(encoding="utf-8") == EARLIER

    result = run("--upgrade", str(file))

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{file}: laid out",
        f"{file}: upgraded",
        "  line 1: removed `graph! {` around the program",
        "  line 2: removed `model: model`: variables are linked by name",
        "  line 3: renamed the section `inputs` to `dynamic`",
        "  line 4: renamed the section `outputs` to `volatile`",
        "  line 5: renamed the section `state` to `persistent`",
        "  line 5: wrote `buffer(…)` as `f32[B, T, D]`",
        "  line 5: wrote `buffer(…)` as `i32`",
        "  line 7: wrote `y = op add(…)` as `op add(…) >> y`",
        "  line 9: wrote `y, h = op split(…)` as `op split(…) >> y, h`",
        "  line 10: wrote `effect write(…)` as `cache.write y >> c[step]`",
        "  line 11: wrote `effect read(…)` as `cache.read c[step - 1] >> h`",
        "  line 12: removed the block `body`: its statements run in place",
        "  line 12: wrote `y = op relu(…)` as `op relu(…) >> y`",
    ]
    assert run("--upgrade", str(file)).output == f"{file}: has no earlier syntax\n"


@pytest.mark.rule("language.earlier.3")
@pytest.mark.parametrize(
    ("earlier", "today", "zeros"),
    [
        ("y = op div(x, x);", "op div(x, x, div_by_zero_mask=nan) >> y;", {"f32": np.nan, "i32": 0}),
        (
            "y = op div(a=x, b=x,) with { fuse = true };",
            "op div(a=x, b=x, div_by_zero_mask=nan) >> y with",
            {"f16": np.nan},
        ),
        ("y = op recip(x);", "op recip(x, div_by_zero_mask=nan) >> y;", {"f32": np.nan}),
        ("y = op reciprocal(x);", "op reciprocal(x, div_by_zero_mask=nan) >> y;", {"f64": np.nan}),
        ("y = op div(x, x, div_by_zero_mask=1);", "op div(x, x, div_by_zero_mask=1) >> y;", {"f32": 1, "u8": 1}),
        ("y = op rem(x, x);", "op rem(x, x) >> y;", {"f32": np.nan, "i64": 0}),
    ],
)
def test_divisions_of_the_earlier_syntax_keep_their_results(earlier: str, today: str, zeros: dict[str, float]) -> None:
    pytest.importorskip("openinfer_backend_cpu", reason="the program runs on the device cpu")
    for dtype, expected in zeros.items():
        text = upgraded(f"inputs {{ x: {dtype}[2]; }} outputs {{ y: {dtype}[2]; }}\n{block(earlier, 'return y;')}")
        assert today in text
        assert upgraded(text) == text
        executor = Simulator(Model.from_arrays({}), graph(text)).make_executor()
        executor.step(x=[0, 2])
        np.testing.assert_array_equal(executor.fetch("y")[0], expected)


@pytest.mark.rule("language.earlier.3")
def test_divisions_of_a_text_of_today_are_left_and_noted(file: Path) -> None:
    text = "dynamic {\n  x: f32[2];\n}\n\n" + block(
        "op div(x, x) >> y;", "op div(x, y, div_by_zero_mask=nan) >> z;", "op recip(z) >> z;", "return z;"
    )
    file.write_text(text, encoding="utf-8")
    result = run("--upgrade", str(file))
    assert file.read_text(encoding="utf-8") == text
    first, *notes = result.stdout.splitlines()
    assert first == f"{file}: has no earlier syntax"
    assert [note[:14] for note in notes] == ["  line 6: note", "  line 8: note"]
    assert all("div_by_zero_mask=nan gives NaN" in note for note in notes)
    assert run(str(file)).output == ""


@pytest.mark.rule("language.earlier.2")
def test_an_upgrade_says_what_it_could_not(file: Path) -> None:
    text = "inputs { x: f32[D]; }\n" + block('y = op mul(x, model["scale"]);')
    file.write_text(text, encoding="utf-8")
    result = run("--upgrade", str(file))
    assert result.exit_code == 1
    assert file.read_text(encoding="utf-8") == text
    assert f"{file}: not upgraded, errors are left\n  line 1: renamed the section `inputs`" in result.stderr
    assert 'nothing is declared for model["scale"]' in result.stderr


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.oinf"
    arrays = {"scale": np.ones(4, np.float32), "fc.b": np.zeros(4, np.float32)}
    arrays |= {f"w.{layer}": np.eye(4, dtype=np.float32) for layer in range(3)}
    arrays |= {"odd.0": np.ones(1, np.float32), "odd.1": np.ones(2, np.float32)}
    write_oinf({"D": SizeVar(4), **arrays}, path)
    return path


EARLIER_WEIGHTS = """\
graph! {
  inputs { x: f32[D]; }
  outputs { y: f32[D]; }
  block entry {
    h = op mul(x, model["scale"]);
    h2 = op add(h, model["fc.b"]);
    loop layers (l in 0..3) { h2 = op matmul(model[fmt("w.{l}")], h2); }
    y = op relu(h2);
    return y;
  }
}
"""


@pytest.mark.rule("language.earlier.2")
def test_an_upgrade_with_a_model_declares_its_data_and_temporaries(file: Path, weights: Path) -> None:
    file.write_text(EARLIER_WEIGHTS, encoding="utf-8")
    result = run("--upgrade", "--model", str(weights), str(file))
    upgraded_text = file.read_text(encoding="utf-8")

    assert result.exit_code == 0, result.output
    assert upgraded_text.startswith(
        'constant {\n  scale: f32[4];\n  fc_b: f32[4] @ref("fc.b");\n  w(l): f32[4, 4] @pattern("w.{l}");\n}\n'
    )
    assert "  op mul(x, scale) >> h;\n" in upgraded_text
    assert "matmul(w[l], h2) >> h2;" in upgraded_text
    assert "  assign h: f32[4];\n" in upgraded_text
    assert "declared `scale`, `fc_b`, `w` for data of the model" in result.stdout
    assert "assign h: f32[4];" in result.stdout
    # It runs, and there is nothing more to do.
    assert run("--upgrade", "--model", str(weights), str(file)).stdout.endswith("has no earlier syntax\n")
    with ModelLoader.open(weights) as model:
        resolve(graph(upgraded_text), model)


def test_an_added_declaration_takes_no_name_of_the_text(file: Path, weights: Path) -> None:
    file.write_text("inputs { scale: f32[D]; }\n" + block('y = op mul(scale, model["scale"]);'), encoding="utf-8")
    run("--upgrade", "--model", str(weights), str(file))

    # `scale` is an input here, which the upgrade takes for the declaration of the data.
    assert "op mul(scale, scale) >> y;" in file.read_text(encoding="utf-8")
    file.write_text("inputs { x: f32[D]; }\n" + block('fc_b = op mul(x, model["fc.b"]);'), encoding="utf-8")
    run("--upgrade", "--model", str(weights), str(file))
    assert 'fc_b_: f32[4] @ref("fc.b");' in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("use", ['model["nothing"]', 'model[fmt("odd.{l}")]', 'model[fmt("none.{l}")]'])
def test_data_without_one_type_in_the_model_are_still_an_error(file: Path, weights: Path, use: str) -> None:
    text = "inputs { x: f32[D]; }\n" + block(f"loop i (l in 0..2) {{ y = op mul(x, {use}); }}")
    file.write_text(text, encoding="utf-8")
    result = run("--upgrade", "--model", str(weights), str(file))

    assert (result.exit_code, file.read_text(encoding="utf-8")) == (1, text)
    assert f"nothing is declared for {use}" in result.stderr


def test_an_upgrade_that_does_not_fit_the_model_is_kept_and_says_so(file: Path, weights: Path) -> None:
    file.write_text("inputs { x: f32[D + 1]; }\n" + block('h = op mul(x, model["scale"]);'), encoding="utf-8")
    result = run("--upgrade", "--model", str(weights), str(file))

    assert result.exit_code == 0
    assert "op mul(x, scale) >> h;" in file.read_text(encoding="utf-8")
    assert "temporaries stay undeclared, the program does not fit the model" in result.stdout


def test_a_model_alone_formats_nothing(file: Path, weights: Path) -> None:
    assert "--model goes with --assign or --upgrade" in run("--model", str(weights), str(file)).stderr


def test_with_json_each_file_has_an_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"crowded": "block entry{return;}", "wrong": "block {", "neat": LAID_OUT}.items():
        Path(f"{name}.oi").write_text(text)

    result = CliRunner().invoke(main, ["fmt", "crowded.oi", "neat.oi", "wrong.oi", "--json", "--diff"])
    objects = {each["file"]: each for each in json.loads(result.stdout)}

    assert result.exit_code == 1
    assert result.stderr == ""
    assert {name: each["changed"] for name, each in objects.items()} == {
        "crowded.oi": True,
        "neat.oi": False,
        "wrong.oi": False,
    }
    assert objects["crowded.oi"]["diff"][-3:] == ["+block entry {", "+  return;", "+}"]
    assert {finding["code"] for finding in objects["wrong.oi"]["findings"]} == {"syntax"}
    assert Path("crowded.oi").read_text() == "block entry{return;}"


def test_with_json_standard_input_is_printed_in_the_object_and_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.oi").write_text("block entry{return;}")

    printed = json.loads(CliRunner().invoke(main, ["fmt", "-", "--json"], input="block entry{return;}").stdout)
    written = json.loads(CliRunner().invoke(main, ["fmt", "a.oi", "--json"]).stdout)

    assert printed[0]["text"] == Path("a.oi").read_text() == "block entry {\n  return;\n}\n"
    assert (printed[0]["changed"], written[0]["changed"], "text" in written[0]) == (True, True, False)
