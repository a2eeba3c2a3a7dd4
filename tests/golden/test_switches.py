"""The runner's switches: TENON_SKIP_PASS leaves passes out, TENON_DEBUG=3 prints what changed."""
import os
import subprocess

OPT = os.environ.get("TENON_OPT", "tenon-opt")
GRAPH = """graph @g {
  input %0 : f32[4] argument "x"
  %1 : f32[4] = aten::neg(%0)
  %2 : f32[4] = aten::mul.Scalar(%1, 1.0)
  %3 : f32[4] = aten::exp(%2)
  return %3
}
"""


def run(**extra):
    return subprocess.run([OPT, "--all"], input=GRAPH, capture_output=True, text=True, env={**os.environ, **extra})


def test_all():
    out = run()
    assert out.returncode == 0 and "mul" not in out.stdout and out.stderr == ""


def test_skip():
    assert "aten::mul.Tensor" in run(TENON_SKIP_PASS="fold").stdout
    assert "aten::mul.Scalar" in run(TENON_SKIP_PASS="fold,canonicalise").stdout


def test_skip_of_an_unknown_pass():
    out = run(TENON_SKIP_PASS="folding")
    assert out.returncode == 1 and "no pass is named 'folding'" in out.stderr


def test_debug():
    text = run(TENON_DEBUG="3").stderr
    assert [line.split(",")[0] for line in text.splitlines() if line[0] == "#"] == ["# after canonicalise", "# after fold"]
    assert run(TENON_DEBUG="2").stderr == ""
