"""A second S3 service for tests: versitygw, a gateway of Go over a directory, built from its module. The interface is that of radosgw.py (s3_service.py).

    with Versitygw() as g:
        g.url, g.access_key, g.secret_key, g.bucket("name")
    tests/lib/versitygw.py -- COMMAND...    runs a command with FLAMETREE_TEST_S3 set to the service's URL
    tests/lib/versitygw.py --serve FILE     runs until SIGTERM; once it takes requests, FILE has the settings of a server that uses it
    tests/lib/versitygw.py --build          builds it and says where it is
"""
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time

from s3_service import BUCKET, S3Service, free_ports

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
VERSION = "v1.8.0"


def build():
    """Path of the program, in build/s3. It takes two minutes of both processors, once; of tests at the same time one builds and the others wait."""
    folder = os.path.join(TOP, "build/s3")
    path = os.path.join(folder, "versitygw-" + VERSION)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            go = subprocess.run([os.path.join(TOP, "tests/lib/go")], capture_output=True, text=True)
            if go.returncode:
                raise RuntimeError(go.stderr.strip())
            bin_folder = os.path.join(folder, "bin")
            env = {**os.environ, "GOBIN": bin_folder, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
            done = subprocess.run([go.stdout.strip(), "install", "github.com/versity/versitygw/cmd/versitygw@" + VERSION], env=env, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            os.rename(os.path.join(bin_folder, "versitygw"), path)
    return path


def with_attributes():
    """A new folder where files have extended attributes, in which versitygw keeps what it knows of objects. (Its other way, files beside them, goes
    wrong when objects of one folder come and go at the same time: a name that is free counts as taken.)"""
    for place in (None, os.path.join(TOP, "build")):
        folder = tempfile.mkdtemp(prefix="versitygw-", dir=place)
        try:
            os.setxattr(folder, "user.try", b"1")
            return folder
        except OSError:
            os.rmdir(folder)
    raise AssertionError("versitygw needs a file system with extended attributes, in the folder for temporary files or in build/")


class Versitygw(S3Service):
    host = "127.0.0.1"

    def __enter__(self):
        self.dir = with_attributes()
        os.mkdir(os.path.join(self.dir, "data"))
        self.port = free_ports(1)
        self.url = "http://%s:%d" % (self.host, self.port)
        env = {**os.environ, "ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        command = [build(), "--port", "%s:%d" % (self.host, self.port), "--region", self.region, "posix", os.path.join(self.dir, "data")]
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        try:
            self.wait()
            self.bucket(BUCKET)
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.call("GET", "/")
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError("versitygw does not listen:\n" + self.tail())
                time.sleep(0.1)

    def tail(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            return "".join(f.readlines()[-20:])

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        print(build())
        sys.exit(0)
    Versitygw.main()
