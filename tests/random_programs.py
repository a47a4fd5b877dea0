"""Random bodies of kernels: operations under loops and branches, as text."""

from hypothesis import strategies as st

TILES, SCALARS = 3, 2

tile = st.sampled_from([f"t{number}" for number in range(TILES)])
scalar = st.sampled_from([f"n{number}" for number in range(SCALARS)])
small = st.integers(0, 3)

on_names = st.one_of(
    st.builds("{} = {}".format, tile, tile),
    st.builds("{0}, {1} = {1}, {0}".format, tile, tile),
    st.builds("{} = {}".format, scalar, scalar),
    st.builds("{} = ({} * 3 + {}) % 7".format, scalar, scalar, small),
    st.builds("{0}, {1} = {1} + 1, {0}".format, scalar, scalar),
)
condition = st.one_of(
    st.builds("{} % 2 == {}".format, scalar, st.integers(0, 1)),
    st.builds("{} < {}".format, scalar, st.integers(0, 6)),
    st.builds("{} > 2 and not {} == 5".format, scalar, scalar),
)


def blocks(depth: int, in_loop: bool, operations: st.SearchStrategy[str]) -> st.SearchStrategy[list]:
    """Statements: text, or `(head, body, orelse)`. `operations` are those that have a scope of their own."""
    tiles = operations.map(lambda text: ("tiles", text))
    statement = st.one_of(tiles, on_names.map(lambda text: ("names", text)))
    if depth:
        inner = blocks(depth - 1, in_loop, operations)
        branch = st.tuples(condition.map("if {}:".format), inner, st.one_of(st.just([]), inner))
        looped = blocks(depth - 1, True, operations)
        loop = st.tuples(small.map(f"for i{depth} in pl.range({{}}):".format), looped, st.just([]))
        statement = st.one_of(statement, branch, loop)
    if in_loop:
        leave = st.builds("{}\n    {}".format, condition.map("if {}:".format), st.sampled_from(["break", "continue"]))
        statement = st.one_of(statement, leave.map(lambda text: ("names", text)))
    return st.lists(statement, min_size=1, max_size=4)


def render(body: list, indent: str, scoped: bool) -> list[str]:
    lines: list[str] = []
    for statement in body:
        if len(statement) == 3:
            head, inner, orelse = statement
            lines += [indent + head, *render(inner, indent + "    ", scoped)]
            if orelse:
                lines += [indent + "else:", *render(orelse, indent + "    ", scoped)]
            continue
        kind, text = statement
        if kind == "tiles" and scoped:
            lines += [f"{indent}with pl.at(level=pl.Level.CORE_GROUP):", f"{indent}    {text}"]
        else:
            lines += [indent + line for line in text.splitlines()]
    return lines


def kernel_of(text: str, path) -> object:
    path.write_text(text)
    scope: dict[str, object] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), scope)
    return scope["kernel"]
