"""Print the requirements that pyproject.toml states, one a line, so that no second list can disagree with it.

``python tools/requirements.py [--missing] GROUP...``, where a group is ``build-system``, ``project`` or the name of an
extra. With ``--missing`` only what this interpreter does not have yet is printed.
"""

import importlib.metadata
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10; every virtual environment has pip, and pip brings its reader along.
    from pip._vendor import tomli as tomllib

from pip._vendor.packaging.requirements import Requirement

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def requirements(groups: list[str]) -> list[str]:
    """The requirements of ``groups``; an extra that names this project's other extras is resolved."""
    document = tomllib.loads(PYPROJECT.read_text())
    project = document["project"]
    found: list[str] = []
    for group in groups:
        if group == "build-system":
            found += document["build-system"]["requires"]
        elif group == "project":
            found += project["dependencies"]
        else:
            for text in project["optional-dependencies"][group]:
                requirement = Requirement(text)
                found += requirements(sorted(requirement.extras)) if requirement.name == project["name"] else [text]
    return list(dict.fromkeys(found))


def is_installed(text: str) -> bool:
    """Whether this interpreter has a version that satisfies ``text``."""
    requirement = Requirement(text)
    try:
        return requirement.specifier.contains(importlib.metadata.version(requirement.name), prereleases=True)
    except importlib.metadata.PackageNotFoundError:
        return False


def main(arguments: list[str]) -> None:
    """Print what was asked for."""
    only_missing = "--missing" in arguments
    for text in requirements([argument for argument in arguments if argument != "--missing"]):
        if not (only_missing and is_installed(text)):
            print(text)


if __name__ == "__main__":
    main(sys.argv[1:])
