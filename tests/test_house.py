"""The rules of the house, read off the sources: who may use whom, how long a file is, what the architecture lists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUST = ROOT / "rust" / "src"
PYTHON = ROOT / "python" / "pypto"
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()

SOURCES = [
    path
    for folder in ("rust", "python", "tests", "benches", "examples", "tools")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".rs", ".py", ".pyi", ".sh")
]

# What a module of the core may use beside itself. `python` may use everything.
WORDS = {"dtype", "shape", "id", "error", "sync", "fork"}
RUST_MAY_USE = {
    "arena": WORDS,
    "trace": WORDS,
    "program": WORDS,
    "kernels": WORDS,
    "device": WORDS | {"arena", "trace", "program", "kernels"},
    "worker": WORDS | {"arena", "trace", "program", "device"},
}

PYTHON_MAY_USE = {
    "language": {"errors"},
    "ir": {"language", "environment", "errors", "failures"},
    "frontend": {"language", "ir", "errors"},
    "backend": {"ir", "errors"},
    "debug": {"failures"},
    "runtime": {"_pypto", "environment", "ir", "language", "failures"},
    "pytest_plugin": {"environment", "runtime", "_pypto"},
    "cli": {"__version__", "frontend", "ir", "language", "runtime"},
}


def test_no_file_is_longer_than_600_lines() -> None:
    assert SOURCES
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > 600} == {}


@pytest.mark.parametrize("module", RUST_MAY_USE)
def test_a_module_of_the_core_uses_only_what_is_below_it(module: str) -> None:
    used = {}
    for path in (RUST / module).rglob("*.rs"):
        for name in re.findall(r"\bcrate::([a-z_]+)::", path.read_text()):
            used.setdefault(name, path.relative_to(ROOT))
    assert {name: path for name, path in used.items() if name not in RUST_MAY_USE[module] | {module}} == {}


def test_only_the_python_module_knows_pyo3() -> None:
    outside = [path for path in RUST.rglob("*.rs") if "python" not in path.relative_to(RUST).parts]
    assert outside
    assert [path for path in outside if re.search(r"^\s*use pyo3|\bpyo3::", path.read_text(), flags=re.MULTILINE)] == []


@pytest.mark.parametrize("package", PYTHON_MAY_USE)
def test_a_python_package_uses_only_what_is_below_it(package: str) -> None:
    used = {}
    for path in (PYTHON / package).rglob("*.py"):
        for groups in re.findall(
            r"^\s*(?:from pypto\.(\w+)|import pypto\.(\w+)|from pypto import (.+))", path.read_text(), re.M
        ):
            for name in re.findall(r"\w+", " ".join(groups).split(" as ")[0]):
                used.setdefault(name, path.relative_to(ROOT))
    assert {name: path for name, path in used.items() if name not in PYTHON_MAY_USE[package] | {package}} == {}


def test_the_architecture_page_says_of_each_dependency_why_it_is_there() -> None:
    manifest = (ROOT / "Cargo.toml").read_text()
    sections = re.findall(r"^\[(?:target\..*\.)?(?:dev-)?dependencies\]\n(.*?)(?=^\[|\Z)", manifest, re.M | re.S)
    dependencies = set(re.findall(r"^([a-z][\w-]*) *=", "\n".join(sections), re.M))
    assert dependencies
    table = ARCHITECTURE.split("## Dependencies")[1].split("\n## ")[0]
    assert dependencies - set(re.findall(r"`([\w-]+)`", table)) == set()


def test_the_architecture_page_lists_where_unsafe_code_is_allowed() -> None:
    allowed = {
        path.relative_to(RUST)
        for path in RUST.rglob("*.rs")
        if "allow(unsafe_code)" in path.read_text() and "test" not in str(path.relative_to(RUST))
    }
    rows = re.findall(r"^\| (`.*?) \|", ARCHITECTURE.split("## `unsafe`")[1].split("\n## ")[0], re.M)
    listed = set(re.findall(r"`([\w/.]+)`", " ".join(rows)))
    unlisted = {str(path) for path in allowed if not listed & {str(path), *(f"{parent}/" for parent in path.parents)}}
    assert unlisted == set()
    assert {name for name in listed if not (RUST / name).exists()} == set()


def test_no_file_holds_the_two_sides_of_a_merge() -> None:
    texts = {".rs", ".py", ".pyi", ".md", ".toml", ".sh"}
    folders = ["rust", "python", "tests", "benches", "examples", "docs", "tools"]
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in texts]
    assert files
    for path in [*files, *ROOT.glob("*.md"), *ROOT.glob("*.toml")]:
        assert not re.search(r"^(<{7}|={7}|>{7})( |$)", path.read_text(), flags=re.MULTILINE), path
