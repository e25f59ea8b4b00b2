"""Runs a program in which io_uring is forbidden (EPERM), as containers do: without_uring.py PROGRAM ARGUMENT..."""
import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
IO_URING_SETUP = 425  # on every architecture
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # SECCOMP_RET_ERRNO with EPERM


def row(code, k, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, k)


class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("rows", ctypes.c_char_p)]


def forbid():
    rows = row(LOAD, 0) + row(JUMP_IF_EQUAL, IO_URING_SETUP, 0, 1) + row(RETURN, REFUSE) + row(RETURN, ALLOW)
    program = Program(len(rows) // 8, rows)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forbid()
    os.execv(sys.argv[1], sys.argv[1:])
