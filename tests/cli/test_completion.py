"""The shell completes the commands, their options, and the kernels of a file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def installed() -> Path:
    command = Path(sys.executable).with_name("pypto")
    if not command.exists():
        pytest.skip("the command is not installed beside this interpreter")
    return command


def in_bash(script: str) -> str:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    environment = {**os.environ, "PATH": f"{installed().parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_bash_gets_a_script_that_completes() -> None:
    found = in_bash(
        """
source <(pypto --show-completion bash 2> /dev/null || pypto --show-completion)
complete -p pypto > /dev/null || exit 1
reply() { COMP_WORDS=(pypto "$@"); COMP_CWORD=$#; COMPREPLY=(); _pypto_completion pypto; echo "${COMPREPLY[*]}"; }
reply ""
reply be
reply bench --re
reply bench kern
"""
    )
    first, *others = found.splitlines()
    assert {"run", "bench", "trace", "inspect", "doctor", "cache"} <= set(first.split())
    # Nothing for a file: bash then completes the names of files (`-o default`).
    assert others == ["bench", "--resident --report", ""]


KERNELS = Path(__file__).parent / "kernels.py"
OTHERS = """
import pypto.language as pl
from pypto.language import jit, program

@jit(auto=True)
def first(x): ...

@pl.jit.inline
def helper(x): ...

@program
class Second: ...

def plain(x): ...

raise SystemExit("completing imports nothing")
"""


def test_bash_completes_the_kernels_behind_the_colon_which_it_takes_for_a_word(tmp_path: Path) -> None:
    others = tmp_path / "others.py"
    others.write_text(OTHERS)
    found = in_bash(
        f"""
source <(pypto --show-completion bash 2> /dev/null || pypto --show-completion)
reply() {{ COMP_WORDS=(pypto "$@"); COMP_CWORD=$#; COMPREPLY=(); _pypto_completion pypto; echo "${{COMPREPLY[*]}}"; }}
reply bench {KERNELS} : s
reply profile --cores 2 {KERNELS} :
reply bench {KERNELS} : add {others} : fi
reply run {others} :
reply run {tmp_path}/none.py :
reply run {KERNELS} : add --re
"""
    )
    assert found.splitlines() == [
        "scale",
        "double scale add listed undefined half wrong picked Negate",
        "first",
        "first Second",
        "",
        "--resident",
    ]


def test_bash_completes_names_of_arguments_dimensions_tensors_and_passes(tmp_path: Path) -> None:
    found = in_bash(
        f"""
source <(pypto --show-completion bash 2> /dev/null || pypto --show-completion)
reply() {{ COMP_WORDS=(pypto "$@"); COMP_CWORD=$#; COMPREPLY=(); _pypto_completion pypto; echo "${{COMPREPLY[*]}}"; }}
reply inspect {KERNELS} : scale --pass ""
reply inspect {KERNELS} : scale --pass = o
reply bench {KERNELS} : scale --dim ""
reply bench {KERNELS} : scale --arg ""
reply bench {KERNELS} : scale --arg f
reply bench {KERNELS} : scale --arg x =
reply bench {KERNELS} : scale --arg x = 1
reply bench {KERNELS} : scale --arg x = 16x64 : fp3
reply bench {KERNELS} : scale --arg x = 16x64 : fp32 --dim = ""
reply bench {KERNELS} : scale --resident ""
reply bench {KERNELS} : scale --resident x,
reply run {KERNELS} : Negate --resident ""
reply run {KERNELS} : double --dim ""
reply bench {KERNELS} : double {KERNELS} : add --resident ""
reply run {KERNELS} --arg ""
reply run {tmp_path}/none.py : x --arg ""
"""
    )
    assert found.splitlines() == [
        "frontend outline phases",
        "outline",
        "M=16 M=64 M=256",
        "x=16x64:fp16 x=16x64:fp32 factor=1 factor=2 out=16x64:fp16 out=16x64:fp32",
        "factor=1 factor=2",
        "16x64:fp16 16x64:fp32",
        "16x64:fp16 16x64:fp32",
        "fp32",
        "M=16 M=64 M=256",
        "x out",
        "x,out",
        "x out",
        "",
        "x out a b",
        "",
        "",
    ]


@pytest.mark.parametrize(("shell", "word"), [("zsh", r"kernels.py\\:scale"), ("fish", "kernels.py:scale")])
def test_other_shells_complete_the_whole_word(shell: str, word: str) -> None:
    environment = {
        **os.environ,
        "_PYPTO_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": f"pypto run {KERNELS}:sc",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run([installed()], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert word in done.stdout, done.stderr
    assert "double" not in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_theirs(shell: str) -> None:
    environment = {
        **os.environ,
        "_PYPTO_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "pypto do",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run([installed()], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "doctor" in done.stdout, done.stderr
    assert "bench" not in done.stdout
