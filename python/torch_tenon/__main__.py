"""python -m torch_tenon --cmake-prefix: the folder in which find_package(tenon) looks, for CMAKE_PREFIX_PATH."""
import argparse
import pathlib

from . import __version__

parser = argparse.ArgumentParser(prog="python -m torch_tenon")
parser.add_argument("--cmake-prefix", action="store_true", help="print the folder for CMAKE_PREFIX_PATH of C++ programs")
parser.add_argument("--version", action="version", version=__version__)
if parser.parse_args().cmake_prefix:
    print(pathlib.Path(__file__).resolve().parent)
else:
    parser.print_help()
