"""Media types of pictures, sounds and files: as servers write them, as they are, and the endings of files."""

import re
from typing import Final

UNKNOWN: Final = "application/octet-stream"
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The pictures that models take, and that become cells of KNIME."""
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+", re.ASCII)
_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"%PDF-": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x1f\x8b\x08": "application/gzip",
    b"PAR1": "application/vnd.apache.parquet",
    b"ID3": "audio/mpeg",
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
}
_IN_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
# Names that are not registered, or no longer, for types that are.
_ALIASES: Final = {
    **dict.fromkeys(("image/jpg", "image/pjpeg", "image/jpe", "image/jfif"), "image/jpeg"),
    **dict.fromkeys(("image/x-png", "image/apng"), "image/png"),
    **dict.fromkeys(("application/x-pdf", "text/pdf"), "application/pdf"),
    **dict.fromkeys(("audio/mp3", "audio/x-mp3", "audio/mpeg3"), "audio/mpeg"),
    **dict.fromkeys(("audio/wave", "audio/x-wav", "audio/vnd.wave"), "audio/wav"),
    **dict.fromkeys(("application/x-zip", "application/x-zip-compressed"), "application/zip"),
    **dict.fromkeys(("application/binary", "binary/octet-stream", "application/unknown"), UNKNOWN),
    "image/svg": "image/svg+xml",
    "image/tif": "image/tiff",
    "text/json": "application/json",
}
# Not all of these media types are known to Python's `mimetypes`.
_ENDINGS: Final = {
    "audio/wav": ".wav",
    "audio/webm": ".weba",
    "audio/flac": ".flac",
    "application/vnd.apache.parquet": ".parquet",
}
# Servers choose the type, so no program, script, macro or web page gets an ending with which it would run.
_HARMLESS: Final = re.compile(
    r"\.(?:aac|avif|bmp|csv|docx|flac|gif|gz|heic|ico|jpe?g|json|m4a|md|midi?|mov|mp[34]|mpe?g|od[pst]|og[agv]"
    r"|opus|parquet|pdf|png|pptx|svg|tar|tiff?|tsv|txt|wav|web[amp]|xlsx|xml|ya?ml|zip)"
)


def media_type(declared: object, data: bytes = b"", *, family: str = "", name: str = "") -> str:
    """The media type of data, in lower case, without parameters; `UNKNOWN` if nothing says it.

    What is declared counts, in whatever form it is written. How the data begin counts where nothing usable is
    declared, and for pictures and sounds: models' endpoints refuse a picture of another type than it is said
    to have.

    Args:
        declared: What the server says; no text is nothing.
        data: The content, or its beginning.
        family: ``image`` or ``audio``, for a type that is written without it, such as ``png``.
        name: A file name or URI, which may have an ending, if nothing else says what it is.
    """
    text = declared.partition(";")[0].strip().lower() if isinstance(declared, str) else ""
    if family and text and "/" not in text:
        text = f"{family}/{text.removeprefix('.')}"
    kind = _ALIASES.get(text, text) if _TYPE.fullmatch(text) else UNKNOWN
    if kind == UNKNOWN or kind.startswith(("image/", "audio/")):
        found = _by_content(data)
        if found != UNKNOWN and (kind == UNKNOWN or found.startswith("image/")):
            return found
    if kind == UNKNOWN and name:
        import mimetypes

        return mimetypes.guess_type(name)[0] or UNKNOWN
    return kind


def _by_content(data: bytes) -> str:
    # RIFF is a container of pictures, sound and film: the kind stands behind its length.
    if data[:4] == b"RIFF":
        return _IN_RIFF.get(data[8:12], UNKNOWN)
    kinds = (kind for signature, kind in _SIGNATURES.items() if data.startswith(signature))
    return next(kinds, UNKNOWN)


def file_ending(declared: str) -> str:
    """The ending of the name of a file, by its media type."""
    import mimetypes  # which reads the machine's own list

    kind = media_type(declared)
    ending = _ENDINGS.get(kind) or mimetypes.guess_extension(kind, strict=False) or ""
    other = ".txt" if kind.startswith("text/") else ".bin"
    return ending if _HARMLESS.fullmatch(ending) else other
