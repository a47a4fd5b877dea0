"""What `mkdocs build` does beside the ordinary: files of the repository that pages link to, and no network.

A page links to an example as `../examples/kernels/softmax.py`, which is right where the repository is browsed. In the
site such a file is a copy in `source/`, and a link to what does not exist stays an error of the build.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(?=[)#])")
_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//"
)


def on_files(files: Files, config: Any) -> Files:
    """Adds what pages link to and what is not below `docs`."""
    for page in list(files.documentation_pages()):
        for link in _LINK.findall(Path(page.abs_src_path or "").read_text()):
            path = _of_repository(page.src_uri, link)
            if not path.startswith("docs/") and (ROOT / path).is_file():
                name = _in_site(path)
                if files.get_file_from_path(name) is None:
                    files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links to files of the repository become links to the copies."""

    def moved(link: re.Match[str]) -> str:
        path = _of_repository(page.file.src_uri, link[1])
        if path.startswith("docs/") or not (ROOT / path).is_file():
            return link[1]
        return posixpath.relpath(_in_site(path), posixpath.dirname(page.file.src_uri) or ".")

    return _LINK.sub(moved, markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuses a page that would load something from elsewhere."""
    if (found := _LOADED.search(output)) is not None:
        raise PluginError(f"{page.file.src_uri} loads something from the network: {found[0]}")
    return output


def _of_repository(page: str, link: str) -> str:
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))


def _in_site(path: str) -> str:
    # Markdown outside of `docs` is shown as text: its own links are right only where it stands.
    name, extension = os.path.splitext(path)
    return f"source/{name}{'.txt' if extension == '.md' else extension}"
