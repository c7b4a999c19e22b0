"""What each code of a finding means: `E_` codes refuse a container, `W_` codes are warnings."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "E_ABSENT": "The file has no tensor or metadata key of the requested name.",
        "E_ALIGN": "An offset, or the size of the file, is not a multiple of 8.",
        "E_BOUNDS": "Data lie outside of the file, or in front of its data section.",
        "E_CASE": "Two names to be written differ in upper and lower case only, which not every reader tells apart."
        " `allow_case_collisions` permits it.",
        "E_CHECKSUM": "A payload is not what its checksum says, or the checksums do not fit the file: it was damaged.",
        "E_CLOSED": "The file was closed. Open it again, or read what is needed before.",
        "E_COUNT": "The header announces more entries than the table's section could hold.",
        "E_DATA_SIZE": "The data of a tensor have another size than its type and shape need.",
        "E_DIM_OVERFLOW": "The dims of a tensor multiply to more elements or bytes than 63 bits count.",
        "E_DTYPE": "An element type is unknown to the container, or not possible at this place.",
        "E_DUPLICATE": "A name occurs twice in one table.",
        "E_EXTRA": "The source file needs a package that is not installed; the message names it.",
        "E_FILE": "A file cannot be opened, read or written; the message has the system's reason.",
        "E_FILE_SIZE": "The file has another size than its header says: it was cut off, or something was appended.",
        "E_HEADER_FLAGS": "Flags of the header are set, and no version of the format has any.",
        "E_HOLE": "Bytes of the data section belong to no payload, and are more than padding.",
        "E_INPUT": "The object to write contains something that is not a size, metadata or a tensor of a known kind.",
        "E_LIMIT": "Something is larger than a `Limits` of the reader allows; the message names the limit, which can be"
        " raised for files that are trusted.",
        "E_MAGIC": "The file does not start with the bytes of a container: it is another kind of file.",
        "E_META_FLAGS": "Flags of a metadata entry are set, and no version of the format has any.",
        "E_META_SIZE": "A metadata value has another size than its type needs.",
        "E_META_TYPE": "The type of a metadata value is unknown, or not possible for elements of an array.",
        "E_NAME": "A name is empty, or has characters other than A-Z a-z 0-9 . _ -",
        "E_NDIM": "A tensor has more dims than the reader supports (64), or the writer (32).",
        "E_NODATA": "A tensor is declared without data, but its entry has an offset or a size of data.",
        "E_NOQUANT": "A tensor is declared without quantisation, but its entry has an offset or a size for it.",
        "E_NOT_A_FILE": "The path is not a regular file, or cannot be opened as one.",
        "E_OVERLAP": "The payloads of two entries share bytes.",
        "E_PADDING": "Bytes that only fill up to an alignment are not zero.",
        "E_QUANT": "The quantisation of a tensor contradicts itself or the tensor.",
        "E_QUANT_VALUE": "A scale is NaN or infinite; when writing, also one that is not above zero, or a zero point"
        " outside of the element type.",
        "E_RESERVED": "Reserved bytes of the header are not zero.",
        "E_SALVAGE": "Nothing could be saved from a damaged file.",
        "E_SECTION_GAP": "Between a table's end and the next section lie more bytes than alignment needs: perhaps a"
        " file of another version, or hidden data.",
        "E_SECTION_ORDER": "Sections are out of order, overlap each other or the header, or extend past the end.",
        "E_SHAPE": "Values have another shape than was declared for their tensor, or a shape is not a sequence of whole"
        " numbers.",
        "E_SHARDS": "The files of a divided model do not fit one another, or one of them is missing.",
        "E_SOURCE": "The file to be converted is broken, or holds what a container cannot.",
        "E_STATE": "The writer was used out of order: everything is declared before the first payload is written.",
        "E_STRING": "The length of a name passes the end of its section.",
        "E_TABLE_OVERRUN": "A table is longer than its section.",
        "E_TENSOR_FLAGS": "Flags of a tensor are set that this version of the format does not have.",
        "E_TRUNCATED": "The file ends within its header, or became shorter since it was opened.",
        "E_UNINITIALIZED": "The tensor is declared without data: there are no values to read.",
        "E_UNWRITTEN": "A declared tensor was never given its values before the file was finished.",
        "E_USAGE": "The command line was used wrongly; see `--help`.",
        "E_VALUE": "A stored value cannot be: a bool other than 0 and 1, bits outside of a packed type, or the pattern"
        " of t2 that means nothing.",
        "E_VERSION": "The container has a version other than 1 and 2.",
        "W_BITSET": "A tensor of the old bitset type is read as bytes.",
        "W_CASE": "Two names differ in upper and lower case only.",
        "W_CHECKSUM": "The file has no checksums, so damage to its values cannot be detected.",
        "W_LOADER": "Another loader of the format cannot load this value.",
        "W_MORE": "There are more warnings than are shown.",
        "W_ORDER": "The entries of a table are not sorted by name.",
        "W_QUANT_DTYPE": "A tensor of floats or bools has a quantisation.",
        "W_QUANT_VALUE": "A scale is not above zero, or a zero point is outside of the element type.",
        "W_SHARED_NAME": "One name occurs in two tables.",
    }
)
