"""Looks for a text in files, as it is and in what is packed in them."""
import ctypes
import os

ZSTD = ctypes.CDLL("libzstd.so.1")
for name in ("ZSTD_decompress", "ZSTD_isError", "ZSTD_findFrameCompressedSize"):
    getattr(ZSTD, name).restype = ctypes.c_size_t
MAGIC = b"\x28\xb5\x2f\xfd"  # a frame of zstd begins with it


def unpacked(data):
    """Each frame of zstd, wherever it begins."""
    room = ctypes.create_string_buffer(16 << 20)
    at = data.find(MAGIC)
    while at >= 0:
        rest = data[at:]
        size = ZSTD.ZSTD_findFrameCompressedSize(rest, ctypes.c_size_t(len(rest)))
        if 0 < size <= len(rest):
            n = ZSTD.ZSTD_decompress(room, ctypes.c_size_t(len(room)), rest, ctypes.c_size_t(size))
            if not ZSTD.ZSTD_isError(ctypes.c_size_t(n)):
                yield room.raw[:n]
        at = data.find(MAGIC, at + 4)


def files_with(top, *texts):
    """Those below a folder that have one of the texts."""
    found, wanted = [], [text.encode() for text in texts]
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as f:
                data = f.read()
            if any(text in piece for piece in (data, *unpacked(data)) for text in wanted):
                found.append(path)
    return sorted(found)
