"""PyTorch's samples of its ops. By default a twentieth of the ops, another one each day; TENON_OPINFO_PARTS=1 runs all."""
import datetime
import os
import pathlib
import subprocess
import sys

PARTS = int(os.environ.get("TENON_OPINFO_PARTS", 20))
SAMPLES = os.environ.get("TENON_OPINFO_SAMPLES", "2")


def test_samples(capsys):
    part = datetime.date.today().toordinal() % PARTS
    out = subprocess.run([sys.executable, pathlib.Path(__file__).with_name("opinfo.py"), "--part", f"{part}/{PARTS}", "--samples", SAMPLES], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    with capsys.disabled():
        print("\n" + "\n".join(line for line in out.stdout.splitlines() if "graphs compared" in line))
    assert out.returncode == 0, out.stdout + out.stderr
