"""Element types. `pl.FP32`, `pl.INT8`, ... are instances of `DataType`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

_FLOAT, _SIGNED, _UNSIGNED, _BOOL, _OTHER = "float", "signed", "unsigned", "bool", "other"


class DataType:
    """The type of one element, or of a scalar.

    Instances are unique, so `is` compares them. `name` is what `pl` calls it; `kind` says whether it is a float, an
    integer, a truth value or an id; `bits` counts the bits of one element; `torch_name` is the name in
    torch without its prefix, or `None` where torch has no such type; `supported` says whether tensors and tiles can
    have it (as a scalar type every integer is fine).
    """

    __slots__ = ("bits", "kind", "name", "supported", "torch_name")

    _by_name: ClassVar[dict[str, DataType]] = {}
    _by_torch: ClassVar[dict[str, DataType]] = {}

    name: str
    bits: int
    kind: str
    torch_name: str | None
    supported: bool

    def __init__(self, name: str, bits: int, kind: str, torch_name: str | None, supported: bool = True) -> None:
        self.name = name
        self.bits = bits
        self.kind = kind
        self.torch_name = torch_name
        self.supported = supported
        DataType._by_name[name] = self
        if torch_name is not None:
            DataType._by_torch.setdefault(torch_name, self)

    @property
    def why_not(self) -> str:
        """Which feature a type needs that this device does not have, for messages; empty for the others."""
        if self.bits < 8:
            return f": {self.name} packs two elements into a byte, and packed types are not supported"
        if self.is_float and self.bits == 8:
            return f": {self.name} needs 8-bit floats (matmul_mx), which are not supported"
        return ""

    @property
    def with_article(self) -> str:
        """The name in a sentence, "an FP32", "a UINT8": the article goes with how the first letter is read."""
        return f"{'an' if self.name[0] in 'FHI' else 'a'} {self.name}"

    @property
    def of_elements(self) -> DataType:
        """The type of elements that this name means: INDEX is a name for scalars, in memory it is INT64."""
        return DataType._by_name["INT64"] if self.name == "INDEX" else self

    @property
    def is_float(self) -> bool:
        """Whether elements are floating point numbers."""
        return self.kind == _FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers; INDEX is one, BOOL is not."""
        return self.kind in (_SIGNED, _UNSIGNED)

    @property
    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        return self.kind in (_SIGNED, _FLOAT)

    @property
    def is_bool(self) -> bool:
        """Whether elements are truth values."""
        return self.kind == _BOOL

    def get_byte(self) -> int:
        """Bytes of one element, rounded up."""
        return (self.bits + 7) // 8

    def get_bit(self) -> int:
        """Bits of one element."""
        return self.bits

    def to_torch(self) -> Any:
        """The `torch.dtype` of the same name; `TypeError` where torch has none. Imports torch."""
        if self.torch_name is None:
            raise TypeError(f"{self!r} has no torch counterpart")
        import torch

        return getattr(torch, self.torch_name)

    @staticmethod
    def from_name(name: str) -> DataType:
        """Finds a type by its `name` in this module; `ValueError` where there is none."""
        found = DataType._by_name.get(name)
        if found is None:
            raise ValueError(f"unknown data type {name!r}; known: {', '.join(DataType._by_name)}")
        return found

    @staticmethod
    def of(dtype: object) -> DataType | None:
        """The type that `dtype` of torch or numpy (or an instance of this class) stands for, or `None`.

        Works by name, so that neither torch nor numpy is imported.
        """
        if isinstance(dtype, DataType):
            return dtype
        return DataType._by_torch.get(str(dtype).rpartition(".")[2])

    def __repr__(self) -> str:
        return f"pl.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return DataType.from_name, (self.name,)


BOOL: Final = DataType("BOOL", 8, _BOOL, "bool")
INT4: Final = DataType("INT4", 4, _SIGNED, None, False)
UINT4: Final = DataType("UINT4", 4, _UNSIGNED, None, False)
INT8: Final = DataType("INT8", 8, _SIGNED, "int8")
INT16: Final = DataType("INT16", 16, _SIGNED, "int16")
INT32: Final = DataType("INT32", 32, _SIGNED, "int32")
INT64: Final = DataType("INT64", 64, _SIGNED, "int64")
UINT8: Final = DataType("UINT8", 8, _UNSIGNED, "uint8")
UINT16: Final = DataType("UINT16", 16, _UNSIGNED, "uint16")
UINT32: Final = DataType("UINT32", 32, _UNSIGNED, "uint32")
UINT64: Final = DataType("UINT64", 64, _UNSIGNED, "uint64", False)
FP16: Final = DataType("FP16", 16, _FLOAT, "float16")
BF16: Final = DataType("BF16", 16, _FLOAT, "bfloat16")
FP32: Final = DataType("FP32", 32, _FLOAT, "float32")
FP4: Final = DataType("FP4", 4, _FLOAT, "float4_e2m1fn_x2", False)
FP8E4M3FN: Final = DataType("FP8E4M3FN", 8, _FLOAT, "float8_e4m3fn", False)
FP8E5M2: Final = DataType("FP8E5M2", 8, _FLOAT, "float8_e5m2", False)
FP8E8M0: Final = DataType("FP8E8M0", 8, _FLOAT, "float8_e8m0fnu", False)
HF4: Final = DataType("HF4", 4, _FLOAT, None, False)
HF8: Final = DataType("HF8", 8, _FLOAT, None, False)
INDEX: Final = DataType("INDEX", 64, _SIGNED, None)
TASK_ID: Final = DataType("TASK_ID", 64, _OTHER, None)

ALL: Final = tuple(DataType._by_name.values())

for _dtype in ALL:  # `DataType.INT32` is a spelling that signatures use
    setattr(DataType, _dtype.name, _dtype)
