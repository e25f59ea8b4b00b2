# SPDX-License-Identifier: Apache-2.0
"""Certificates of nodes, made by the command openssl."""
import os
import subprocess


class Authority:
    """One of its own in a folder: ca.pem and ca.key."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.openssl("req", "-x509", *self.new_key("ca"), "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")

    def openssl(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=self.folder)

    @staticmethod
    def new_key(name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key"]

    def path(self, file):
        return os.path.join(self.folder, file)

    def sign(self, name, *addresses):
        """NAME.pem and NAME.key, for these IP addresses or names; returns the flags of a node that uses them."""
        with open(self.path(name + ".ext"), "w") as f:
            f.write("subjectAltName=%s\n" % ",".join(("DNS:" if address[-1].isalpha() else "IP:") + address for address in addresses))
        self.openssl("req", *self.new_key(name), "-out", name + ".csr", "-subj", "/CN=" + name)
        self.openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", name + ".pem", "-days", "2",
                     "-extfile", name + ".ext")
        return ["--internal.tls_cert_file=" + self.path(name + ".pem"), "--internal.tls_key_file=" + self.path(name + ".key"), "--internal.tls_ca_file=" + self.path("ca.pem")]


def certificates(folder):
    """An authority, and a certificate of it for 127.0.0.1, ca.pem, node.pem and node.key; returns the flags that use them."""
    return Authority(folder).sign("node", "127.0.0.1")
